#include "distributed/train/state.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "distributed/train/whole.hpp"
#include "ops/hash.hpp"
#include "reports/error.hpp"
#include "suites/folder.hpp"

namespace opbound::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t slot_bytes = 256;

std::unique_ptr<Machine> machine_for(const std::string& device, const Collectives& ranks) {
  if (device == "cpu") return host_machine();
  return device_machine(ranks.device() < 0 ? device_number(device) : ranks.device());
}

Sampling sampling_of(const TrainingSpec& spec) {
  return {spec.model.context, spec.sequences, spec.micro_batches, spec.seed};
}

Tape recorded(const TrainingSpec& spec, ForwardRefs& refs, Ref& upstream) {
  Tape tape(spec.policy);
  refs = record_forward(spec.model, tape, spec.sequences);
  const Element loss = tape.value_of(refs.loss).element;
  upstream = tape.hold({"loss scale", loss, {1}, Life::input, -1});
  const Ref result = tape.hold({"loss", loss, {1}, Life::result, -1});
  tape.keep(refs.loss, result);
  refs.loss = result;
  tape.differentiate({{refs.loss, upstream}});
  return tape;
}

Arrays allocated(const TrainingSpec& spec, const Layout& layout, const Collectives& ranks,
                 Machine& machine) {
  Arrays a;
  if (is_sharded(spec.sharding))
    for (std::size_t u = 0; u < layout.units().size(); ++u)
      a.owned.push_back(layout.owned(u, ranks.rank(), ranks.size()));
  else
    a.owned.push_back({0, layout.count()});
  for (const Range& r : a.owned) a.count += r.count();
  const std::int64_t bytes = a.count * bytes_of(element_of(spec.policy.master));
  for (std::byte** array : {&a.master, &a.m, &a.v}) *array = machine.allocate(bytes);
  return a;
}

fs::path ready_text() { return fs::path("training") / "text.txt"; }

/// The ranks that the launcher started, or those that the caller has.
std::unique_ptr<Collectives> joined(const TrainingSpec& spec, const TrainOptions& options) {
  std::unique_ptr<Collectives> ranks;
  if (options.join)
    ranks = options.join();
  else
    ranks =
        options.device == "cpu" ? join_ranks() : join_device_ranks(device_number(options.device));
  if (!is_sharded(spec.sharding)) return ranks;
  if (chunks_of_a_unit % ranks->size() != 0)
    throw InputError("sharding", std::to_string(ranks->size()) + " ranks",
                     "1, 2, 4, ... to " + std::to_string(chunks_of_a_unit));
  // Layers are gathered in every micro-batch, which all ranks have to have alike.
  if (spec.micro_batches % ranks->size() != 0)
    throw InputError("micro_batches", std::to_string(spec.micro_batches) + " of a sharded run",
                     "a multiple of the " + std::to_string(ranks->size()) + " ranks");
  return ranks;
}

/// Who casts arrays beside the tape.
const Provider& casts(const TrainingSpec& spec, ProviderTable& providers) {
  return providers.named(spec.policy.rule("cast", -1).provider);
}

/// Tells those observers that want to see the calls of a program.
class Fan final : public CallWatch {
 public:
  Fan(const std::vector<Observer*>& all, const CallPlace& place) : place_(place) {
    for (Observer* o : all)
      if (o->sees_calls(place.step, place.micro_batch)) those_.push_back(o);
  }
  /// Null where nobody looks on.
  CallWatch* pointer() { return those_.empty() ? nullptr : this; }

  void before(std::size_t index, const Step& step, const Call& call) override {
    place_.index = index;
    for (Observer* o : those_) o->before_call(place_, step, call);
  }
  void alter(std::size_t, const Step& step, Call& call) override {
    for (Observer* o : those_) o->alter_call(place_, step, call);
  }
  void after(std::size_t, const Step& step, const Call& call) override {
    for (Observer* o : those_) o->after_call(place_, step, call);
  }

 private:
  std::vector<Observer*> those_;
  CallPlace place_;
};

}  // namespace

fs::path text_file(const std::string& name) {
  if (name != "auto") return name;
  const fs::path folder = suites_folder(ready_text());
  if (folder.empty())
    throw InputError("data", "no suites/training/text.txt here, beside the program or above",
                     "that file, or the name of a text");
  return folder / ready_text();
}

int device_number(const std::string& device) {
  if (device == "cuda") return 0;
  int index = -1;
  if (device.starts_with("cuda:")) {
    const char* const end = device.data() + device.size();
    const auto [stop, error] = std::from_chars(device.data() + 5, end, index);
    if (error != std::errc{} || stop != end) index = -1;
  }
  if (index < 0) throw InputError("device", "'" + device + "'", "cpu, cuda or cuda:N");
  return index;
}

Trainer::State::State(const TrainingSpec& s, const TrainOptions& options)
    : spec(s),
      ranks(joined(spec, options)),
      machine(machine_for(options.device, *ranks)),
      providers(*machine, options.make_provider),
      layout(parameters_of(spec.model)),
      text(text_file(spec.data)),
      sampler(text, sampling_of(spec)),
      tape(recorded(spec, refs, upstream)),
      arrays(allocated(spec, layout, *ranks, *machine)),
      sum(spec, layout, *ranks, *machine, casts(spec, providers)),
      optimizer(spec, layout, arrays.owned, ranks->size(), *machine),
      weights(spec, layout, arrays.master, *ranks, *machine, casts(spec, providers)),
      scaler(spec.policy),
      observers(options.observers) {
  const std::int64_t ids = rows() * bytes_of(Element::int64);
  std::int64_t places = 0;
  if (refs.positions.exists()) places = refs.positions.count();
  inputs = machine->allocate(2 * ids + places * 8 + 2 * slot_bytes);
  tokens = inputs + 2 * slot_bytes;
  targets = tokens + ids;
  std::byte* const positions = targets + ids;
  if (places > 0) {
    std::vector<std::int64_t> at(static_cast<std::size_t>(places));
    for (std::size_t i = 0; i < at.size(); ++i)
      at[i] = static_cast<std::int64_t>(i) % spec.model.context;
    machine->write(positions, at.data(), places * 8);
  }
  const auto address = [&](int value) -> std::byte* {
    const Value& v = tape.values()[static_cast<std::size_t>(value)];
    if (v.life == Life::parameter) return weights.address(static_cast<std::size_t>(v.parameter));
    if (v.life == Life::gradient)
      return sum.first() + layout.parameter(static_cast<std::size_t>(v.parameter)).begin *
                               bytes_of(element_of(spec.policy.gradient));
    if (value == refs.tokens.value) return tokens;
    if (value == refs.targets.value) return targets;
    if (value == upstream.value) return inputs;
    if (value == refs.loss.value) return inputs + slot_bytes;
    detail::require(value == refs.positions.value, "every value of the tape has a place");
    return positions;
  };
  program = std::make_unique<Program>(tape, *machine, address, providers, sum.first());
  optimizer.bind({arrays.master, arrays.m, arrays.v, sum.mean()}, providers);
  facts = {text.sha256(),
           ranks->name(),
           machine->own().device(),
           providers.versions(),
           ranks->rank(),
           ranks->size(),
           0};
  facts.parameters = parameter_count(spec.model);
}

void Trainer::State::write_upstream() {
  std::array<std::byte, 8> bytes{};
  store(loss_element(), bytes.data(), 0, round_to(format_of(loss_element()), scaler.scale()));
  machine->write(inputs, bytes.data(), bytes_of(loss_element()));
}

void Trainer::State::begin() {
  if (has_begun) return;
  has_begun = true;
  for (Observer* o : observers) o->begin(view());
  if (!observers.empty()) weights.refresh();
}

RunView Trainer::State::view() {
  return {
      spec,     layout, tape,      refs,         sampler,
      *machine, *ranks, providers, arrays.owned, {arrays.master, arrays.m, arrays.v, sum.mean()}};
}

void Trainer::State::start_update(double lr) {
  const auto watch_of = [&](Phase phase) { return Fan(observers, CallPlace{step, -1, phase, 0}); };
  Fan norm = watch_of(Phase::norm), update = watch_of(Phase::update);
  OptimizerStep::Watch watch{norm.pointer(), update.pointer(), {}};
  if (!observers.empty())
    watch.normed = [this](std::byte* norms, std::int64_t count, Element element) {
      for (Observer* o : observers) o->normed(step, norms, count, element);
    };
  optimizer.run(lr, updates + 1, scaler.scale(), *ranks, watch);
}

void Trainer::State::start(std::int64_t micro_batch, std::byte* gradients) {
  Sample sample{step, micro_batch, element_hash(micro_batch, element_hash(step, spec.seed))};
  for (Observer* o : observers) o->sample(step, micro_batch, sample);
  Tensor ids(Element::int64, {spec.sequences, spec.model.context});
  Tensor next(Element::int64, {spec.sequences, spec.model.context});
  sampler.fill(sample.step, sample.micro_batch, ids.view(), next.view());
  machine->write(tokens, ids.bytes().data(), static_cast<std::int64_t>(ids.bytes().size()));
  machine->write(targets, next.bytes().data(), static_cast<std::int64_t>(next.bytes().size()));
  program->move_gradients(gradients);
  Fan watch(observers, CallPlace{step, micro_batch, Phase::model, 0});
  Program::Enter enter;
  if (is_sharded(spec.sharding)) enter = [this](int layer) { weights.enter(layer); };
  program->run(sample.random_key, enter, watch.pointer());
  for (Observer* o : observers) o->gradient(step, micro_batch, gradients);
}

double Trainer::State::read_loss() {
  std::array<std::byte, 8> bytes{};
  machine->read(bytes.data(), inputs + slot_bytes, bytes_of(loss_element()));
  return load(loss_element(), bytes.data(), 0);
}

/// In the order of all micro-batches, so that the number of ranks does not show.
double Trainer::State::mean_loss(const std::vector<double>& own) {
  const std::int64_t all = spec.micro_batches;
  std::vector<double> padded(own);
  std::int64_t most = 0;
  for (std::int32_t r = 0; r < ranks->size(); ++r)
    most = std::max(most, micro_batches_of(spec, ranks->size(), r).count);
  padded.resize(static_cast<std::size_t>(most), 0);
  const std::vector<std::byte> bytes = ranks->gather(std::as_bytes(std::span(padded)));
  double total = 0;
  for (std::int32_t r = 0; r < ranks->size(); ++r)
    for (std::int64_t i = 0; i < micro_batches_of(spec, ranks->size(), r).count; ++i) {
      double loss = 0;
      const std::size_t at =
          static_cast<std::size_t>(r) * padded.size() + static_cast<std::size_t>(i);
      std::memcpy(&loss, bytes.data() + at * sizeof loss, sizeof loss);
      total += loss;
    }
  return total / static_cast<double>(all);
}

std::vector<Tensor> Trainer::State::gathered(const std::byte* array, Element e) {
  const std::int64_t width = bytes_of(e);
  const std::vector<std::byte> flat = whole_array(layout, *ranks, *machine, arrays.owned, e, array);
  std::vector<Tensor> tensors;
  for (std::size_t p = 0; p < layout.parameters().size(); ++p) {
    tensors.emplace_back(e, layout.parameters()[p].shape);
    std::memcpy(tensors.back().bytes().data(), flat.data() + layout.parameter(p).begin * width,
                tensors.back().bytes().size());
  }
  return tensors;
}

void Trainer::State::scatter(const std::vector<Tensor>& whole, std::byte* array) {
  const Format master = spec.policy.master;
  const std::int64_t width = bytes_of(element_of(master));
  std::vector<std::byte> flat(static_cast<std::size_t>(layout.count() * width));
  for (std::size_t p = 0; p < whole.size(); ++p)
    std::memcpy(flat.data() + layout.parameter(p).begin * width, whole[p].bytes().data(),
                whole[p].bytes().size());
  std::int64_t at = 0;
  for (const Range& r : arrays.owned) {
    machine->write(array + at, flat.data() + r.begin * width, r.count() * width);
    at += r.count() * width;
  }
}

void Trainer::State::record(StepTensors& to) {
  to.gradient = gathered(sum.mean(), element_of(spec.policy.gradient));
  const Shape shape{spec.micro_batches, spec.sequences, spec.model.context};
  to.tokens = Tensor(Element::int64, shape);
  to.targets = Tensor(Element::int64, shape);
  const std::int64_t bytes = rows() * bytes_of(Element::int64);
  for (std::int64_t g = 0; g < spec.micro_batches; ++g) {
    const auto part = [&](Tensor& whole) {
      return contiguous_view(Element::int64, {spec.sequences, spec.model.context},
                             whole.bytes().data() + g * bytes);
    };
    sampler.fill(step, g, part(to.tokens), part(to.targets));
  }
}

std::string Trainer::State::first_nonfinite() {
  const Element e = element_of(spec.policy.gradient);
  const std::vector<std::byte> own = owned_array(*machine, arrays.owned, e, sum.mean());
  std::int64_t at = 0;
  for (const Range& r : arrays.owned)
    for (std::int64_t i = r.begin; i < r.end; ++i, ++at) {
      const double x = load(e, own.data(), at);
      if (std::isfinite(x)) continue;
      for (std::size_t p = 0; p < layout.parameters().size(); ++p)
        if (layout.parameter(p).begin <= i && i < layout.parameter(p).end)
          return "the gradient of " + layout.parameters()[p].name + " is " +
                 (std::isnan(x) ? "NaN" : "infinite") + " at element " +
                 std::to_string(i - layout.parameter(p).begin);
    }
  return "the gradient's norm is not finite; the gradient is on this rank";
}

}  // namespace opbound::train
