#include "distributed/trace/step_check.hpp"

#include <array>
#include <bit>
#include <cmath>

#include "bounds/growth.hpp"
#include "distributed/train/gradient_sum.hpp"
#include "ops/hash.hpp"
#include "reports/text.hpp"

namespace opbound::trace {
namespace {

using train::Phase;

bool are_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

StepCheck::StepCheck(const train::RunView& run, Links& links, std::uint64_t seed,
                     Links::Report report)
    : run_(run), links_(links), seed_(seed), report_(std::move(report)) {
  const auto& values = run.tape.values();
  for (std::size_t v = 0; v < values.size(); ++v)
    if (values[v].life == train::Life::input && values[v].name == "loss scale")
      loss_scale_ = static_cast<int>(v);
}

void StepCheck::begin(std::int64_t step) {
  step_ = step;
  terms_.assign(run_.layout.parameters().size(), SignSums{});
  mean_ = terms_;
  losses_.clear();
  upstream_.clear();
  norms_.clear();
  own_norms_.clear();
  is_own_norm_.clear();
  scale_.reset();
  lr_.reset();
}

double StepCheck::scalar(const std::byte* there, Element element) const {
  std::array<std::byte, 8> bytes{};
  run_.machine.read(bytes.data(), there, bytes_of(element));
  return load(element, bytes.data(), 0);
}

void StepCheck::report(const char* check, const std::string& tensor, double got, double expected,
                       double bound, std::string text, const std::string& parameter,
                       std::int64_t micro_batch) {
  Finding f;
  f.check = check;
  f.micro_batch = micro_batch;
  f.tensor = tensor;
  f.parameter = parameter;
  f.got = got;
  f.low = f.high = expected;
  f.bound = bound;
  f.wrong = 1;
  f.text = std::move(text);
  report_(std::move(f));
}

void StepCheck::call(const train::CallPlace& place, const train::Step& step, const Call& call) {
  if (place.phase != Phase::update) return;
  const Op& op = *step.spec.op;
  if (op.name == "unscale") {
    const TensorView& view = call.forward[1];
    scale_ = scalar(static_cast<const std::byte*>(view.data), view.element);
  } else if (op.name == "adamw" && !lr_) {
    for (const AttributeSpec& a : op.attributes)
      if (a.name == "lr") lr_ = std::get<double>(a.get(call.attributes));
  }
}

void StepCheck::gradient(std::int64_t micro_batch, const std::byte* flat) {
  const Element element = element_of(run_.spec.policy.gradient);
  const std::int64_t width = bytes_of(element), count = run_.layout.count();
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * width));
  run_.machine.read(bytes.data(), flat, count * width);
  for (std::size_t p = 0; p < run_.refs.gradients.size(); ++p) {
    const Shadow* written = links_.value(run_.refs.gradients[p].value);
    if (written == nullptr) continue;
    const train::Range& range = run_.layout.parameter(p);
    const auto d = written->compared(0, range.count(), bytes.data() + range.begin * width);
    if (!d) continue;
    Finding f;
    f.check = "producer";
    f.micro_batch = micro_batch;
    f.parameter = run_.layout.parameters()[p].name;
    f.tensor = "gradient";
    f.index = d->index;
    f.got = d->got;
    f.low = f.high = d->expected;
    f.wrong = d->count;
    f.text = "the gradient is not what the calls wrote: element " + std::to_string(d->index) +
             " is " + shortest(d->got) + ", " + shortest(d->expected) + " expected; " +
             std::to_string(d->count) + " differ";
    report_(std::move(f));
  }
  add_sign_sums(run_.layout, {0, count}, bytes.data(), element, seed_, terms_);
  if (const Shadow* loss = links_.value(run_.refs.loss.value))
    losses_.push_back(load(loss->element(), loss->bytes(), run_.refs.loss.offset));
  if (const Shadow* upstream = links_.value(loss_scale_))
    upstream_.emplace_back(micro_batch, load(upstream->element(), upstream->bytes(), 0));
}

void StepCheck::mean(std::int64_t) {
  const Element element = element_of(run_.spec.policy.gradient);
  const std::int64_t width = bytes_of(element);
  std::int64_t at = 0;
  Expected expected{"producer", "the mean gradient", {}, {}};
  for (const train::Range& r : run_.owned) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(r.count() * width));
    run_.machine.read(bytes.data(), run_.arrays.gradient + at * width, r.count() * width);
    add_sign_sums(run_.layout, r, bytes.data(), element, seed_, mean_);
    expected.what.set(element, at, r.count(), bytes.data());
    at += r.count();
  }
  links_.expect(run_.arrays.gradient, std::move(expected));
}

void StepCheck::norms(const std::byte* norms, std::int64_t count, Element element) {
  norm_element_ = element;
  const std::int64_t width = bytes_of(element);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * width));
  run_.machine.read(bytes.data(), norms, count * width);
  for (std::int64_t i = 0; i < count; ++i) norms_.push_back(load(element, bytes.data(), i));
  own_norms_.assign(norms_.size(), 0);
  is_own_norm_.assign(norms_.size(), 0);
  if (const Shadow* written = links_.at(Phase::norm, norms))
    for (const auto& [end, begin] : written->known().ends())
      for (std::int64_t i = begin; i < end; ++i) {
        own_norms_[static_cast<std::size_t>(i)] = load(element, written->bytes(), i);
        is_own_norm_[static_cast<std::size_t>(i)] = 1;
      }
  Expected expected{"producer", "the norms of chunks", {}, {}};
  expected.what.set(element, 0, count, bytes.data());
  links_.expect(norms, std::move(expected));
}

// ---- all ranks

std::int64_t StepCheck::most_losses() const {
  std::int64_t most = 0;
  for (std::int32_t r = 0; r < run_.ranks.size(); ++r)
    most = std::max(most, train::micro_batches_of(run_.spec, run_.ranks.size(), r).count);
  return most;
}

StepCheck::Places StepCheck::places() const {
  const std::size_t sums = terms_.size() * std::tuple_size_v<SignSums>;
  Places p{};
  p.mean = sums;
  p.losses = p.mean + sums;
  p.known = p.losses + static_cast<std::size_t>(most_losses());
  p.norms = p.known + norms_.size();
  p.weights = p.norms + norms_.size();
  p.all = p.weights + run_.refs.weights.size();
  return p;
}

std::vector<double> StepCheck::numbers() const {
  const Places p = places();
  std::vector<double> own;
  own.reserve(p.all);
  for (const auto* sums : {&terms_, &mean_})
    for (const SignSums& s : *sums) own.insert(own.end(), s.begin(), s.end());
  own.insert(own.end(), losses_.begin(), losses_.end());
  own.resize(p.known, 0);
  for (const char known : is_own_norm_) own.push_back(known);
  own.insert(own.end(), own_norms_.begin(), own_norms_.end());
  for (std::size_t w = 0; w < run_.refs.weights.size(); ++w)
    own.push_back(std::bit_cast<double>(hash_of_weight(w)));
  return own;
}

std::uint64_t StepCheck::hash_of_weight(std::size_t parameter) const {
  const Shadow* w = links_.value(run_.refs.weights[parameter].value);
  return w == nullptr ? 0 : w->hash();
}

void StepCheck::end(const train::StepResult& result) {
  const std::vector<double> all = gathered(run_.ranks, numbers());
  compare_means(all, result.step);
  compare_loss(all, result);
  compare_norms(all, result);
  compare_weights(all);
  compare_scale(result);
}

void StepCheck::compare_means(const std::vector<double>& all, std::int64_t) {
  const Places places = this->places();
  const MeanBound bound(run_.spec.policy, run_.spec.micro_batches);
  const bool is_whole = run_.is_whole();
  if (!is_whole && run_.ranks.rank() > 0) return;  // rank 0 tells
  for (std::size_t p = 0; p < terms_.size(); ++p) {
    SignSums terms{}, mean = is_whole ? mean_[p] : SignSums{};
    for (std::size_t r = 0; r * places.all < all.size(); ++r)
      for (std::size_t v = 0; v < terms.size(); ++v) {
        const std::size_t at = r * places.all + p * terms.size() + v;
        terms[v] += all[at];
        if (!is_whole) mean[v] += all[places.mean + at];
      }
    const auto elements = static_cast<double>(run_.layout.parameter(p).count());
    const MeanFit fit = fit_of(mean, terms, elements, run_.spec.micro_batches, bound);
    if (fit.fits) continue;
    report("gradient sum", "mean gradient", fit.got, fit.expected, fit.bound,
           "the mean gradient is not the mean of " + std::to_string(run_.spec.micro_batches) +
               " micro-batches' gradients: along signs " + std::to_string(fit.vector) + " it is " +
               shortest(fit.got) + ", theirs " + shortest(fit.expected) + ", bound " +
               shortest(fit.bound),
           run_.layout.parameters()[p].name);
  }
}

/// In the order of all micro-batches, as the run adds them.
void StepCheck::compare_loss(const std::vector<double>& all, const train::StepResult& result) {
  const Places places = this->places();
  double total = 0;
  for (std::int32_t r = 0; r < run_.ranks.size(); ++r)
    for (std::int64_t i = 0; i < train::micro_batches_of(run_.spec, run_.ranks.size(), r).count;
         ++i)
      total += all[static_cast<std::size_t>(r) * places.all + places.losses +
                   static_cast<std::size_t>(i)];
  const double mean = total / static_cast<double>(run_.spec.micro_batches);
  if (are_same(mean, result.loss)) return;
  report("loss", "loss", result.loss, mean, 0,
         "the step's loss is " + shortest(result.loss) + ", the mean of its micro-batches' is " +
             shortest(mean));
}

/// Each chunk's norm is what the rank that owns it computed; the norm is that of all C of them. On
/// any path there are at most C + 7 roundings: a quotient and its square (3), C - 1 sums in any
/// order, a root, two factors back, the loss scale taken off (2); here in fp64 C + 2: a square, the
/// sums, a root, a quotient. Terms of one sign err by a factor of (1 + u)^k (Higham 2002, 4):
///
///   |got - expected| <= ((1 + u)^(C + 7) - 1 + (1 + 2^-53)^(C + 2) - 1) expected + eta
void StepCheck::compare_norms(const std::vector<double>& all, const train::StepResult& result) {
  const Places places = this->places();
  double squares = 0;
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    double expected = norms_[i];
    for (std::size_t r = 0; r * places.all < all.size(); ++r)
      if (all[r * places.all + places.known + i] != 0)
        expected = all[r * places.all + places.norms + i];
    if (is_own_norm_[i] != 0) expected = own_norms_[i];
    squares += expected * expected;
    if (are_same(expected, norms_[i])) continue;
    report("norm", "norm of chunk " + std::to_string(i), norms_[i], expected, 0,
           "the update reads " + shortest(norms_[i]) + " as the norm of chunk " +
               std::to_string(i) + ", whose owner computed " + shortest(expected));
  }
  if (norms_.empty()) return;
  const double scaled = std::sqrt(squares), expected = scaled / result.loss_scale;
  const double u = format_of(norm_element_).unit_roundoff();
  const auto chunks = static_cast<double>(norms_.size());
  const double relative = growth(chunks + 7, u) + growth(chunks + 2, fp64.unit_roundoff());
  const double bound = relative * expected + format_of(norm_element_).eta();
  const double got = result.gradient_norm;
  const bool fits = std::isfinite(expected) && expected < format_of(norm_element_).largest() / 2
                        ? std::fabs(got - expected) <= bound
                        : true;
  if (fits) return;
  report("norm", "gradient norm", got, expected, bound,
         "the gradient's norm is " + shortest(got) + ", that of its " +
             std::to_string(norms_.size()) + " chunks is " + shortest(expected) + ", bound " +
             shortest(bound));
}

/// Each rank knows what its own part has to be (state_watch.hpp); that all read the same, only
/// together.
void StepCheck::compare_weights(const std::vector<double>& all) {
  const Places places = this->places();
  for (std::size_t w = 0; w < run_.refs.weights.size(); ++w) {
    const auto first = std::bit_cast<std::uint64_t>(all[places.weights + w]);
    if (hash_of_weight(w) == first) continue;
    Finding f;
    f.check = "weights";
    f.layer = run_.layout.parameters()[w].layer;
    f.parameter = run_.layout.parameters()[w].name;
    f.tensor = "weights";
    f.wrong = 1;
    f.text = "this rank's calls read other bits than those of rank 0";
    report_(std::move(f));
  }
}

void StepCheck::compare_scale(const train::StepResult& result) {
  for (const auto& [micro_batch, got] : upstream_) {
    const Element e = run_.tape.values()[static_cast<std::size_t>(loss_scale_)].element;
    const double expected = round_to(format_of(e), result.loss_scale);
    if (got != expected)
      report("loss scale", "upstream gradient", got, expected, 0,
             "the loss's upstream gradient is " + shortest(got) + ", the loss scale " +
                 shortest(expected),
             {}, micro_batch);
  }
  if (scale_ && *scale_ != round_to(fp32, result.loss_scale))
    report("loss scale", "scale", *scale_, result.loss_scale, 0,
           "the update takes off a scale of " + shortest(*scale_) + ", the loss scale is " +
               shortest(result.loss_scale));
  const double lr = train::learning_rate(run_.spec.schedule, result.step, run_.spec.steps);
  if (lr_ && *lr_ != lr)
    report("learning rate", "lr", *lr_, lr, 0,
           "the update's learning rate is " + shortest(*lr_) + ", the schedule's " + shortest(lr));
}

}  // namespace opbound::trace
