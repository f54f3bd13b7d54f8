#include "distributed/claims/training_lab.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <sstream>
#include <thread>

#include "distributed/claims/op_case.hpp"
#include "distributed/claims/planted_fault.hpp"
#include "distributed/collectives.hpp"
#include "distributed/thread_ranks.hpp"
#include "reports/error.hpp"
#include "suites/folder.hpp"

namespace opbound::claims {
namespace {

namespace fs = std::filesystem;
using train::Policy;

fs::path nano_file() {
  const fs::path name = fs::path("training") / "nano.toml";
  const fs::path suites = suites_folder(name);
  if (suites.empty()) throw Unavailable("suites/training/nano.toml is not here");
  return suites / name;
}

template <std::size_t N>
std::size_t place_in(const std::array<std::string_view, N>& names, const std::string& word) {
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) throw InputError("", "'" + word + "'", "one that policies know");
  return static_cast<std::size_t>(found - names.begin());
}

void set(Variation& v, const std::string& key, const std::string& word) {
  Policy& policy = v.spec.policy;
  const auto number = [&] { return printed_number(word).value; };
  const auto whole = [&] { return static_cast<std::int64_t>(number()); };
  if (key == "dropout")
    policy.dropout = number();
  else if (key == "checkpointing")
    policy.checkpointing =
        static_cast<train::Checkpointing>(place_in(train::checkpointing_names, word));
  else if (key == "stored_input")
    policy.stored_input = format_of_name(word);
  else if (key == "gradient")
    policy.gradient = format_of_name(word);
  else if (key == "loss_scale")
    policy.loss_scale = static_cast<train::LossScale>(place_in(train::loss_scale_names, word));
  else if (key == "scale")
    policy.initial_scale = number();
  else if (key == "sharding")
    v.spec.sharding = static_cast<train::Sharding>(place_in(train::sharding_names, word));
  else if (key == "gather")
    v.spec.gather = format_of_name(word);
  else if (key == "warmup")
    v.spec.schedule.warmup_steps = whole();
  else if (key == "lr")
    v.spec.schedule.lr = number();
  else if (key == "seed")
    v.spec.seed = static_cast<std::uint64_t>(whole());
  else if (key == "micro_batches")
    v.spec.micro_batches = whole();
  else if (key == "sequences")
    v.spec.sequences = whole();
  else if (key == "ranks")
    v.ranks = static_cast<std::int32_t>(whole());
  else if (key == "fault")
    v.fault = word;
  else if (key == "from")
    v.fault_from = whole();
  else
    throw InputError("", "'" + key + "' of a variation", "a key that training_lab.hpp lists");
}

/// One rank's training, the trace of it kept.
void train_one(Laboratory& laboratory, const Variation& v, train::TrainOptions options,
               Trajectory& to) {
  options.device = laboratory.device;
  const std::unique_ptr<train::Observer> fault = planted_fault(v.fault, v.fault_from);
  if (fault != nullptr) options.observers = {fault.get()};
  train::Trainer trainer(v.spec, options);
  trainer.set_initial_weights();
  to.parameters = parameters_of(v.spec.model);
  to.first = trainer.weights();
  for (std::int64_t step = 0; step < v.spec.steps; ++step) {
    train::StepTensors tensors;
    try {
      to.steps.push_back(trainer.step(&tensors));
    } catch (const ProviderFailure& e) {
      to.failure = e.what();
      break;
    }
    std::vector<double> gradients, weights;
    for (const Tensor& t : tensors.gradient)
      gradients.push_back(norm_of(t) / to.steps.back().loss_scale);
    for (const Tensor& t : tensors.weights) weights.push_back(norm_of(t));
    to.gradient_norms.push_back(std::move(gradients));
    to.weight_norms.push_back(std::move(weights));
  }
  to.weights = trainer.weights();
  to.hash = train::hash_of(to.weights);
  to.allocated_bytes = trainer.allocated_bytes();
  to.arena_bytes = trainer.arena_bytes();
}

Trajectory trained(Laboratory& laboratory, const Variation& v) {
  Trajectory result;
  if (v.ranks == 1) {
    train_one(laboratory, v, {}, result);
    return result;
  }
  if (laboratory.device != "cpu")
    throw Unavailable("ranks of one process are on the CPU: one GPU for each is needed");
  Post post;
  std::vector<Trajectory> all(static_cast<std::size_t>(v.ranks));
  std::vector<std::thread> threads;
  for (std::int32_t r = 0; r < v.ranks; ++r)
    threads.emplace_back([&, r] {
      train::TrainOptions options;
      options.join = [&, r] {
        return host_collectives(std::make_unique<ThreadRank>(post, r, v.ranks), "threads");
      };
      train_one(laboratory, v, std::move(options), all[static_cast<std::size_t>(r)]);
    });
  for (std::thread& t : threads) t.join();
  return std::move(all.front());
}

}  // namespace

Variation variation_of(const std::string& text, std::int64_t steps) {
  std::istringstream stream(text);
  const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
  if (words.empty()) throw InputError("", "an empty variation", "a policy's name");
  Variation v;
  v.spec = train::read_training(nano_file());
  v.spec.policy = train::read_policy(words.front());
  v.spec.steps = steps;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == std::string::npos) throw InputError("", "'" + words[i] + "'", "key=value");
    set(v, words[i].substr(0, equals), words[i].substr(equals + 1));
  }
  require_valid(v.spec, text);
  return v;
}

std::size_t Trajectory::parameter_named(const std::string& name) const {
  for (std::size_t p = 0; p < parameters.size(); ++p)
    if (parameters[p].name == name) return p;
  throw InputError("", "no parameter '" + name + "'", "one of GPT-2's names");
}

const Trajectory& trajectory(Laboratory& laboratory, const std::string& text, std::int64_t steps) {
  const std::string key = text + " steps " + std::to_string(steps);
  auto& place = laboratory.trajectories[key];
  if (place == nullptr) {
    laboratory.note("trains " + key);
    const Variation v = variation_of(text, steps);
    place = std::make_shared<const Trajectory>(trained(laboratory, v));
  }
  return *place;
}

void train_steps(Laboratory& laboratory, const Variation& v,
                 const std::function<void(train::Trainer&)>& begin,
                 const std::function<void(train::Trainer&, const train::StepTensors&)>& after) {
  train::TrainOptions options;
  options.device = laboratory.device;
  const std::unique_ptr<train::Observer> fault = planted_fault(v.fault, v.fault_from);
  if (fault != nullptr) options.observers = {fault.get()};
  train::Trainer trainer(v.spec, options);
  trainer.set_initial_weights();
  if (begin) begin(trainer);
  for (std::int64_t step = 0; step < v.spec.steps; ++step) {
    train::StepTensors tensors;
    trainer.step(&tensors);
    if (after) after(trainer, tensors);
  }
}

std::vector<double> flat(const std::vector<Tensor>& tensors) {
  std::vector<double> all;
  for (const Tensor& t : tensors) {
    const std::vector<double> values = t.values();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double norm_of(const std::vector<double>& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  return std::sqrt(squares);
}

double norm_of(const Tensor& t) { return norm_of(t.values()); }

double mean_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

double deviation_of(const std::vector<double>& x) {
  if (x.size() < 2) return 0;
  const double mean = mean_of(x);
  double squares = 0;
  for (const double v : x) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(x.size() - 1));
}

double cosine_of(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0) / (norm_of(a) * norm_of(b));
}

}  // namespace opbound::claims
