// Training runs in a process of their own, whose environment is set otherwise.
#include "distributed/claims/experiment.hpp"
#include "distributed/claims/other_process.hpp"
#include "distributed/claims/training_lists.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"

namespace opbound::claims {
namespace {

/// "NAME=value NAME=value"
Environment environment_of(const std::vector<std::string>& words) {
  Environment all;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw InputError("", "'" + word + "'", "NAME=value");
    all.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return all;
}

Measured environment_bits(const Given& given, Laboratory& laboratory) {
  if (given.flag("needs_cuda") && laboratory.device == "cpu")
    throw Unavailable("it is read by libraries that run on GPUs only: --device cuda runs this");
  const auto hash = [&](const Environment& environment) {
    return training_hash(given.text("run"), given.whole("steps"), laboratory.device, environment);
  };
  const std::string with = hash(environment_of(given.words("set"))), without = hash({});
  Measured m;
  m.add("differing", with == without ? 0 : 1,
        "1: the weights differ in a bit from those of a run without it");
  return m;
}

/// Each seed left at another value by turns.
Measured seeds_needed(const Given& given, Laboratory& laboratory) {
  const std::int64_t steps = given.whole("steps");
  const std::string run = given.text("run");
  const std::string base = training_hash(run + " seed=1", steps, laboratory.device, {});
  const auto differs = [&](const std::string& variation, const Environment& environment) {
    return training_hash(variation, steps, laboratory.device, environment) == base ? 0.0 : 1.0;
  };
  const double own = differs(run + " seed=2", {});
  const double hash_seed = differs(run + " seed=1", {{"PYTHONHASHSEED", "7"}});
  const double workspace = differs(run + " seed=1", {{"CUBLAS_WORKSPACE_CONFIG", ":16:8"}});
  const double again = differs(run + " seed=1", {});
  Measured m;
  m.add("needed", own + hash_seed + workspace,
        "of this program's seed, PYTHONHASHSEED and CUBLAS_WORKSPACE_CONFIG, those whose change "
        "changes a bit");
  m.add("own", own, "1: this program's one seed is one of them");
  m.add("unreproduced", again, "1: a run with the same seed gave other bits");
  return m;
}

}  // namespace

Experiments process_experiments() {
  return {{"environment_bits",
           "a training run in a process with variables set, against one without",
           {{"set", std::string("OMP_NUM_THREADS=1")},
            {"run", std::string("fp32")},
            {"steps", std::int64_t{4}},
            {"needs_cuda", false}},
           environment_bits},
          {"seeds_needed",
           "which seeds change a training run with dropout",
           {{"run", std::string("fp32 dropout=0.1")}, {"steps", std::int64_t{4}}},
           seeds_needed}};
}

}  // namespace opbound::claims
