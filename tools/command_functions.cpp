// opbound functions: CUDA's own functions and conversions on every input, beside what is documented
// of their error and published for XLA's.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <optional>

#include "ops/precision.hpp"
#include "reference/cuda_functions.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/progress.hpp"
#include "suites/run.hpp"
#include "tools/command_functions_table.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options {
  std::vector<std::string> names, required;
  std::string out, records, device = "cuda";
  bool quiet = false, markdown = false;
};

/// One row: a function or a conversion, in one format.
struct Check {
  std::string_view name;
  std::uint64_t inputs;
  Record described;
  std::function<void(Record&, const SweepProgress&)> fill;
};

/// What a function and a conversion have in common.
Record described(std::string_view name, std::uint64_t inputs, std::string input) {
  Record r;
  r.op = name;
  r.part = "y";
  r.direction = name_of(Direction::forward);
  r.variant = "library";
  r.provider = "CUDA";
  r.inputs.shape = {{"n", static_cast<std::int64_t>(inputs)}};
  r.inputs.input = std::move(input);
  return r;
}

/// Errors are told, but there is nothing to hold them against.
void take_no_verdict(Record& r) {
  r.counts.vacuous = r.counts.checked;
  r.counts.within = r.counts.exceeds = r.counts.undecided = 0;
  r.verdict = Verdict::vacuous;
  r.ratio.reset();
  r.acceptable_mean.reset();
  r.acceptable_max.reset();
}

void fill_function(const CudaFunctionInfo& f, Record& r, const SweepProgress& progress) {
  const FirstRung found = sweep_cuda_function(f, progress);
  fill_in(r, check_of(found.tally, found.histogram, found.worst));
  if (f.documented.empty()) take_no_verdict(r);
  if (r.verdict == Verdict::vacuous)
    r.allowed_vacuous = f.documented.empty() ? "no error is documented"
                                             : "an error is documented of some inputs only";
  if (r.worst) r.worst->input = {{"x", decode(f.format, r.worst->index)}};
}

Check check_for(const CudaFunctionInfo& f) {
  const std::uint64_t inputs = std::uint64_t{1} << f.format.bits();
  Record r = described(f.name, inputs, "x=every pattern");
  r.precision = name_of(f.format);
  r.contract = f.documented.empty() ? "no error is documented" : "documented: ";
  r.contract += f.documented;
  r.bound_source = "documentation";
  return {f.name, inputs, std::move(r),
          [&f](Record& to, const SweepProgress& progress) { fill_function(f, to, progress); }};
}

void fill_conversion(const CudaConversionInfo& c, Record& r, const SweepProgress& progress) {
  const FirstRung found = sweep_cuda_conversion(c, progress);
  fill_in(r, check_of(found.tally, found.histogram, found.worst));
  if (r.worst)
    r.worst->input = {
        {"x", conversion::input_of(c.rule, static_cast<std::int64_t>(r.worst->index))}};
}

std::string_view mode_of(conversion::Rounding rounding) {
  constexpr std::array<std::string_view, 4> modes{"rounded to nearest", "rounded toward zero",
                                                  "rounded up", "rounded down"};
  return modes[static_cast<std::size_t>(rounding)];
}

Check check_for(const CudaConversionInfo& c) {
  const auto inputs = static_cast<std::uint64_t>(conversion::inputs_of(c.rule));
  const Format &from = c.rule.from, &to = c.rule.to;
  const std::string around = "x=doubles around values and midpoints of " + std::string(name_of(to));
  Record r = described(c.name, inputs, from == fp64 ? around : "x=every pattern");
  r.kind = CheckKind::exact;
  r.precision = name_of(Precision{from, from, to});
  r.contract = mode_of(c.rule.rounding);
  const bool is_fp8 = to.bits() == 8, saturates = to.overflow == Overflow::saturate;
  if (is_fp8) r.attributes = {{"saturation", std::string(saturates ? "SATFINITE" : "NOSAT")}};
  r.bound_source = "IEEE 754, OCP FP8";
  return {c.name, inputs, std::move(r),
          [&c](Record& to_fill, const SweepProgress& p) { fill_conversion(c, to_fill, p); }};
}

std::vector<Check> chosen_checks(const std::vector<std::string>& names) {
  std::vector<Check> all;
  for (const CudaFunctionInfo& f : cuda_functions()) all.push_back(check_for(f));
  for (const CudaConversionInfo& c : cuda_conversions()) all.push_back(check_for(c));
  std::string known;
  std::string_view last;
  for (const Check& c : all) {
    if (c.name != last) known.append(known.empty() ? "" : " ").append(c.name);
    last = c.name;
  }
  for (const std::string& name : names)
    if (std::none_of(all.begin(), all.end(), [&](const Check& c) { return c.name == name; }))
      throw InputError("functions", "unknown function " + name, "one of: " + known);
  std::erase_if(all, [&](const Check& c) {
    return !names.empty() && std::find(names.begin(), names.end(), c.name) == names.end();
  });
  return all;
}

Record record_of(const Check& check, const Provider& device, const SweepProgress& progress) {
  Record r = check.described;
  r.device = device.device();
  r.environment = device.environment();
  for (const auto& [name, version] : r.environment)
    if (name == "cuda_runtime") r.provider_version = version;
  const std::string absence = device.absence();
  try {
    if (!absence.empty()) throw Unavailable(absence);
    device.select_device();
    check.fill(r, progress);
  } catch (const Unavailable& e) {
    r.verdict = Verdict::skipped;
    r.reason = e.what();
  } catch (const ProviderFailure& e) {
    r.verdict = Verdict::failed;
    r.reason = e.what();
  }
  return r;
}

void print_table(const std::vector<Record>& records, bool markdown) {
  const TableStyle style = markdown ? TableStyle::markdown : TableStyle::terminal;
  print(functions_table(records, {style, true, Terminal::of(1)}));
}

/// The table of a file, of what `opbound functions` wrote into it, or of the functions named.
int show(const Options& options) {
  std::vector<Record> records = read_records(options.records);
  std::erase_if(records,
                [](const Record& r) { return r.provider != "CUDA" || r.counts.checked == 0; });
  if (records.empty())
    throw InputError(options.records, "no function of CUDA was measured",
                     "a file that `opbound functions` wrote on a GPU");
  const std::vector<std::string>& names = options.names;
  for (const std::string& name : names)
    if (std::ranges::find(records, name, &Record::op) == records.end())
      throw InputError(options.records, "no record of " + name, "functions that were measured");
  std::erase_if(records, [&](const Record& r) {
    return !names.empty() && std::ranges::find(names, r.op) == names.end();
  });
  print_table(records, options.markdown);
  return exit_clean;
}

/// There are none of CUDA's functions on a CPU. InputError for the name of one, and for no name.
std::unique_ptr<Provider> device_named(const std::string& name) {
  try {
    if (name != "cpu") return own_provider(name);
  } catch (const InputError&) {  // it expects a cpu too
  }
  throw InputError("--device", "'" + name + "'", "cuda or cuda:N");
}

int functions(const Options& options) {
  if (!options.records.empty()) return show(options);
  const std::vector<Check> chosen = chosen_checks(options.names);
  const std::unique_ptr<Provider> device = device_named(options.device);
  if (lacks_required(options.required, options.device, {&device, 1})) return exit_missing;
  std::optional<RecordWriter> writer;
  if (!options.out.empty()) writer.emplace(options.out);
  std::uint64_t total = 0;
  for (const Check& c : chosen) total += c.inputs;
  const InterruptNoted interrupt;
  Progress progress(total, "opbound functions");
  std::vector<Record> records;
  for (const Check& c : chosen) {
    if (InterruptNoted::has_come()) break;
    records.push_back(
        record_of(c, *device, [&](std::uint64_t n) { progress.advance(n, std::string(c.name)); }));
    if (writer) writer->write(records.back());
  }
  progress.clear();
  if (writer) writer->close();
  // where something could not be measured, the table of errors says why
  const bool is_whole = std::all_of(records.begin(), records.end(),
                                    [](const Record& r) { return r.counts.checked > 0; });
  if (is_whole && !options.quiet) print_table(records, options.markdown);
  return tell(records, options.quiet || is_whole);
}

}  // namespace

void add_functions(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "functions", "Judge CUDA's own functions and conversions on every input");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("function", options->names,
                   "expf, __logf, hexp, __float2half_rz, ...; all of them if none")
      ->type_name("NAME");
  command->add_option("--device", options->device, "cuda or cuda:N")
      ->type_name("DEVICE")
      ->capture_default_str();
  command
      ->add_option("--require", options->required,
                   "Exit with 3 if this provider or device is missing")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_option("--out", options->out, "Append the records to this file")
      ->type_name("FILE.jsonl");
  command
      ->add_option("--records", options->records,
                   "Run nothing: the table of the records that --out wrote into this file")
      ->type_name("FILE.jsonl");
  command->add_flag("--markdown", options->markdown, "The table as Markdown");
  command->add_flag("--quiet", options->quiet, "Print the last line only");
  command->callback([options, &chosen] { chosen = [options] { return functions(*options); }; });
}

}  // namespace opbound
