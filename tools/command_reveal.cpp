// opbound reveal: the order in which a kernel adds, found by running it on probes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "reports/error.hpp"
#include "reports/text.hpp"
#include "suites/input.hpp"
#include "suites/input_file.hpp"
#include "suites/reveal_file.hpp"
#include "suites/run.hpp"
#include "suites/suggest.hpp"
#include "suites/suite_case.hpp"
#include "tools/command_case.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options : CaseWords {
  std::string part, provider = "own", device = "cpu", out;
  std::vector<std::string> sizes, inputs;
  std::int64_t probes = 100000;
  double seconds = PluginOptions{}.seconds;
};

template <class F>
void naming_input(const std::string& tensor, F f) {
  try {
    f();
  } catch (const InputError& e) {
    throw InputError("--input " + tensor, e.what());
  }
}

/// "b=normal @transposed": the kernel is replayed on such numbers and probed in such a layout.
void set_input(CaseSpec& spec, const std::string& text) {
  const std::vector<std::string_view> names = detail::input_tensors(*spec.op, spec.direction);
  const std::size_t sign = text.find('=');
  const std::string name = text.substr(0, sign);
  if (sign == std::string::npos || std::find(names.begin(), names.end(), name) == names.end())
    throw InputError("--input", "'" + text + "'", "NAME=KIND with " + detail::one_of(names));
  const bool is_known = std::any_of(spec.inputs.begin(), spec.inputs.end(),
                                    [&](const auto& i) { return i.first == name; });
  if (is_known) throw InputError("--input", name + " is there twice", "one input for a tensor");
  naming_input(name, [&] { spec.inputs.emplace_back(name, parse_input(text.substr(sign + 1))); });
}

/// "k=64"
void set_size(CaseSpec& spec, const std::string& text) {
  const std::vector<std::string_view> dims(spec.op->dims.begin(), spec.op->dims.end());
  const std::size_t sign = std::min(text.find('='), text.size());
  const std::string name = text.substr(0, sign);
  const auto place = std::find(dims.begin(), dims.end(), name) - dims.begin();
  if (place == std::ssize(dims))
    throw InputError("--size", "unknown size " + detail::in_quotes_with_suggestion(name, dims),
                     "NAME=SIZE with " + detail::one_of(dims));
  std::int64_t size = 0;
  const char *first = text.data() + std::min(sign + 1, text.size()),
             *end = text.data() + text.size();
  const auto read = std::from_chars(first, end, size);
  if (read.ec != std::errc{} || read.ptr != end || size < 1 || size > detail::most_elements)
    throw InputError("--size", "'" + text + "'",
                     "NAME=SIZE from 1 to " + std::to_string(detail::most_elements));
  spec.sizes[static_cast<std::size_t>(place)] = size;
}

CaseSpec case_of(const Options& options) {
  CaseSpec spec = read_case("reveal", options);
  spec.sizes.fill(1);
  for (const std::string& text : options.sizes) set_size(spec, text);
  const std::string_view wanted = spec.op->refuses(spec.attributes, spec.sizes);
  if (!wanted.empty())
    throw InputError("--size", "attributes and sizes that do not fit", std::string(wanted));
  for (const std::string& text : options.inputs) set_input(spec, text);
  const auto names = detail::input_tensors(*spec.op, spec.direction);
  for (const auto* pass : {&spec.op->forward, spec.op->backward ? &*spec.op->backward : nullptr}) {
    if (pass == nullptr) continue;
    for (const TensorSpec& t : pass->tensors) {
      const bool is_input = std::find(names.begin(), names.end(), t.name) != names.end();
      if (!is_input || !spec.op->has_tensor(spec.attributes, t.name)) continue;
      const Element element = tensor_element(spec, t);
      const auto known = std::find_if(spec.inputs.begin(), spec.inputs.end(),
                                      [&](const auto& i) { return i.first == t.name; });
      if (known != spec.inputs.end()) {
        naming_input(known->first, [&] { check_input(known->second, element); });
        continue;
      }
      InputSpec input;
      input.kind = default_kind(element);
      spec.inputs.emplace_back(t.name, input);
    }
  }
  return spec;
}

/// The sum over a dimension that is longer than 1, of the part named.
SumOfPass chosen_sum(const CaseSpec& spec, const std::string& part) {
  const auto tensors = spec.op->pass(spec.direction).tensors;
  const auto sums = sums_of(*spec.op, spec.direction);
  std::vector<std::string_view> parts;
  std::string words;
  for (const SumOfPass& sum : sums) {
    const std::string_view name = tensors[static_cast<std::size_t>(sum.output)].name;
    const std::string_view dim = spec.op->dims[static_cast<std::size_t>(sum.dimension)];
    if (!spec.op->has_tensor(spec.attributes, name)) continue;
    parts.push_back(name);
    words += fmt::format("{}{} over {}", words.empty() ? "" : ", ", name, dim);
    const bool is_long = spec.sizes[static_cast<std::size_t>(sum.dimension)] > 1;
    if (part.empty() ? is_long : name == part && is_long) return sum;
  }
  if (words.empty())
    throw InputError("reveal", std::string(spec.op->name) + " adds nothing in this direction",
                     "an op with a sum: matmul, bias backward, accumulate, ...");
  if (!part.empty() && std::find(parts.begin(), parts.end(), part) == parts.end())
    throw InputError("--part", "unknown part " + detail::in_quotes_with_suggestion(part, parts),
                     detail::one_of(parts));
  throw InputError("--size", "no sum has more than one term",
                   "the size of a dimension that is summed over: " + words);
}

std::string_view word(Answer answer) {
  return answer == Answer::yes ? "yes" : answer == Answer::no ? "no" : "not asked";
}

std::string replay_text(const RevealedSum& r) {
  if (!r.is_replayed) return "no: " + r.note;
  return fmt::format("yes, every bit of {} elements{}", r.replayed_elements,
                     r.products == Products::rounded ? "" : ", products fused with additions");
}

/// The first lines of it; a long one is for programs to read.
std::string order_text(const SumTree& tree) {
  constexpr std::size_t most_lines = 6;
  std::string text;
  const auto lines = wrapped(to_string(tree), 84);
  for (std::size_t k = 0; k < std::min(lines.size(), most_lines); ++k)
    text += (k == 0 ? "  order      " : "             ") + lines[k] + "\n";
  if (lines.size() > most_lines)
    text += fmt::format("             ... and {} lines more; --out FILE.json keeps all of it\n",
                        lines.size() - most_lines);
  return text;
}

/// Of a matrix unit's steps there is no count of roundings: each errs by what it adds up to.
std::string bound_text(const CaseSpec& spec, const RevealedSum& r) {
  const SumTree& tree = r.found.tree;
  if (std::any_of(tree.nodes.begin(), tree.nodes.end(), [](const auto& c) { return c.size() > 2; }))
    return fmt::format("of these {} steps of {}, one by one, in place of any order's",
                       tree.nodes.size(),
                       spec.op->variants[static_cast<std::size_t>(r.variant)].name);
  return fmt::format("of that order: {} u, of any: {} u, times the magnitudes", height(tree),
                     tree.leaves - 1);
}

std::string report(const CaseSpec& spec, const SumOfPass& sum, const Provider& provider,
                   const RevealedSum& r) {
  const Record common = record_of(spec, provider);
  const auto& tensor = spec.op->pass(spec.direction).tensors[static_cast<std::size_t>(sum.output)];
  const std::int64_t n = spec.sizes[static_cast<std::size_t>(sum.dimension)];
  std::string text =
      fmt::format("{} {} {} of {} terms over {}, {}, {} {} on {}\n", common.op, common.direction,
                  tensor.name, n, spec.op->dims[static_cast<std::size_t>(sum.dimension)],
                  common.precision, common.provider, common.provider_version, common.device);
  if (!r.found.refusal.empty()) {
    text += "  order      none found: " + r.found.refusal + "\n";
  } else {
    text += order_text(r.found.tree);
    text += fmt::format("  height     {} additions, of {} at most\n", height(r.found.tree), n - 1);
    text += "  replayed   " + replay_text(r) + "\n";
    if (r.is_replayed) text += "  bound      " + bound_text(spec, r) + "\n";
  }
  text += fmt::format("  probes     {}\n", r.found.calls);
  return text + fmt::format("  same bits  run again: {}; inputs unaligned: {}; a row alone: {}\n",
                            word(r.same_bits.again), word(r.same_bits.unaligned),
                            word(r.same_bits.alone));
}

int reveal(const Options& options) {
  const CaseSpec spec = case_of(options);
  if (!options.out.empty() && std::filesystem::exists(options.out))
    throw InputError("--out", options.out + " is there already", "a new file");
  const SumOfPass sum = chosen_sum(spec, options.part);
  const Providers providers =
      named_providers({{options.provider}, options.seconds, options.device});
  const Provider& provider = *providers.front();
  const std::string absence = provider.absence();
  try {
    if (!absence.empty()) throw Unavailable(absence);
    if (provider.variants(*spec.op, spec.direction, spec.attributes, spec.variant).empty())
      throw Unavailable("it lists no kernel for " + std::string(spec.op->name) + " " +
                        std::string(name_of(spec.direction)));
    const RevealedSum revealed = reveal_case(spec, sum, provider, options.probes);
    print(report(spec, sum, provider, revealed));
    if (options.out.empty()) return exit_clean;
    const std::string text = reveal_text(spec, sum, provider, revealed) + '\n';
    const auto bytes = std::as_bytes(std::span(text));
    write_atomically(options.out, {&bytes, 1});
  } catch (const Unavailable& e) {
    throw InputError("reveal", provider.name() + ": " + e.what(), "a kernel that runs here");
  } catch (const ProviderFailure& e) {
    throw InputError("reveal", provider.name() + " failed: " + e.what(), "a kernel that runs");
  }
  return exit_clean;
}

}  // namespace

void add_reveal(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "reveal", "Find the order in which a kernel adds, and whether it keeps to it");
  const auto o = std::make_shared<Options>();
  command->add_option("op", o->op, "The op, as `opbound list ops` names it")->required();
  add_case_options(*command, *o);
  command->add_option("--size", o->sizes, "Sizes of the op's dimensions; 1 where not given")
      ->type_name("NAME=SIZE");
  command
      ->add_option("--input", o->inputs,
                   "Numbers to replay on, and the layout of a tensor: 'b=normal @transposed'")
      ->type_name("NAME=KIND");
  command->add_option("--part", o->part, "The output; else the first that is a sum")
      ->type_name("NAME");
  command->add_option("--provider", o->provider, "own, or the file of a plug-in (ops/provider.h)")
      ->capture_default_str();
  command->add_option("--device", o->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--provider-timeout", o->seconds, "Seconds that a plug-in may take to answer")
      ->check(between(1e-3, 1e6))
      ->capture_default_str();
  command->add_option("--probes", o->probes, "Give up after so many runs of the kernel")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  command->add_option("--out", o->out, "Write what is found to this new file, for check --order")
      ->type_name("FILE.json");
  command->callback([o, &chosen] { chosen = [o] { return reveal(*o); }; });
}

}  // namespace opbound
