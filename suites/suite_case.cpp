#include "suites/suite_case.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "suites/input.hpp"
#include "suites/suggest.hpp"

namespace opbound::detail {
namespace {

constexpr std::array<std::string_view, 11> case_keys{
    "name",       "direction", "precision", "variant", "declare", "shape",
    "attributes", "input",     "seed",      "tier",    "vacuous"};
constexpr std::array<std::string_view, 3> tier_names{"quick", "full", "nightly"};

/// A tensor of 2^28 elements takes some 20 GiB to judge.
constexpr std::int64_t most_elements = std::int64_t{1} << 28;
constexpr std::size_t most_checks = 100000;

/// The place of a word in a list of names; InputError if it is not one of them.
std::size_t place_of(const TomlValue& value, std::span<const std::string_view> names,
                     std::string_view what) {
  const std::string word = value.text(one_of(names));
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end())
    value.refuse("unknown " + std::string(what) + " " + in_quotes_with_suggestion(word, names),
                 one_of(names));
  return static_cast<std::size_t>(found - names.begin());
}

std::vector<Direction> read_directions(const TomlValue* value, const Op& op) {
  if (value == nullptr) return {Direction::forward};
  std::vector<Direction> all;
  for (const TomlValue& v : value->one_or_list()) {
    all.push_back(static_cast<Direction>(place_of(v, direction_names, "direction")));
    if (all.back() != Direction::forward && !op.backward)
      v.refuse(std::string(op.name) + " has no backward pass", "forward");
  }
  return all;
}

/// Formats that a kernel computes in (with_compute_type in ops/instantiate/walk.hpp).
bool has_kernel(const Format& f) { return f == fp64 || f == fp32 || f == bf16 || f == fp16; }

std::vector<Precision> read_precisions(const TomlValue& value) {
  constexpr std::string_view expected =
      "storage:compute:output or one format, of fp64 fp32 tf32 bf16 fp16 e4m3 e5m2";
  std::vector<Precision> all;
  for (const TomlValue& v : value.one_or_list()) {
    const std::string text = v.text(expected);
    const auto precision = precision_named(text);
    if (!precision) v.refuse("unknown precision '" + text + "'", expected);
    if (!has_kernel(precision->compute))
      v.refuse("no kernel computes in " + std::string(name_of(precision->compute)),
               "one of fp64, fp32, bf16, fp16");
    all.push_back(*precision);
  }
  return all;
}

AttributeValue attribute_value(const TomlValue& v, const std::string& expected) {
  if (v.is_flag()) return v.flag();
  if (v.is_whole()) return v.whole(std::numeric_limits<std::int64_t>::min(), expected);
  if (v.is_text()) return v.text();
  return v.number(expected);
}

std::vector<AttributeBytes> read_attributes(const TomlValue* value, const Op& op) {
  std::vector<AttributeBytes> all{op.default_attributes};
  if (value == nullptr) return all;
  std::vector<std::string_view> names;
  for (const AttributeSpec& a : op.attributes) names.push_back(a.name);
  const TomlTable table(*value, names);
  for (const AttributeSpec& a : op.attributes) {
    const TomlValue* choices = table.find(a.name);
    if (choices == nullptr) continue;
    std::vector<AttributeBytes> longer;
    for (const AttributeBytes& begun : all)
      for (const TomlValue& v : choices->one_or_list()) {
        longer.push_back(begun);
        if (!a.set(longer.back(), attribute_value(v, a.expected)))
          v.refuse(v.is_text() ? in_quotes_with_suggestion(v.text(), {}) : "not such a value",
                   a.expected);
      }
    all = std::move(longer);
  }
  return all;
}

std::vector<int> read_variants(const TomlValue& value, const Op& op) {
  std::vector<std::string_view> names;
  for (const Variant& v : op.variants) names.push_back(v.name);
  std::vector<int> all;
  for (const TomlValue& v : value.one_or_list())
    all.push_back(static_cast<int>(place_of(v, names, "variant")));
  return all;
}

/// A tensor's elements, up to one more than is allowed.
std::int64_t count_of(const Op& op, const Sizes& sizes, const TensorSpec& tensor) {
  std::int64_t count = 1;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    const auto dim =
        std::find(op.dims.begin(), op.dims.end(), tensor.dims[static_cast<std::size_t>(axis)]);
    const std::int64_t size = sizes[static_cast<std::size_t>(dim - op.dims.begin())];
    if (size != 0 && count > most_elements / size) return most_elements + 1;
    count *= size;
  }
  return count;
}

Sizes read_sizes(const TomlValue& value, const Op& op) {
  std::string expected =
      std::to_string(op.dims.size()) + (op.dims.size() == 1 ? " size:" : " sizes:");
  for (const std::string_view d : op.dims) expected.append(" ").append(d);
  const std::vector<TomlValue> list = value.list(expected);
  if (list.size() != op.dims.size())
    value.refuse(std::to_string(list.size()) + (list.size() == 1 ? " size" : " sizes"),
                 expected + "; several shapes are a list of lists");
  Sizes sizes{};
  for (std::size_t d = 0; d < list.size(); ++d) sizes[d] = list[d].whole(0, "a size of at least 0");
  const auto check = [&](const PassInfo& pass) {
    for (const TensorSpec& t : pass.tensors)
      if (count_of(op, sizes, t) > most_elements)
        value.refuse("tensor " + std::string(t.name) + " is too large",
                     "at most " + std::to_string(most_elements) + " elements");
  };
  check(op.forward);
  if (op.backward) check(*op.backward);
  return sizes;
}

std::vector<Sizes> read_shapes(const TomlValue& value, const Op& op) {
  const std::vector<TomlValue> list = value.list("a list of sizes, or a list of such lists");
  if (list.empty() || !list.front().is_list()) return {read_sizes(value, op)};
  std::vector<Sizes> all;
  for (const TomlValue& v : list) all.push_back(read_sizes(v, op));
  return all;
}

}  // namespace

std::vector<std::uint64_t> read_seeds(const TomlValue& value) {
  std::vector<std::uint64_t> all;
  for (const TomlValue& v : value.one_or_list())
    all.push_back(static_cast<std::uint64_t>(v.whole(0, "a whole number of at least 0")));
  return all;
}

namespace {

/// One [[case]]: every key a list of choices.
class CaseReader {
 public:
  CaseReader(const TomlValue& value, const SuiteContext& context)
      : value_(value), context_(context), op_(*context.op), table_(value, case_keys) {
    directions_ = read_directions(table_.find("direction"), op_);
    precisions_ = read_precisions(table_.at("precision"));
    attributes_ = read_attributes(table_.find("attributes"), op_);
    if (const TomlValue* v = table_.find("variant")) variants_ = read_variants(*v, op_);
    if (const TomlValue* v = table_.find("declare")) declared_ = read_variants(*v, op_);
    shapes_ = read_shapes(table_.at("shape"), op_);
    inputs_ = {{}};
    if (const TomlValue* v = table_.find("input"))
      inputs_ = read_inputs(*v, tensors_of_all_directions(), context.folder);
    seeds_ = context.seeds;
    if (const TomlValue* v = table_.find("seed")) seeds_ = read_seeds(*v);

    common_.op = &op_;
    common_.suite = context.file;
    if (const TomlValue* v = table_.find("name")) common_.name = v->text();
    if (const TomlValue* v = table_.find("tier"))
      common_.tier = static_cast<Tier>(place_of(*v, tier_names, "tier"));
    if (const TomlValue* v = table_.find("vacuous")) {
      common_.allowed_vacuous = v->text("the reason why a vacuous bound is no finding");
      if (common_.allowed_vacuous.empty()) v->refuse("no reason", "the reason as text");
    }
  }

  std::vector<CaseSpec> multiply_out() {
    CaseSpec spec = common_;
    for (const Direction direction : directions_) {
      spec.direction = direction;
      for (const Precision& precision : precisions_) {
        spec.precision = precision;
        for (const AttributeBytes& attributes : attributes_) {
          spec.attributes = attributes;
          for (const int variant : variants_for(attributes)) {
            spec.variant = variant;
            spec.declared = declared_for(attributes, variant);
            add_all_inputs(spec);
          }
        }
      }
    }
    require_all_variants_used();
    return std::move(cases_);
  }

 private:
  std::vector<std::string_view> tensors_of_all_directions() const {
    std::vector<std::string_view> longest;
    for (const Direction d : directions_) {
      std::vector<std::string_view> names = input_tensors(op_, d);
      if (names.size() > longest.size()) longest = std::move(names);
    }
    return longest;
  }

  /// A variant of a list is left out where the attributes do not allow it.
  std::vector<int> variants_for(const AttributeBytes& attributes) {
    if (variants_.empty()) return {op_.default_variant(attributes)};
    std::vector<int> allowed;
    for (const int v : variants_)
      if (op_.allows(attributes, v)) {
        allowed.push_back(v);
        used_.push_back(v);
      } else if (!table_.find("variant")->is_list()) {
        refuse_variant("variant", v, attributes);
      }
    return allowed;
  }

  std::vector<int> declared_for(const AttributeBytes& attributes, int variant) const {
    for (const int v : declared_)
      if (!op_.allows(attributes, v)) refuse_variant("declare", v, attributes);
    return declared_.empty() ? std::vector<int>{variant} : declared_;
  }

  [[noreturn]] void refuse_variant(std::string_view key, int variant,
                                   const AttributeBytes& attributes) const {
    std::vector<std::string_view> allowed;
    for (std::size_t v = 0; v < op_.variants.size(); ++v)
      if (op_.allows(attributes, static_cast<int>(v))) allowed.push_back(op_.variants[v].name);
    table_.at(key).refuse("the attributes do not allow '" +
                              std::string(op_.variants[static_cast<std::size_t>(variant)].name) +
                              "'",
                          one_of(allowed));
  }

  void require_all_variants_used() const {
    for (const int v : variants_)
      if (std::find(used_.begin(), used_.end(), v) == used_.end())
        table_.at("variant").refuse(
            "no attributes of this case allow '" +
                std::string(op_.variants[static_cast<std::size_t>(v)].name) + "'",
            "variants that give a check");
  }

  void add_all_inputs(CaseSpec& spec) {
    for (const Sizes& sizes : shapes_) {
      spec.sizes = sizes;
      for (const GivenInputs& given : inputs_) {
        choose_inputs(spec, given);
        for (const std::uint64_t seed : seeds_) {
          spec.seed = seed;
          if (cases_.size() == most_checks)
            value_.refuse("too many combinations", "at most " + std::to_string(most_checks));
          cases_.push_back(spec);
        }
      }
    }
  }

  static void choose_inputs(CaseSpec& spec, const GivenInputs& given) {
    spec.inputs.clear();
    for (const std::string_view name : input_tensors(*spec.op, spec.direction)) {
      const TensorSpec& tensor = tensor_named(spec, name);
      const auto place = std::find_if(given.begin(), given.end(),
                                      [&](const GivenInput& g) { return g.tensor == name; });
      if (place == given.end()) {
        if (tensor.role == Role::in) spec.inputs.emplace_back(name, InputSpec{});
        continue;
      }
      if (tensor.role == Role::in)
        place->place.naming_place(
            [&] { check_input(place->spec, element_of(tensor_format(spec, tensor))); });
      spec.inputs.emplace_back(name, place->spec);
    }
  }

  static const TensorSpec& tensor_named(const CaseSpec& spec, std::string_view name) {
    for (const TensorSpec& t : spec.op->forward.tensors)
      if (t.name == name) return t;
    const auto& tensors = spec.op->backward->tensors;
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const TensorSpec& t) { return t.name == name; });
  }

  const TomlValue& value_;
  const SuiteContext& context_;
  const Op& op_;
  TomlTable table_;
  CaseSpec common_;
  std::vector<Direction> directions_;
  std::vector<Precision> precisions_;
  std::vector<AttributeBytes> attributes_;
  std::vector<int> variants_, declared_, used_;
  std::vector<Sizes> shapes_;
  std::vector<GivenInputs> inputs_;
  std::vector<std::uint64_t> seeds_;
  std::vector<CaseSpec> cases_;
};

}  // namespace

std::vector<CaseSpec> read_case(const TomlValue& value, const SuiteContext& context) {
  return CaseReader(value, context).multiply_out();
}

}  // namespace opbound::detail
