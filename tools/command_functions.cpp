// opbound functions: CUDA's own functions on every input, beside what is documented of their error.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "reference/cuda_functions.hpp"
#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/progress.hpp"
#include "suites/run.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options {
  std::vector<std::string> names, required;
  std::string out, device = "cuda";
  bool quiet = false;
};

std::vector<CudaFunctionInfo> chosen_functions(const std::vector<std::string>& names) {
  const auto all = cuda_functions();
  std::string known;
  for (const CudaFunctionInfo& f : all) known.append(known.empty() ? "" : " ").append(f.name);
  for (const std::string& name : names)
    if (std::none_of(all.begin(), all.end(), [&](const auto& f) { return f.name == name; }))
      throw InputError("functions", "unknown function " + name, "one of: " + known);
  std::vector<CudaFunctionInfo> chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen), [&](const auto& f) {
    return names.empty() || std::find(names.begin(), names.end(), f.name) != names.end();
  });
  return chosen;
}

std::uint64_t inputs_of(const CudaFunctionInfo& f) { return std::uint64_t{1} << f.format.bits(); }

Record described(const CudaFunctionInfo& f, const Provider& device) {
  Record r;
  r.op = f.name;
  r.part = "y";
  r.direction = name_of(Direction::forward);
  r.variant = "library";
  r.precision = name_of(f.format);
  r.provider = "CUDA";
  r.device = device.device();
  r.environment = device.environment();
  for (const auto& [name, version] : r.environment)
    if (name == "cuda_runtime") r.provider_version = version;
  r.contract = f.documented.empty() ? "no error is documented" : "documented: ";
  r.contract += f.documented;
  r.inputs.shape = {{"n", static_cast<std::int64_t>(inputs_of(f))}};
  r.inputs.input = "x=every pattern";
  r.bound_source = "documentation";
  return r;
}

/// Errors are told, but there is nothing to hold them against.
void take_no_verdict(Record& r) {
  r.counts.vacuous = r.counts.checked;
  r.counts.within = r.counts.exceeds = r.counts.undecided = 0;
  r.verdict = Verdict::vacuous;
  r.allowed_vacuous = "no error is documented";
  r.ratio.reset();
  r.acceptable_mean.reset();
  r.acceptable_max.reset();
}

Record record_of(const CudaFunctionInfo& f, const Provider& device, const SweepProgress& progress) {
  Record r = described(f, device);
  const std::string absence = device.absence();
  try {
    if (!absence.empty()) throw Unavailable(absence);
    device.select_device();
    const FirstRung found = sweep_cuda_function(f, progress);
    fill_in(r, check_of(found.tally, found.histogram, found.worst));
    if (f.documented.empty()) take_no_verdict(r);
    if (r.worst) r.worst->input = {{"x", decode(f.format, r.worst->index)}};
  } catch (const Unavailable& e) {
    r.verdict = Verdict::skipped;
    r.reason = e.what();
  } catch (const ProviderFailure& e) {
    r.verdict = Verdict::failed;
    r.reason = e.what();
  }
  return r;
}

int functions(const Options& options) {
  const std::vector<CudaFunctionInfo> chosen = chosen_functions(options.names);
  const std::unique_ptr<Provider> device = own_provider(options.device);
  std::optional<RecordWriter> writer;
  if (!options.out.empty()) writer.emplace(options.out);
  std::uint64_t total = 0;
  for (const CudaFunctionInfo& f : chosen) total += inputs_of(f);
  const InterruptNoted interrupt;
  Progress progress(total, "opbound functions");
  std::vector<Record> records;
  for (const CudaFunctionInfo& f : chosen) {
    if (InterruptNoted::has_come()) break;
    records.push_back(
        record_of(f, *device, [&](std::uint64_t n) { progress.advance(n, std::string(f.name)); }));
    if (writer) writer->write(records.back());
  }
  progress.clear();
  if (writer) writer->close();
  return tell(records, options.quiet, options.required, options.device, {&device, 1});
}

}  // namespace

void add_functions(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "functions", "Judge CUDA's own functions on every input by their documented errors");
  const auto options = std::make_shared<Options>();
  command->add_option("function", options->names, "expf, __logf, hexp, ...; all of them if none")
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
  command->add_flag("--quiet", options->quiet, "Print the last line only");
  command->callback([options, &chosen] { chosen = [options] { return functions(*options); }; });
}

}  // namespace opbound
