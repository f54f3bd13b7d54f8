#include "tools/command_again.hpp"

#include <algorithm>
#include <filesystem>

#include "distributed/collective_spec.hpp"
#include "generated/version.hpp"
#include "ops/providers/plugin.hpp"
#include "reports/error.hpp"
#include "reports/text.hpp"
#include "suites/input.hpp"
#include "suites/rerun.hpp"
#include "suites/stored.hpp"
#include "suites/sweep.hpp"
#include "tools/command_line.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view swept_mark = "every pattern";

/// "tensor=x.safetensors:h" as `opbound check` takes it.
std::string file_argument(const std::string& tensor, const InputSpec& file) {
  return shell_word(tensor + "=" + file.path + (file.tensor.empty() ? "" : ":" + file.tensor));
}

/// --size for every dimension that no file tells.
std::string sizes_text(const Record& record, const CaseSpec& spec) {
  const auto is_in_file = [&](std::string_view tensor) {
    const auto is_it = [&](const auto& named) { return named.first == tensor; };
    const auto input = std::find_if(spec.inputs.begin(), spec.inputs.end(), is_it);
    return (input != spec.inputs.end() && input->second.kind == "file") ||
           std::any_of(record.environment.begin(), record.environment.end(), is_it);
  };
  const auto tells = [&](const PassInfo& pass, std::string_view dim) {
    return std::any_of(pass.tensors.begin(), pass.tensors.end(), [&](const TensorSpec& t) {
      return is_in_file(t.name) && std::find(t.dims.begin(), t.dims.end(), dim) != t.dims.end();
    });
  };
  std::string text;
  for (std::size_t d = 0; d < spec.op->dims.size(); ++d) {
    const std::string_view dim = spec.op->dims[d];
    const bool is_told =
        tells(spec.op->forward, dim) || (spec.op->backward && tells(*spec.op->backward, dim));
    if (!is_told && dim != "one")
      text.append(" --size ").append(dim).append("=").append(std::to_string(spec.sizes[d]));
  }
  return text;
}

std::string check_command(const Record& record, const CaseSpec& spec) {
  std::string text = "opbound check --op " + record.op + " --precision " + record.precision +
                     " --direction " + record.direction;
  for (const AttributeSpec& a : spec.op->attributes)
    text.append(" --attribute ").append(a.name).append("=").append(text_of(a.get(spec.attributes)));
  for (const int v : spec.declared)
    text.append(" --variant ").append(spec.op->variants[static_cast<std::size_t>(v)].name);
  text += " --order " + shell_word(judged_order(record));
  text += has_cuda_functions(record) ? " --functions cuda" : " --functions exact";
  text += sizes_text(record, spec);
  for (const auto& [tensor, file] : spec.inputs)  // a mask may have been left out
    if (file.kind == "file") text += " --in " + file_argument(tensor, file);
  for (const auto& [tensor, file] : record.environment)
    if (tensor != order_file) text += " --out " + file_argument(tensor, parse_input(file));
  return text + "\n";
}

/// Of a kernel that is one of several algorithms: what naming it would do.
std::string unnamed_text(const CaseSpec& spec) {
  if (spec.declared.size() < 2) return {};
  return "the bound is the widest of those of " + std::to_string(spec.declared.size()) +
         " variants; that of the kernel's own, named by --variant, is sharper\n";
}

/// Is there a suite at `path` that has this case, or with `swept` a case that is swept so?
bool has_case(const std::string& path, const CaseSpec& spec, bool swept) {
  std::error_code ignored;
  if (path.empty() || !fs::is_regular_file(path, ignored)) return false;
  try {
    const Suite suite = read_suite(path);
    const std::vector<CaseSpec> cases = swept ? sweeps_of(suite.cases, true) : suite.cases;
    return suite.op == spec.op && std::any_of(cases.begin(), cases.end(), [&](const CaseSpec& c) {
             return identity(c) == identity(spec);
           });
  } catch (const InputError&) {
    return false;  // the suite has changed since: as good as gone
  }
}

/// The suite that has the record's case: the file that the record names, or the one of its name in
/// the suites' folder. Empty if neither has it.
std::string suite_of(const Record& record, const CaseSpec& spec) {
  const std::string name = fs::path(record.suite).filename().string();
  for (const std::string& path : {record.suite, suite_file_named(name)})
    if (has_case(path, spec, is_sweep(record))) return path;
  return {};
}

std::string not_found_text(const Record& record) {
  return " (no " + printable(record.suite, true) + " with this case is found from here)\n";
}

/// The suite of this one case, indented, its empty lines left empty.
std::string indented_suite(const CaseSpec& spec) {
  const std::string suite = suite_text(spec);
  std::string text;
  for (std::size_t at = 0; at < suite.size();) {
    const std::size_t end = suite.find('\n', at);
    text += (end == at ? "" : "  " + suite.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return text;
}

std::string version_text(const Record& record) {
  if (record.commit == commit) return {};
  return "with opbound " + record.commit + " (this one is " + commit + ")\n";
}

/// ", each 17th" as 17: a sweep of all patterns names no step.
std::string every_of(const Record& record) {
  constexpr std::string_view mark = ", each ";
  const std::size_t each = record.inputs.input.find(mark);
  if (each == std::string::npos) return "1";
  const std::string step = record.inputs.input.substr(each + mark.size());
  return step.substr(0, step.find("th"));
}

std::string device_option(const Record& record) {
  return record.device == "cpu" ? "" : " --device cuda";
}

std::string environment_of(const Record& record, std::string_view key) {
  for (const auto& [name, value] : record.environment)
    if (name == key) return value;
  return {};
}

/// Words that a comma separates, each behind the option.
std::string words_of(const std::string& words, const std::string& option) {
  std::string text;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(',', at), words.size());
    text += option + shell_word(words.substr(at, end - at));
    at = end + 1;
  }
  return text;
}

}  // namespace

std::string plugin_of(const Record& record) { return environment_of(record, plugin_file_key); }
bool is_stored(const Record& record) { return record.provider == stored_provider_name; }
std::string judged_order(const Record& record) {
  for (const auto& [name, file] : record.environment)
    if (name == order_file) return file;
  return record.contract.find("own order") != std::string::npos ? "own" : "any";
}
bool has_cuda_functions(const Record& record) {
  return record.contract.ends_with("as CUDA documents");
}
bool is_collective(const Record& record) { return record.ranks.has_value(); }
bool is_sweep(const Record& record) {
  return record.inputs.input.find(swept_mark) != std::string::npos;
}

std::string again_text(const Record& record, const CaseSpec& spec) {
  std::string text = "\nto run this check again\n";
  if (is_stored(record)) return text + "  " + check_command(record, spec) + unnamed_text(spec);
  const std::string plugin = plugin_of(record);
  CaseSpec of_suite = spec;
  if (!plugin.empty()) of_suite.declared = {spec.variant};  // the rest is what the plug-in declares
  const std::string suite = suite_of(record, of_suite);
  if (suite.empty())
    text += "with a suite " + record.op + ".toml of its own" + not_found_text(record);
  else
    text += "  opbound run " + shell_word(suite) + " --tier nightly" +
            (plugin.empty() ? device_option(record) : " --provider " + shell_word(plugin)) +
            " --case " + shell_word(identity(spec)) + "\nor with a suite " + record.op +
            ".toml of its own\n";
  return text + indented_suite(spec) + version_text(record);
}

std::string collective_again_text(const Record& record) {
  const std::string engine = record.provider, ranks = std::to_string(*record.ranks);
  const std::string launcher = environment_of(record, "launcher");
  const bool is_mpi = engine == "mpi" || engine == "mpi_library" || launcher == "mpirun";
  std::string text;
  for (const char* name :
       {"NCCL_ALGO", "NCCL_PROTO", "OPBOUND_NCCL_SYMMETRIC", "OPBOUND_NCCL_SHARED"})
    if (const std::string value = environment_of(record, name); !value.empty())
      text += name + ("=" + shell_word(value)) + " ";
  if (is_mpi) text += "mpirun -np " + ranks + " ";
  if (launcher == "srun") text += "srun -n " + ranks + " ";
  if (engine == "tcp" || launcher == "torchrun")
    text += "torchrun --no-python --nproc-per-node " + ranks + " ";
  text.append("opbound collective ").append(name_of(collective_of(record)));
  text += " --engine " + shell_word(engine);
  if (!is_mpi && launcher.empty() && engine != "tcp") text += " --ranks " + ranks;
  if (const std::string order(order_of(record)); !order.empty())
    text += " --order " + shell_word(order);
  text += " --precision " + shell_word(record.precision);
  for (const auto& [name, value] : record.attributes)
    text += " --attribute " + shell_word(name + "=" + text_of(value));
  for (const auto& [dim, size] : record.inputs.shape)
    if (dim == "n") text += " --size " + std::to_string(size);
  const std::size_t sign = record.inputs.input.find('=');
  text += " --input " + shell_word(record.inputs.input.substr(sign + 1)) + " --seed " +
          std::to_string(record.inputs.seed.value_or(1));
  for (const auto& [key, option] : std::initializer_list<std::pair<std::string_view, std::string>>{
           {tensors_key, "tensor"}, {"unwaited", "unwaited"}})
    text += words_of(environment_of(record, key), " --" + option + " ");
  for (const auto& [key, option] : std::initializer_list<std::pair<std::string_view, std::string>>{
           {"lost", "lost"}, {"dead_rank", "dead-rank"}, {"dead_round", "dead-round"}})
    if (const std::string value = environment_of(record, key); !value.empty())
      text += " --" + option + " " + shell_word(value);
  return "\nto run this check again\n  " + text + "\n" + version_text(record);
}

std::string sweep_again_text(const Record& record) {
  Record one_element = record;
  one_element.inputs.input.clear();
  const CaseSpec spec = spec_of(one_element);
  const std::string suite = suite_of(record, spec);
  const std::string folder = fs::path(suite).parent_path().string();
  std::string text = "\nto run this sweep again\n  opbound sweep " + record.op;
  if (suite.empty() || suite != suite_file_named(record.op + ".toml"))
    text += " --suites " + shell_word(folder.empty() ? "." : folder);
  text += device_option(record) + " --every " + shell_word(every_of(record)) +
          " --all-attributes --case " + shell_word(identity(spec)) + "\n";
  if (suite.empty())
    text += "in a folder with this suite " + record.op + ".toml" + not_found_text(record) +
            indented_suite(spec);
  return text + version_text(record);
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace opbound
