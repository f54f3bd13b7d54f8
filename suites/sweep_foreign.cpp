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
  std::int64_t length = 0;   ///< of one call
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

/// An operand of one value for a call has one pattern there, so a call ends where it changes.
Arrangement arrangement_of(const CaseSpec& spec, const Sweep& sweep,
                           std::span<const std::size_t> operands, int output) {
  const auto tensors = spec.op->pass(spec.direction).tensors;
  for (std::size_t d = 0; d < spec.op->dims.size(); ++d) {
    Arrangement a{d, std::int64_t{1} << 18, {}};
    for (const TensorSpec& t : tensors) a.varies.push_back(places(spec, d, t) == 2);
    if (!a.varies[static_cast<std::size_t>(output)]) continue;
    if (!std::any_of(operands.begin(), operands.end(), [&](std::size_t t) { return a.varies[t]; }))
      continue;
    for (const std::size_t t : operands) {
      const Operand& o = sweep.operand[t];
      if (!a.varies[t] && o.values == Operand::Values::patterns)
        a.length = std::min(a.length, std::int64_t{1} << o.shift);
    }
    return a;
  }
  throw Unavailable("its operands have no dimension in common with what it gives");
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

/// The part's tally joins the whole's; its elements come after `first` others.
void add(FirstRung& whole, const FirstRung& part, const TensorView& got, std::int64_t first) {
  Tally t = part.tally;
  t.hash = t.proof_hash = 0;
  for (std::int64_t i = 0; i < got.count(); ++i)
    t.hash += element_hash(first + i, canonical_bits(got, i));
  if (t.worst >= 0) t.worst += first;
  whole.tally.add(t);
  if (whole.tally.worst >= 0 && whole.tally.worst == t.worst) whole.worst = part.worst;
  for (std::size_t k = 0; k < whole.histogram.size(); ++k) whole.histogram[k] += part.histogram[k];
  whole.sent_to_mpfr += part.sent_to_mpfr;
}

}  // namespace

FirstRung sweep_foreign(const CaseSpec& spec, const Provider& provider, const Contract& contract,
                        const Sweep& sweep, std::span<const std::size_t> operands, int output,
                        std::int64_t count, const SweepProgress& progress) {
  const Arrangement a = arrangement_of(spec, sweep, operands, output);
  FirstRung whole{};
  whole.tensor = output;
  for (std::int64_t first = 0; first < count; first += a.length) {
    const std::int64_t last = std::min(count, first + a.length);
    Prepared prepared = call_on(spec, sweep, a, operands, first, last);
    const Call& call = prepared.call;
    provider.run(*spec.op, call);
    for (const FirstRung& o : settled(*spec.op, call, bounds_of(*spec.op, call, contract)))
      if (o.tensor == output) add(whole, o, call.judged()[static_cast<std::size_t>(output)], first);
    progress(static_cast<std::uint64_t>(last - first));
  }
  return whole;
}

}  // namespace opbound
