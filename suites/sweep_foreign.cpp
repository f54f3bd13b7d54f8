#include "suites/sweep_foreign.hpp"

#include <algorithm>

#include "ops/hash.hpp"
#include "suites/prepare.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

/// How a sweep's elements lie in the tensors of a call.
struct Arrangement {
  std::size_t dim = 0;       ///< of the op, along which they lie
  std::vector<bool> varies;  ///< by place in the pass: has the tensor this dimension?
};

/// Elements of the tensor where dimension `dim` has two places and every other one has one.
std::int64_t places(const CaseSpec& spec, std::size_t dim, const TensorSpec& tensor) {
  CaseSpec two = spec;
  two.sizes.fill(1);
  two.sizes[dim] = 2;
  std::int64_t count = 1;
  for (const std::int64_t size : tensor_shape(two, tensor)) count *= size;
  return count;
}

Arrangement arrangement_of(const CaseSpec& spec, std::span<const std::size_t> operands,
                           int output) {
  const auto tensors = spec.op->pass(spec.direction).tensors;
  for (std::size_t d = 0; d < spec.op->dims.size(); ++d) {
    Arrangement a{d, {}};
    for (const TensorSpec& t : tensors) a.varies.push_back(places(spec, d, t) == 2);
    if (!a.varies[static_cast<std::size_t>(output)]) continue;
    if (!std::any_of(operands.begin(), operands.end(), [&](std::size_t t) { return a.varies[t]; }))
      continue;
    return a;
  }
  throw Unavailable("its operands have no dimension in common with what it gives");
}

/// Where the call that begins with element `first` ends: an operand of one value has one pattern.
std::int64_t end_of_call(const Sweep& sweep, const Arrangement& a,
                         std::span<const std::size_t> operands, std::int64_t first,
                         std::int64_t count) {
  std::int64_t last = std::min(count, first + (std::int64_t{1} << 18));
  for (const std::size_t t : operands) {
    const Operand& o = sweep.operand[t];
    if (a.varies[t] || o.values != Operand::Values::patterns) continue;
    const std::uint64_t next = ((sweep.index_of(first) >> o.shift) + 1) << o.shift;
    last = std::min(last, static_cast<std::int64_t>((next - 1) / sweep.every) + 1);
  }
  return last;
}

/// The call on elements [first, last).
Prepared call_on(const CaseSpec& spec, const Sweep& sweep, const Arrangement& a,
                 std::span<const std::size_t> operands, std::int64_t first, std::int64_t last) {
  CaseSpec here = spec;
  here.sizes.fill(1);
  here.sizes[a.dim] = last - first;
  const auto tensors = spec.op->pass(spec.direction).tensors;
  Tensors given;
  for (const std::size_t t : operands) {
    Tensor values(tensor_element(here, tensors[t]), tensor_shape(here, tensors[t]));
    for (std::int64_t i = 0; i < values.count(); ++i)
      values.set(i, sweep.operand[t].at(sweep.index_of(first + i)));
    given.emplace(tensors[t].name, std::move(values));
  }
  return prepare(here, std::move(given));
}

/// The part's tally joins the whole's; its elements come after `first` others. Is the worst element
/// now one of them?
bool add(FirstRung& whole, const FirstRung& part, const TensorView& got, std::int64_t first) {
  Tally t = part.tally;
  t.hash = t.proof_hash = 0;
  for (std::int64_t i = 0; i < got.count(); ++i)
    t.hash += element_hash(first + i, canonical_bits(got, i));
  if (t.worst >= 0) t.worst += first;
  whole.tally.add(t);
  for (std::size_t k = 0; k < whole.histogram.size(); ++k) whole.histogram[k] += part.histogram[k];
  whole.sent_to_mpfr += part.sent_to_mpfr;
  const bool is_worst_here = whole.tally.worst >= 0 && whole.tally.worst == t.worst;
  if (is_worst_here) whole.worst = part.worst;
  return is_worst_here;
}

}  // namespace

ForeignSweep sweep_foreign(const CaseSpec& spec, const Provider& provider, const Contract& contract,
                           const Sweep& sweep, std::span<const std::size_t> operands, int output,
                           std::int64_t count, const SweepProgress& progress) {
  const Arrangement a = arrangement_of(spec, operands, output);
  ForeignSweep all{};
  all.rung.tensor = output;
  for (std::int64_t first = 0, last = 0; first < count; first = last) {
    last = end_of_call(sweep, a, operands, first, count);
    Prepared prepared = call_on(spec, sweep, a, operands, first, last);
    const Call& call = prepared.call;
    provider.run(*spec.op, call);
    for (const FirstRung& o : settled(*spec.op, call, bounds_of(*spec.op, call, contract))) {
      if (o.tensor != output) continue;
      const auto views = call.judged();
      if (!add(all.rung, o, views[static_cast<std::size_t>(output)], first)) continue;
      all.worst_input.clear();
      for (const std::size_t t : operands)
        all.worst_input.push_back(views[t].at(a.varies[t] ? o.tally.worst : 0));
    }
    progress(static_cast<std::uint64_t>(last - first));
  }
  return all;
}

}  // namespace opbound
