// opbound explain: a record in words, its check run again, its worst element taken apart.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <tuple>

#include "distributed/train/report.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/table.hpp"
#include "reports/text.hpp"
#include "suites/input.hpp"
#include "suites/input_file.hpp"
#include "suites/probe.hpp"
#include "suites/rerun.hpp"
#include "suites/shrink.hpp"
#include "suites/stored.hpp"
#include "tools/command_again.hpp"
#include "tools/command_line.hpp"
#include "tools/command_shrink.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

constexpr int neighbours_on_each_side = 4;
constexpr std::size_t largest_shown = 8;

struct Options {
  std::string file, out, plugin;
  std::optional<std::size_t> line;  ///< records count from 1
  bool shrink = false;
};

/// "FILE:LINE" as FILE and the line; a file of that very name wins.
void split_line(Options& options) {
  const std::size_t colon = options.file.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(options.file)) return;
  const char* end = options.file.data() + options.file.size();
  std::size_t line = 0;
  const auto [number_end, error] = std::from_chars(options.file.data() + colon + 1, end, line);
  if (error != std::errc{} || number_end != end) return;
  if (options.line && *options.line != line)
    throw InputError("--line", std::to_string(*options.line),
                     "the line of " + options.file + ", or one of the two alone");
  options.line = line;
  options.file.resize(colon);
}

/// The record of the line, or the worst: by verdict, then by ratio. One that was skipped tells
/// least.
const Record& choose(const std::vector<Record>& records, const Options& options) {
  if (records.empty())
    throw InputError(options.file, "no records", "a file that `opbound run` wrote");
  if (options.line && (*options.line < 1 || *options.line > records.size()))
    throw InputError(options.file, "no line " + std::to_string(*options.line),
                     "a record's line, 1 to " + std::to_string(records.size()));
  if (options.line) return records[*options.line - 1];
  const auto key = [](const Record& r) {
    const bool is_allowed = r.verdict == Verdict::vacuous && !r.allowed_vacuous.empty();
    return std::tuple(r.verdict == Verdict::skipped, is_allowed ? Verdict::within : r.verdict,
                      -r.ratio.value_or(-1));
  };
  return *std::min_element(records.begin(), records.end(),
                           [&](const Record& a, const Record& b) { return key(a) < key(b); });
}

/// The plug-in in `file`, if it is the record's.
std::unique_ptr<Provider> plugin_for(const Record& record, const std::string& file) {
  if (plugin_of(record).empty())
    throw InputError("--provider", "the record is of no plug-in, its kernel is " + record.provider,
                     "a record that a plug-in made");
  std::unique_ptr<Provider> plugin = named_plugin(file, record.device == "cpu" ? "cpu" : "cuda");
  if (plugin->name() != record.provider)
    throw InputError("--provider", file + " is the plug-in " + plugin->name(),
                     "the record's, " + record.provider);
  return plugin;
}

/// Whose kernel made the record. Null for a plug-in that is not named: a record alone never has a
/// library opened.
std::unique_ptr<Provider> provider_of(const Record& record, const std::string& plugin) {
  if (!plugin.empty()) return plugin_for(record, plugin);
  if (!plugin_of(record).empty()) return nullptr;
  if (is_stored(record)) {
    std::vector<std::pair<std::string, InputSpec>> outputs;
    for (const auto& [tensor, file] : record.environment)
      if (tensor != order_file) outputs.emplace_back(tensor, parse_input(file));
    return stored_provider(
        std::move(outputs), read_order(judged_order(record)),
        has_cuda_functions(record) ? cuda_function_errors : exact_function_errors);
  }
  return own_provider(record.device == "cpu" ? "cpu" : "cuda");
}

std::string number(double x) { return shortest(x) + " (" + hexadecimal(x) + ")"; }

/// `is_ours`: the kernel is known to be the algorithm.
std::string split_text(const Probed& e, const Format& format, bool is_ours) {
  const ErrorSplit split = split_error(e, format);
  if (std::isnan(split.total_ulp))
    return "  got or exact is no number, so that there is no error to take apart\n";
  const auto part = [&](const char* name, double ulps) {
    const std::string share =
        split.total_ulp == 0 ? "" : ", " + legible(100 * ulps / split.total_ulp) + "% of it";
    return std::string("  ") + name + legible(ulps) + " ulp" + share + "\n";
  };
  std::string text = "  got - exact   " + legible(split.total_ulp) + " ulp of " +
                     std::string(name_of(format)) + "\n";
  text += part("rounding      ", split.rounding_ulp) + part("method        ", split.method_ulp);
  text += "  rounding: against the same algorithm without rounding; method: that against exact\n";
  return text + (is_ours ? ""
                         : "  (if the kernel is what was declared; else rounding is all that it "
                           "does otherwise)\n");
}

std::string elements_text(const std::vector<Probed>& elements, const std::string& first_title,
                          const std::vector<std::string>& first) {
  Table table({{.title = first_title},
               {.title = "got"},
               {.title = "exact"},
               {.title = "error ulp", .number = true},
               {.title = "ratio", .number = true},
               {.title = "verdict"}});
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Probed& e = elements[i];
    table.add_row({{first[i]},
                   {number(e.got)},
                   {number(e.exact.high)},
                   {legible(e.judgement.error_ulp)},
                   {legible(e.judgement.ratio)},
                   {std::string(name_of(e.judgement.verdict))}});
  }
  return table.terminal(Terminal::of(1));
}

std::string neighbours_text(const CaseSpec& spec, const Prepared& prepared,
                            const Provider& provider, std::size_t place, std::int64_t index) {
  const Neighbourhood n =
      probe_neighbours(spec, prepared, provider, place, index, neighbours_on_each_side);
  if (n.values.empty()) return {};
  std::vector<std::string> inputs;
  for (const double x : n.values) inputs.push_back(number(x));
  return "\nthe stored values of " + std::string(n.input) + " around it\n" +
         elements_text(n.elements, std::string(n.input), inputs);
}

/// The block in numbers, and its elements with the largest ratios.
std::string block_text(std::vector<Probed> elements, const std::string& part) {
  double low = INFINITY, high = -INFINITY, ulps = 0;
  for (const Probed& e : elements) {
    low = std::min(low, e.exact.high);
    high = std::max(high, e.exact.high);
    ulps += std::isfinite(e.judgement.error_ulp) ? e.judgement.error_ulp : 0;
  }
  std::string text = "\nits block of " + std::to_string(elements.size()) + " elements of " + part +
                     ": exact from " + shortest(low) + " to " + shortest(high) + ", mean error " +
                     legible(ulps / static_cast<double>(elements.size())) +
                     " ulp; the largest ratios\n";
  std::stable_sort(elements.begin(), elements.end(), [](const Probed& a, const Probed& b) {
    return a.judgement.ratio > b.judgement.ratio;
  });
  elements.resize(std::min(elements.size(), largest_shown));
  std::vector<std::string> names;
  for (const Probed& e : elements) names.push_back(part + " " + std::to_string(e.index));
  return text + elements_text(elements, "element", names);
}

/// Takes the worst element apart and shows what lies around it.
std::string worst_text(const Record& record, const CaseSpec& spec, const Prepared& prepared,
                       const Provider& provider) {
  const std::size_t place = place_of_output(spec, record.part);
  const TensorView& output = prepared.call.judged()[place];
  if (!record.worst || std::cmp_greater_equal(record.worst->index, output.count())) return {};
  const auto index = static_cast<std::int64_t>(record.worst->index);
  const std::vector<Probed> block =
      probe_block(spec, prepared, provider.contract(*spec.op, spec.declared), place, index);
  const auto worst =
      std::find_if(block.begin(), block.end(), [&](const Probed& e) { return e.index == index; });
  const std::string text = "\nthe error of the worst element\n" +
                           split_text(*worst, format_of(output.element), !provider.is_foreign());
  if (!is_elementwise(spec, place)) return text + block_text(block, record.part);
  if (is_stored(record)) return text;
  return text + neighbours_text(spec, prepared, provider, place, index);
}

/// Runs the check again; exit_found if the bits are others.
int run_again(const Record& record, const Provider* provider) {
  if (is_sweep(record)) {
    print(sweep_again_text(record));
    return exit_clean;
  }
  const CaseSpec spec = spec_of(record);
  print(is_collective(record) ? collective_again_text(record) : again_text(record, spec));
  if (is_collective(record) && judged_order(record) == "any") {
    print("\nnot run again here: the order is the library's\n");
    return exit_clean;
  }
  if (provider == nullptr) {
    print("\nnot run again: the kernel is the plug-in's; --provider " +
          shell_word(plugin_of(record)) + " opens it\n");
    return exit_clean;
  }
  place_of_output(spec, record.part);  // throws for a record of another op's output
  Prepared prepared = prepare(spec);
  try {
    provider->run(*spec.op, prepared.call);
  } catch (const Unavailable& e) {
    print(std::string("\nnot run again: ") + e.what() + "\n");
    return exit_clean;
  } catch (const ProviderFailure& e) {
    print(std::string("\nrun again: it failed: ") + e.what() + "\n");
    return exit_found;
  }
  const std::string hash = hash_of(prepared.tensors.find(record.part)->second);
  const auto scheme = [](const std::string& h) { return h.substr(0, h.find(':')); };
  if (scheme(hash) != scheme(record.output_hash)) {
    print("\nrun again: " + hash + ", which an earlier version's hash cannot be compared with\n" +
          worst_text(record, spec, prepared, *provider));
    return exit_clean;
  }
  const bool is_same = hash == record.output_hash;
  print("\nrun again: " +
        (is_same ? "the same bits, " + hash
                 : "OTHER BITS, " + hash + " instead of " + record.output_hash) +
        "\n" + worst_text(record, spec, prepared, *provider));
  return is_same ? exit_clean : exit_found;
}

/// Why a record without a bound's output stays as it is.
std::string not_again_text(const Record& record) {
  const bool is_bound = record.kind == CheckKind::bound;
  return "\nnot run again: " +
         (is_bound ? "it was " + std::string(name_of(record.verdict)) + " and left no output"
                   : "its kind is " + std::string(name_of(record.kind)) + ", not bound") +
         "\n";
}

int shrink_it(const Options& options, const Record& record, const Provider* provider) {
  const CaseSpec spec = spec_of(record);
  if (provider == nullptr)
    throw InputError(options.file, "the record is of the plug-in " + record.provider,
                     "--provider " + shell_word(plugin_of(record)));
  if (const std::string why = provider->absence(); !why.empty())
    throw InputError(options.file, "the record's device is missing: " + why,
                     "a machine with that device");
  const auto failure = find_failure(spec, *provider, record.part, is_stored(record));
  if (!failure)
    throw InputError(options.file, "the check does not exceed when it is run again",
                     "the record of this opbound");
  const Shrunk shrunk = shrink(*failure, *provider, is_stored(record));
  print(record.op + " " + identity(spec) + "\n" + describe(shrunk));
  if (options.out.empty()) return exit_clean;
  const std::string text = program_text(shrunk.failure);
  const std::array parts{std::as_bytes(std::span(text))};
  write_atomically(options.out, parts);
  print("  " + options.out + " shows it: c++ -std=c++17 " + shell_word(options.out) +
        " && ./a.out\n");
  return exit_clean;
}

int explain(Options options) {
  split_line(options);
  if (train::is_training_log(options.file))
    throw InputError(options.file, "a training log, not records of checks",
                     "opbound table " + shell_word(options.file) + ", which tells of its runs");
  const std::vector<Record> records = read_records(options.file);
  const Record& record = choose(records, options);
  const bool has_output = record.kind == CheckKind::bound && !record.output_hash.empty();
  std::unique_ptr<Provider> provider;
  if (has_output || !options.plugin.empty()) provider = provider_of(record, options.plugin);
  if (options.shrink) {
    if (!has_output || record.counts.exceeds == 0)
      throw InputError(options.file, "nothing to shrink", "a record whose verdict is exceeds");
    // before the search, which takes its time
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::symlink_status(options.out, ignored)))
      throw InputError("--out", options.out + " exists already", "the name of a new file");
    return shrink_it(options, record, provider.get());
  }
  print(print_record(record));
  if (has_output) return run_again(record, provider.get());
  print(is_collective(record) ? collective_again_text(record) : not_again_text(record));
  return exit_clean;
}

}  // namespace

void add_explain(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "explain", "A record in words, run again, its worst element taken apart");
  const auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "Records; the worst of them if no line is named")
      ->type_name("FILE.jsonl[:LINE]")
      ->required();
  command->add_option("--line", options->line, "The line of the record")->type_name("LINE");
  command
      ->add_option("--provider", options->plugin,
                   "The plug-in's file, to run the check of a plug-in's record again")
      ->type_name("FILE.so");
  CLI::Option* shrink = command->add_flag("--shrink", options->shrink,
                                          "Search the smallest input that still exceeds its bound");
  command
      ->add_option("--out", options->out,
                   "Write a C++ program that shows the violation, a new file")
      ->type_name("FILE.cpp")
      ->needs(shrink);
  command->callback([options, &chosen] { chosen = [options] { return explain(*options); }; });
}

}  // namespace opbound
