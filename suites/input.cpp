#include "suites/input.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "suites/generator.hpp"
#include "suites/input_file.hpp"
#include "suites/suggest.hpp"
#include "suites/tensor_file.hpp"

namespace opbound {
namespace {

using detail::Generator;

const std::vector<Generator>& generators() {
  static const std::vector<Generator> all = [] {
    std::vector<Generator> list;
    for (const auto part :
         {detail::random_generators(), detail::row_generators(), detail::listed_generators(),
          detail::index_generators(), detail::file_generators()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

const Generator& generator_named(std::string_view kind) {
  std::vector<std::string_view> kinds;
  for (const Generator& g : generators()) {
    if (g.info.kind == kind) return g;
    kinds.push_back(g.info.kind);
  }
  throw InputError("", "unknown generator " + detail::in_quotes_with_suggestion(kind, kinds),
                   detail::one_of(kinds));
}

bool reads_file(const GeneratorInfo& g) { return g.parameters.starts_with("path"); }
bool takes_tensor(const GeneratorInfo& g) { return g.parameters == "path tensor"; }

std::optional<double> number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

struct Parameter {
  std::string_view name;
  double value;
};

/// "mean=0 sigma=1" as a list; empty for a kind that reads a file.
std::vector<Parameter> defaults_of(const GeneratorInfo& g) {
  std::vector<Parameter> all;
  if (reads_file(g)) return all;
  for (std::string_view rest = g.parameters; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view one = rest.substr(0, end);
    const std::size_t sign = one.find('=');
    all.push_back({one.substr(0, sign), *number(one.substr(sign + 1))});
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return all;
}

/// The values of all parameters, in the generator's order.
std::vector<double> values_of(const InputSpec& spec, const GeneratorInfo& g) {
  std::vector<double> values;
  for (const Parameter& p : defaults_of(g)) {
    const auto given = std::find_if(spec.parameters.begin(), spec.parameters.end(),
                                    [&](const auto& s) { return s.first == p.name; });
    values.push_back(given == spec.parameters.end() ? p.value : given->second);
  }
  return values;
}

std::string_view stripped(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

constexpr std::string_view tensor_key = ", tensor=";
constexpr std::string_view layout_mark = " @";

/// "mean=1, sigma=5"
void parse_parameters(std::string_view text, InputSpec& spec) {
  for (std::string_view rest = text; !stripped(rest).empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view one = stripped(rest.substr(0, end));
    const std::size_t sign = std::min(one.find('='), one.size());
    const auto value = number(stripped(one.substr(std::min(sign + 1, one.size()))));
    if (!value)
      throw InputError("", "parameter " + detail::in_quotes(one) + " of " + spec.kind,
                       "name = number");
    spec.parameters.emplace_back(stripped(one.substr(0, sign)), *value);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace

std::span<const GeneratorInfo> all_generators() {
  static const std::vector<GeneratorInfo> all = [] {
    std::vector<GeneratorInfo> list;
    for (const Generator& g : generators()) list.push_back(g.info);
    return list;
  }();
  return all;
}

std::string to_string(const InputSpec& spec) {
  std::string text;
  if (!spec.path.empty()) text = spec.path;
  if (!spec.tensor.empty()) text.append(tensor_key).append(spec.tensor);
  for (const auto& [name, value] : spec.parameters)
    text.append(text.empty() ? "" : ", ").append(name).append("=").append(detail::text_of(value));
  text = text.empty() ? spec.kind : spec.kind + "(" + text + ")";
  if (spec.layout == Layout::contiguous) return text;
  return text.append(layout_mark).append(layout_names[static_cast<std::size_t>(spec.layout)]);
}

InputSpec parse_input(std::string_view text) {
  InputSpec spec;
  if (const std::size_t mark = text.rfind(layout_mark); mark != std::string_view::npos) {
    const std::string_view word = text.substr(mark + layout_mark.size());
    const auto found = std::find(layout_names.begin(), layout_names.end(), word);
    if (found == layout_names.end())
      throw InputError("",
                       "unknown layout " + detail::in_quotes_with_suggestion(word, layout_names),
                       detail::one_of(layout_names));
    spec.layout = static_cast<Layout>(found - layout_names.begin());
    text = stripped(text.substr(0, mark));
  }
  const std::size_t open = std::min(text.find('('), text.size());
  spec.kind = stripped(text.substr(0, open));
  if (open < text.size()) {
    std::string_view inside = stripped(text.substr(open + 1));
    if (!inside.ends_with(')'))
      throw InputError("", "no ')' at the end of " + detail::in_quotes(text),
                       "kind(name = number)");
    inside = stripped(inside.substr(0, inside.size() - 1));
    if (reads_file(generator_named(spec.kind).info)) {
      const std::size_t key = std::min(inside.rfind(tensor_key), inside.size());
      spec.path = inside.substr(0, key);
      if (key < inside.size()) spec.tensor = inside.substr(key + tensor_key.size());
    } else {
      parse_parameters(inside, spec);
    }
  }
  normalize(spec);
  return spec;
}

void normalize(InputSpec& spec) {
  const GeneratorInfo& g = generator_named(spec.kind).info;
  if (reads_file(g) && spec.path.empty())
    throw InputError("", spec.kind + " without a file", spec.kind + "(path)");
  if (!reads_file(g) && !spec.path.empty())
    throw InputError("", spec.kind + " with a path", "a kind that reads a file");
  if (!takes_tensor(g) && !spec.tensor.empty())
    throw InputError("", spec.kind + " with the name of a tensor", "kind file");

  std::vector<std::string_view> names;
  for (const Parameter& p : defaults_of(g)) names.push_back(p.name);
  const auto place = [&](const auto& given) {
    return std::find(names.begin(), names.end(), given.first) - names.begin();
  };
  for (const auto& given : spec.parameters)
    if (place(given) == std::ssize(names))
      throw InputError("",
                       "unknown parameter " +
                           detail::in_quotes_with_suggestion(given.first, names) + " of " +
                           spec.kind,
                       names.empty() ? "none" : detail::one_of(names));
  std::stable_sort(spec.parameters.begin(), spec.parameters.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  const auto twice =
      std::adjacent_find(spec.parameters.begin(), spec.parameters.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != spec.parameters.end())
    throw InputError("", "parameter '" + twice->first + "' twice", "each parameter once");
}

namespace {
Domain domain_of(Element e) {
  return is_float(e) ? Domain::numbers : e == Element::boolean ? Domain::booleans : Domain::indices;
}
}  // namespace

std::string_view default_kind(Element element) {
  constexpr std::array<std::string_view, 3> kinds{"normal", "index", "mask"};
  return kinds[static_cast<std::size_t>(domain_of(element))];
}

void check_input(const InputSpec& spec, Element element) {
  const Generator& g = generator_named(spec.kind);
  InputSpec normal = spec;
  normalize(normal);
  if (!takes_tensor(g.info) && g.info.domain != domain_of(element)) {
    std::string expected = "one of";
    for (const Generator& other : generators())
      if (other.info.domain == domain_of(element)) expected.append(" ").append(other.info.kind);
    throw InputError("", spec.kind + " for a tensor of " + std::string(name_of(element)), expected);
  }
  if (reads_file(g.info))
    const InputFile is_there(spec.path);
  else
    g.check(values_of(spec, g.info), is_float(element) ? format_of(element) : fp64);
}

void fill_input(Tensor& tensor, const InputSpec& spec, std::uint64_t seed, std::string_view stream,
                std::int64_t below) {
  check_input(spec, tensor.element());
  const Generator& g = generator_named(spec.kind);
  if (g.fill != nullptr) return g.fill(tensor, spec);
  const std::vector<double> parameters = values_of(spec, g.info);
  const Shape& shape = tensor.shape();
  const Element e = tensor.element();
  detail::Place place{is_float(e) ? format_of(e) : fp64, parameters,
                      shape.empty() ? 1 : static_cast<std::uint64_t>(shape.back()), seed,
                      detail::stream_of(stream)};
  place.below = static_cast<std::uint64_t>(below);
  for (std::int64_t i = 0, n = tensor.count(); i < n; ++i) {
    place.index = static_cast<std::uint64_t>(i);
    tensor.set(i, g.value(place));
  }
}

}  // namespace opbound
