#include "suites/shrink.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/certify.hpp"

namespace opbound {
namespace {

using Indices = std::vector<std::int64_t>;

const TensorSpec* tensor_named(const Op& op, std::string_view name) {
  for (const TensorSpec& t : op.forward.tensors)
    if (t.name == name) return &t;
  if (op.backward)
    for (const TensorSpec& t : op.backward->tensors)
      if (t.name == name) return &t;
  return nullptr;
}

/// The chosen indices of one axis.
Tensor slice(const Tensor& tensor, std::size_t axis, const Indices& chosen) {
  Shape shape = tensor.shape();
  const std::int64_t size = shape[axis];
  shape[axis] = std::ssize(chosen);
  const std::int64_t inner = std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                                             shape.end(), std::int64_t{1}, std::multiplies<>());
  Tensor result(tensor.element(), shape);
  for (std::int64_t i = 0, n = result.count(); i < n; ++i) {
    const std::int64_t outer = i / inner / std::ssize(chosen);
    const std::int64_t at = chosen[static_cast<std::size_t>(i / inner % std::ssize(chosen))];
    const std::int64_t from = (outer * size + at) * inner + i % inner;
    const auto bytes = static_cast<std::size_t>(bytes_of(tensor.element()));
    std::copy_n(tensor.bytes().begin() + from * static_cast<std::int64_t>(bytes), bytes,
                result.bytes().begin() + i * static_cast<std::int64_t>(bytes));
  }
  return result;
}

/// The worst element, if it exceeds.
std::optional<Probed> judge_worst(const CaseSpec& spec, const Prepared& prepared,
                                  const Contract& contract, std::size_t place) {
  const BoundArrays bounds = bounds_of(*spec.op, prepared.call, contract);
  for (const OutputCheck& c : certify(*spec.op, prepared.call, bounds))
    if (c.tensor == static_cast<int>(place) && c.counts.exceeds > 0) {
      Probed e;
      e.index = static_cast<std::int64_t>(c.worst.index);
      e.got = c.worst.got;
      e.exact = c.worst_exact;
      e.bound = c.worst.bound;
      e.judgement.verdict = Verdict::exceeds;
      e.judgement.ratio = c.ratio;
      return e;
    }
  return std::nullopt;
}

class Shrinking {
 public:
  Shrinking(const Failure& failure, const Provider& provider, bool stored, int most_runs)
      : best_(failure), provider_(provider), stored_(stored), most_runs_(most_runs) {}

  Shrunk run() {
    const std::size_t dims = best_.spec.op->dims.size();
    for (std::size_t d = 0; d < dims; ++d) keep(d, {coordinate(d)});
    for (std::size_t d = 0; d < dims; ++d) leave_out(d);
    if (!stored_)
      while (simplify()) {
      }
    return {best_, runs_};
  }

 private:
  /// Takes the candidate if it still fails.
  bool accept(CaseSpec spec, Tensors tensors) {
    if (runs_ >= most_runs_) return false;
    ++runs_;
    Prepared prepared = prepare(spec, tensors);
    if (!stored_) provider_.run(*spec.op, prepared.call);
    const auto worst =
        judge_worst(spec, prepared, provider_.contract(*spec.op, spec.declared), best_.place);
    if (!worst) return false;
    const bool is_same = worst->got == best_.worst.got && worst->bound == best_.worst.bound &&
                         worst->exact.high == best_.worst.exact.high;
    if (stored_ && !is_same) return false;
    best_.spec = std::move(spec);
    best_.tensors = std::move(tensors);
    best_.worst = *worst;
    return true;
  }

  /// The index of the worst element in dimension d; 0 if its tensor does not have it.
  std::int64_t coordinate(std::size_t d) const {
    const TensorSpec& tensor = best_.spec.op->pass(best_.spec.direction).tensors[best_.place];
    const Shape shape = tensor_shape(best_.spec, tensor);
    std::int64_t rest = best_.worst.index;
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
      if (tensor.dims[axis] == best_.spec.op->dims[d]) return rest % shape[axis];
    return 0;
  }

  /// Indices would point elsewhere, or nowhere, if their range lost some places.
  bool bounds_an_index(std::string_view dim) const {
    for (const auto& [name, tensor] : best_.tensors)
      if (tensor_named(*best_.spec.op, name)->below == dim) return true;
    return false;
  }

  bool keep(std::size_t d, const Indices& chosen) {
    CaseSpec spec = best_.spec;
    if (chosen.empty() || std::ssize(chosen) == spec.sizes[d]) return false;
    spec.sizes[d] = std::ssize(chosen);
    if (bounds_an_index(spec.op->dims[d]) || !spec.op->refuses(spec.attributes, spec.sizes).empty())
      return false;
    Tensors tensors;
    for (const auto& [name, tensor] : best_.tensors) {
      if (!spec.op->has_tensor(spec.attributes, name)) continue;
      const auto& dims = tensor_named(*spec.op, name)->dims;
      const auto axis = std::find(dims.begin(), dims.end(), spec.op->dims[d]) - dims.begin();
      tensors.emplace(name, axis == std::ssize(dims)
                                ? tensor
                                : slice(tensor, static_cast<std::size_t>(axis), chosen));
    }
    return accept(std::move(spec), std::move(tensors));
  }

  /// Leaves out runs of indices, long ones first, for as long as that succeeds.
  void leave_out(std::size_t d) {
    for (std::int64_t length = best_.spec.sizes[d] / 2; length > 0;) {
      bool is_shorter = false;
      for (std::int64_t first = 0; first < best_.spec.sizes[d];) {
        Indices chosen;
        for (std::int64_t i = 0; i < best_.spec.sizes[d]; ++i)
          if (i < first || i >= first + length) chosen.push_back(i);
        if (keep(d, chosen))
          is_shorter = true;
        else
          first += length;
      }
      length = is_shorter ? std::min(length, best_.spec.sizes[d] / 2) : length / 2;
    }
  }

  /// Significant bits; 0 and 1 are the simplest, a number is simpler than none.
  static int complexity(const Format& f, double x) {
    if (x == 0) return 0;
    if (!std::isfinite(x)) return f.digits + 3;
    int bits = 1;
    while (shortened(x, bits) != x) ++bits;
    return std::fabs(x) == 1 ? 1 : bits + 1;
  }

  /// x rounded to so many significant bits.
  static double shortened(double x, int bits) {
    const int shift = bits - 1 - std::ilogb(x);
    return std::scalbn(std::nearbyint(std::scalbn(x, shift)), -shift);
  }

  /// Gives every value its simplest form that still fails; false once none changes.
  bool simplify() {
    bool is_simpler = false;
    std::vector<std::string> names;
    for (const auto& [name, tensor] : best_.tensors)
      if (is_float(tensor.element())) names.push_back(name);
    for (const std::string& name : names)
      for (std::int64_t i = 0; i < best_.tensors.find(name)->second.count(); ++i)
        is_simpler = simplify(name, i) || is_simpler;
    return is_simpler && runs_ < most_runs_;
  }

  bool simplify(const std::string& name, std::int64_t i) {
    const Tensor& tensor = best_.tensors.find(name)->second;
    const Format format = format_of(tensor.element());
    const double x = tensor.at(i);
    std::vector<double> candidates{0, std::copysign(1.0, x)};
    if (std::isfinite(x) && x != 0)
      for (int bits = 1; bits < format.digits; ++bits) candidates.push_back(shortened(x, bits));
    for (const double candidate : candidates) {
      if (round_to(format, candidate) != candidate ||
          complexity(format, candidate) >= complexity(format, x))
        continue;
      Tensors changed = best_.tensors;
      changed.find(name)->second.set(i, candidate);
      if (accept(best_.spec, std::move(changed))) return true;
    }
    return false;
  }

  Failure best_;
  const Provider& provider_;
  bool stored_;
  int most_runs_, runs_ = 0;
};

}  // namespace

std::optional<Failure> find_failure(const CaseSpec& spec, const Provider& provider,
                                    std::string_view part, bool stored) {
  Failure failure{spec, {}, place_of_output(spec, part), {}};
  Prepared prepared = prepare(spec);
  provider.run(*spec.op, prepared.call);
  const auto worst =
      judge_worst(spec, prepared, provider.contract(*spec.op, spec.declared), failure.place);
  if (!worst) return std::nullopt;
  failure.worst = *worst;
  const auto take = [&](const PassInfo& pass, bool saved) {
    for (const TensorSpec& t : pass.tensors) {
      const bool is_read = !t.is_written() && (saved || t.role != Role::saved);
      if (is_read || stored) failure.tensors.insert(*prepared.tensors.find(t.name));
    }
  };
  if (spec.direction != Direction::backward_local) take(spec.op->forward, false);
  if (spec.direction != Direction::forward)
    take(*spec.op->backward, spec.direction == Direction::backward_local);
  return failure;
}

Shrunk shrink(const Failure& failure, const Provider& provider, bool stored, int most_runs) {
  return Shrinking(failure, provider, stored, most_runs).run();
}

}  // namespace opbound
