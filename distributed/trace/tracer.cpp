#include "distributed/trace/tracer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "distributed/trace/device_sums.hpp"
#include "distributed/trace/full_print.hpp"
#include "distributed/trace/read_view.hpp"
#include "distributed/trace/spectrum.hpp"
#include "distributed/train/language_model.hpp"
#include "distributed/train/log.hpp"
#include "distributed/train/whole.hpp"
#include "ops/hash.hpp"
#include "reports/error.hpp"

namespace opbound::trace {
namespace {

using train::CallPlace;
using train::Range;
using train::RunView;

std::vector<TraceParameter> parameters_of(const train::Layout& layout) {
  std::vector<TraceParameter> all;
  for (const train::ParameterSpec& p : layout.parameters())
    all.push_back({p.name, std::string(p.op), p.layer, p.shape});
  return all;
}

Tensor part_of(const std::vector<std::byte>& flat, Element e, const train::Layout& layout,
               std::size_t parameter) {
  Tensor t(e, layout.parameters()[parameter].shape);
  std::memcpy(t.bytes().data(), flat.data() + layout.parameter(parameter).begin * bytes_of(e),
              t.bytes().size());
  return t;
}

}  // namespace

TraceHead head_of(TraceHead head, const RunView& run) {
  head.spec = train::json_of(run.spec).dump();
  head.device = run.machine.own().device();
  head.data_sha256 = run.sampler.text_sha256();
  head.ranks = run.ranks.size();
  head.providers = run.providers.versions();
  return head;
}

std::vector<Piece> pieces_of(const train::Layout& layout) {
  std::vector<Piece> pieces;
  for (std::size_t p = 0; p < layout.parameters().size(); ++p) {
    const Range all = layout.parameter(p);
    const auto unit = std::find_if(
        layout.units().begin(), layout.units().end(),
        [&](const train::Unit& u) { return u.all.begin <= all.begin && all.end <= u.all.end; });
    const std::int64_t chunk = unit->all.count() / train::chunks_of_a_unit;
    for (std::int64_t c = 0; c < train::chunks_of_a_unit; ++c) {
      const std::int64_t first = unit->all.begin + c * chunk;
      const Range piece{std::max(all.begin, first), std::min(all.end, first + chunk)};
      if (piece.begin < piece.end) pieces.push_back({p, piece});
    }
  }
  return pieces;
}

struct Tracer::State {
  explicit State(TracerOptions o) : options(std::move(o)) {}

  TracerOptions options;
  std::optional<RunView> run;
  std::optional<TraceFile> file;  ///< of rank 0
  std::vector<TraceParameter> parameters;
  std::vector<Piece> pieces;
  std::vector<std::uint64_t> keys;  ///< by parameter
  TraceStep step, last;
  /// What is left to do once the next micro-batch computes: on a device the host waits then.
  struct Sampled {
    std::int64_t micro_batch;
    train::Sample sample;
  };
  std::vector<Sampled> sampled;
  bool is_written = true;  ///< `last` is in the file
  std::vector<CallBits> last_bits;
  std::unique_ptr<DeviceSums> sums_there;  ///< of what is owned, where that is on a device
  bool is_full = false, keeps_bits = false;
  std::vector<std::byte> weights_before, gradient;  ///< of a full step, whole
  std::vector<CallBits> bits;
  std::vector<TraceCall> calls;

  void open();
  void write_last();
  std::vector<SummedPart> owned_parts() const;
  std::vector<GradientSums> own_sums() const;
  std::vector<GradientSums> all_sums() const;
  std::vector<std::byte> whole(const std::byte* array, Element e) const {
    return train::whole_array(run->layout, run->ranks, run->machine, run->owned, e, array);
  }
  Element gradient_element() const { return element_of(run->spec.policy.gradient); }
  Element master_element() const { return element_of(run->spec.policy.master); }
  void finish_full();
  void ask_prompts();
  /// Of all ranks' micro-batches, in whatever order.
  std::uint64_t over_ranks(std::uint64_t own) const;
};

void Tracer::State::open() {
  std::optional<InputError> failure;
  const bool writes = !options.file.empty() && run->ranks.rank() == 0;
  if (writes) try {
      const bool is_there = std::filesystem::exists(options.file);
      if (options.goes_on && is_there) {
        file.emplace(options.file.string(), TraceFile::Open::go_on);
        const auto before = nlohmann::ordered_json::parse(file->head().spec, nullptr, false);
        if (!before.is_object() ||
            train::identity_of(before) != train::identity_of(train::json_of(run->spec)))
          throw InputError(options.file.string(), "a trace of another run", "that of this run");
      } else {
        file.emplace(options.file.string(), TraceFile::Open::make);
        file->write_head(head_of(options.head, *run), parameters);
      }
    } catch (const InputError& e) {
      failure = e;
    }
  const std::array<std::byte, 1> own{static_cast<std::byte>(failure.has_value())};
  const std::vector<std::byte> all = run->ranks.gather(own);
  if (failure) throw *failure;
  if (all.front() != std::byte{0})
    throw InputError(options.file.string(), "rank 0 could not make the trace", "a new file");
}

/// Pieces that are owned here, each with its place in the array of what is owned; empty ones stand
/// for the others.
std::vector<SummedPart> Tracer::State::owned_parts() const {
  std::vector<SummedPart> parts(pieces.size());
  std::int64_t at = 0;
  for (const Range& r : run->owned) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto& [parameter, range] = pieces[i];
      if (range.begin < r.begin || range.end > r.end) continue;
      parts[i] = {keys[parameter], range.begin - run->layout.parameter(parameter).begin,
                  range.count(), at + range.begin - r.begin};
    }
    at += r.count();
  }
  return parts;
}

/// By piece; of those that are not owned here: nothing.
std::vector<GradientSums> Tracer::State::own_sums() const {
  if (sums_there != nullptr) return sums_there->finish();
  const Element e = gradient_element();
  const std::vector<std::byte> own =
      train::owned_array(run->machine, run->owned, e, run->arrays.gradient);
  std::vector<GradientSums> sums;
  for (const SummedPart& p : owned_parts())
    sums.push_back(sums_of(p.key, p.first, p.count, e, own.data() + p.offset * bytes_of(e)));
  return sums;
}

std::vector<GradientSums> Tracer::State::all_sums() const {
  std::vector<GradientSums> sums = own_sums();
  if (!run->is_whole()) {
    const std::vector<std::byte> all = run->ranks.gather(std::as_bytes(std::span(sums)));
    std::vector<GradientSums> of_rank(sums.size());
    std::fill(sums.begin(), sums.end(), GradientSums{});
    for (std::size_t r = 0; r < static_cast<std::size_t>(run->ranks.size()); ++r) {
      const std::size_t bytes = sums.size() * sizeof(GradientSums);
      std::memcpy(of_rank.data(), all.data() + r * bytes, bytes);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of_rank[i];
    }
  }
  std::vector<GradientSums> by_parameter(parameters.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) by_parameter[pieces[i].parameter] += sums[i];
  return by_parameter;
}

void Tracer::State::finish_full() {
  const std::vector<std::byte> after = whole(run->arrays.master, master_element());
  const auto ranks = static_cast<std::size_t>(run->ranks.size());
  step.full.assign(parameters.size(), {});
  // Ranks share the singular values, which cost most.
  std::vector<std::array<double, largest_values>> own(parameters.size());
  std::vector<std::uint8_t> counts(parameters.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const Tensor g = part_of(gradient, gradient_element(), run->layout, p);
    const Tensor w = part_of(after, master_element(), run->layout, p);
    FullPrint& full = step.full[p];
    full.largest = largest_places(g);
    full.weight_hash = hash_of(w);
    compare_weights(g, part_of(weights_before, master_element(), run->layout, p), w, full);
    const bool is_own = p % ranks == static_cast<std::size_t>(run->ranks.rank());
    if (!is_own || g.shape().size() != 2) continue;
    const std::vector<double> shares = largest_shares(g, keys[p]);
    std::copy(shares.begin(), shares.end(), own[p].begin());
    counts[p] = static_cast<std::uint8_t>(shares.size());
  }
  const std::vector<std::byte> all = run->ranks.gather(std::as_bytes(std::span(own)));
  const std::vector<std::byte> sizes = run->ranks.gather(std::as_bytes(std::span(counts)));
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::size_t at = p % ranks * parameters.size() + p;
    step.full[p].shares.resize(std::to_integer<std::size_t>(sizes[at]));
    if (step.full[p].shares.empty()) continue;
    std::memcpy(step.full[p].shares.data(), all.data() + at * sizeof own[0],
                step.full[p].shares.size() * sizeof(double));
  }
}

std::uint64_t Tracer::State::over_ranks(std::uint64_t own) const {
  if (run->ranks.size() == 1) return own;
  const std::vector<std::byte> all = run->ranks.gather(std::as_bytes(std::span(&own, 1)));
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < all.size(); at += sizeof own) {
    std::uint64_t part = 0;
    std::memcpy(&part, all.data() + at, sizeof part);
    sum += part;
  }
  return sum;
}

Tracer::Tracer(TracerOptions options) : state_(std::make_unique<State>(std::move(options))) {}

Tracer::~Tracer() {
  try {
    state_->write_last();
  } catch (const std::exception&) {  // whoever ends a run as planned calls settle()
  }
}

void Tracer::go_on(bool resumes) { state_->options.goes_on = resumes; }

TraceHead Tracer::head() const { return head_of(state_->options.head, *state_->run); }
const TraceStep& Tracer::last() const { return state_->last; }
const std::vector<TraceParameter>& Tracer::parameters() const { return state_->parameters; }

void Tracer::note(const TraceEvent& event) {
  state_->write_last();
  if (state_->file) state_->file->write(event);
}

void Tracer::begin(const RunView& run) {
  State& s = *state_;
  s.run.emplace(run);
  s.parameters = parameters_of(run.layout);
  s.pieces = pieces_of(run.layout);
  for (const TraceParameter& p : s.parameters) s.keys.push_back(sketch_key(p.name));
  if (run.machine.stream() != nullptr && s.gradient_element() == Element::fp32)
    s.sums_there = device_sums(s.owned_parts());
  s.open();
}

void Tracer::begin_step(std::int64_t step) {
  State& s = *state_;
  if (s.last.step >= step) s.write_last();  // the run went back
  if (s.file && s.file->last_step() >= step) s.file->drop_from(step);
  s.step = {};
  s.step.step = step;
  s.bits.clear();
  s.is_full = s.options.full_every > 0 && step % s.options.full_every == 0;
  s.keeps_bits = s.is_full || s.options.bits_of.contains(step);
  if (s.is_full) s.weights_before = s.whole(s.run->arrays.master, s.master_element());
}

void Tracer::sample(std::int64_t, std::int64_t micro_batch, train::Sample& sample) {
  state_->sampled.push_back({micro_batch, sample});
}

/// The micro-batch was started: what it computed with, and the step before.
void Tracer::gradient(std::int64_t, std::int64_t, std::byte*) {
  State& s = *state_;
  const Shape shape{s.run->spec.sequences, s.run->spec.model.context};
  Tensor tokens(Element::int64, shape), targets(Element::int64, shape);
  for (const auto& [micro_batch, sample] : s.sampled) {
    s.run->sampler.fill(sample.step, sample.micro_batch, tokens.view(), targets.view());
    s.step.sample_hash += element_hash(2 * micro_batch, hash_of(tokens)) +
                          element_hash(2 * micro_batch + 1, hash_of(targets));
    s.step.random_hash += element_hash(micro_batch, sample.random_key);
  }
  s.sampled.clear();
  s.write_last();
}

bool Tracer::sees_calls(std::int64_t, std::int64_t) { return state_->keeps_bits; }

void Tracer::before_call(const CallPlace& place, const train::Step& step, const Call& call) {
  State& s = *state_;
  CallBits bits{place.step, place.micro_batch, static_cast<int>(place.phase),
                static_cast<std::int64_t>(place.index)};
  const auto& tensors = step.spec.op->pass(step.spec.direction).tensors;
  const auto& views = call.direction == Direction::forward ? call.forward : call.backward;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (step.tensors[t].exists() && !tensors[t].is_written())
      bits.inputs +=
          element_hash(static_cast<std::int64_t>(t), hash_of(copied(s.run->machine, views[t])));
  s.bits.push_back(bits);
  const CaseSpec& c = step.spec;
  const TraceCall info{bits.phase,
                       bits.index,
                       step.layer,
                       step.part,
                       std::string(c.op->name),
                       std::string(name_of(c.direction)),
                       std::string(name_of(c.precision)),
                       std::string(c.op->variants[static_cast<std::size_t>(c.variant)].name),
                       step.provider.empty() ? "own" : step.provider};
  if (s.file && std::find(s.calls.begin(), s.calls.end(), info) == s.calls.end())
    s.calls.push_back(info);
}

void Tracer::after_call(const CallPlace&, const train::Step& step, const Call& call) {
  State& s = *state_;
  const auto& tensors = step.spec.op->pass(step.spec.direction).tensors;
  const auto& views = call.direction == Direction::forward ? call.forward : call.backward;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (step.tensors[t].exists() && tensors[t].is_written())
      s.bits.back().outputs +=
          element_hash(static_cast<std::int64_t>(t), hash_of(copied(s.run->machine, views[t])));
}

void Tracer::reduced(std::int64_t) {
  State& s = *state_;
  if (s.sums_there != nullptr)
    s.sums_there->start(s.run->arrays.gradient, s.run->machine.stream());
  else
    s.step.gradients = s.all_sums();
  if (s.is_full) s.gradient = s.whole(s.run->arrays.gradient, s.gradient_element());
}

/// What the model says after each prompt, of which the last tokens count that its context holds.
void Tracer::State::ask_prompts() {
  const std::vector<std::byte> flat = whole(run->arrays.master, master_element());
  if (run->ranks.rank() == 0) {
    std::map<std::string, Tensor> weights;
    for (std::size_t p = 0; p < parameters.size(); ++p)
      weights.emplace(parameters[p].name, part_of(flat, master_element(), run->layout, p));
    const train::EvaluatedModel model =
        train::language_model("trace", run->spec, weights, options.device);
    std::vector<train::Tokens> asked;
    for (const train::Prompt& p : options.prompts) {
      const std::int64_t cut = std::max<std::int64_t>(0, std::ssize(p.tokens) - model.context);
      asked.emplace_back(p.tokens.begin() + cut, p.tokens.end());
    }
    for (const std::vector<double>& row : model.logits(asked, true))
      step.prompts.emplace_back(row.begin(), row.end());
  }
  // Other ranks have them too: what is found by them is found on all.
  const auto vocabulary = static_cast<std::size_t>(run->spec.model.vocabulary);
  step.prompts.resize(options.prompts.size(), std::vector<float>(vocabulary));
  for (std::vector<float>& row : step.prompts) {
    const std::vector<std::byte> all = run->ranks.gather(std::as_bytes(std::span(row)));
    std::memcpy(row.data(), all.data(), vocabulary * sizeof(float));
  }
}

void Tracer::updated(const train::StepResult& result) {
  State& s = *state_;
  if (s.sums_there != nullptr) s.step.gradients = s.all_sums();  // beside the update
  s.step.loss = result.loss;
  s.step.loss_scale = result.loss_scale;
  s.step.lr = result.lr;
  s.step.gradient_norm = result.gradient_norm;
  s.step.is_skipped = result.is_skipped;
  s.step.tokens = result.tokens;
  s.step.time_ms = result.time_ms;
  s.step.sample_hash = s.over_ranks(s.step.sample_hash);
  s.step.random_hash = s.over_ranks(s.step.random_hash);
  if (s.is_full) s.finish_full();
  const std::int64_t every = s.options.prompts_every;
  if (every > 0 && s.step.step % every == every - 1) s.ask_prompts();
  s.last = s.step;
  s.last_bits = std::move(s.bits);
  s.is_written = false;
}

void Tracer::settle() { state_->write_last(); }

void Tracer::State::write_last() {
  if (is_written) return;
  is_written = true;
  if (!file) return;
  if (!calls.empty()) file->write_calls(calls);
  calls.clear();
  file->write(last, last_bits);
}

}  // namespace opbound::trace
