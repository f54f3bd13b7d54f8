#include "suites/probe.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/precision.hpp"
#include "reports/error.hpp"

namespace opbound {
namespace {

constexpr int reference_bits = 300;
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

std::size_t part_of(const PassInfo& pass, std::size_t place) {
  for (std::size_t p = 0; p < pass.parts.size(); ++p)
    for (const int output : pass.parts[p].outputs)
      if (output == static_cast<int>(place)) return p;
  return pass.parts.size();
}

/// a - b of values known to 106 bits, to 53 bits of the difference or of their own last place.
double difference(const Exact& a, const Exact& b) { return (a.high - b.high) + (a.low - b.low); }

bool is_number(const Exact& e) { return e.kind == Exact::Class::finite && std::isfinite(e.high); }

/// tf32 is kept in 32 bits with 13 zeros at the end.
int idle_bits(const Format& f) { return f.kind == Kind::tf32 ? 13 : 0; }

}  // namespace

std::size_t place_of_output(const CaseSpec& spec, std::string_view part) {
  const PassInfo& pass = spec.op->pass(spec.direction);
  for (std::size_t t = 0; t < pass.tensors.size(); ++t)
    if (pass.tensors[t].name == part && part_of(pass, t) < pass.parts.size()) return t;
  throw InputError("record", "no output '" + std::string(part) + "'", "one of the op's outputs");
}

bool is_elementwise(const CaseSpec& spec, std::size_t place) {
  const PassInfo& pass = spec.op->pass(spec.direction);
  const auto has_its_dims = [&](const TensorSpec& t) { return t.dims == pass.tensors[place].dims; };
  return pass.parts[part_of(pass, place)].longest_sum(spec.sizes) == 1 &&
         std::all_of(pass.tensors.begin(), pass.tensors.end(), has_its_dims) &&
         std::all_of(spec.op->forward.tensors.begin(), spec.op->forward.tensors.end(),
                     has_its_dims);
}

std::vector<Probed> probe_block(const CaseSpec& spec, const Prepared& prepared,
                                const Contract& contract, std::size_t place, std::int64_t index) {
  const Call& call = prepared.call;
  const PassInfo& pass = spec.op->pass(spec.direction);
  const std::size_t part_place = part_of(pass, place);
  const PartInfo& part = pass.parts[part_place];
  const auto tensor = static_cast<int>(place);
  const std::int64_t block = part.block_of(spec.sizes, tensor, index);
  BlockChoice chosen(pass.parts.size(), std::vector<std::int64_t>{});
  chosen[part_place]->push_back(block);

  const BoundArrays bounds = bounds_of(*spec.op, call, contract);
  ReferenceArrays exact(call.judged().size()), unrounded(call.judged().size());
  spec.op->reference_mpfr(call, reference_bits, chosen, exact);
  spec.op->without_rounding(call, reference_bits, chosen, unrounded);

  const TensorView& view = call.judged()[place];
  const Format format = format_of(view.element);
  const Store store{format, store_rounds(call.compute, format)};
  std::vector<Probed> elements;
  for (std::int64_t i = 0, n = view.count(); i < n; ++i) {
    if (part.block_of(spec.sizes, tensor, i) != block) continue;
    const auto k = static_cast<std::size_t>(i);
    Probed e{
        i, view.at(i), exact[place].exact[k], unrounded[place].exact[k], bounds[place].radius[k],
        {}};
    e.judgement = judge(e.exact, e.bound, exact[place].gauge[k], e.got, store);
    elements.push_back(e);
  }
  return elements;
}

Neighbourhood probe_neighbours(const CaseSpec& spec, const Prepared& prepared,
                               const Provider& provider, std::size_t place, std::int64_t index,
                               int reach) {
  const TensorSpec* first = nullptr;
  for (const TensorSpec& t : spec.op->pass(spec.direction).tensors)
    if (first == nullptr && !t.is_written()) first = &t;
  Neighbourhood n;
  n.input = first->name;
  const Format format = format_of(tensor_element(spec, *first));
  const double centre = prepared.tensors.find(first->name)->second.at(index);
  if (!std::isfinite(centre)) return n;
  const std::int64_t top = ordinal_of(format, format.largest());
  const std::int64_t at = ordinal_of(format, centre);
  for (std::int64_t o = std::max(-top, at - reach); o <= std::min(top, at + reach); ++o)
    n.values.push_back(o == at ? centre : value_of(format, o));

  CaseSpec small = spec;
  small.sizes.fill(1);
  small.sizes[spec.op->dims.size() - 1] = std::ssize(n.values);
  Tensors inputs;
  const auto take = [&](const PassInfo& pass) {
    for (const TensorSpec& t : pass.tensors) {
      const auto known = prepared.tensors.find(t.name);
      if (t.is_written() || known == prepared.tensors.end()) continue;
      const std::vector<double> same(n.values.size(), known->second.at(index));
      inputs.insert_or_assign(std::string(t.name),
                              Tensor(known->second.element(), tensor_shape(small, t),
                                     t.name == n.input ? n.values : same));
    }
  };
  take(spec.op->forward);
  if (spec.direction != Direction::forward) take(*spec.op->backward);
  Prepared all = prepare(small, std::move(inputs));
  provider.run(*spec.op, all.call);
  const Contract contract = provider.contract(*spec.op, spec.declared);
  while (n.elements.size() < n.values.size()) {  // a block may be smaller than the neighbourhood
    const auto next = static_cast<std::int64_t>(n.elements.size());
    for (const Probed& e : probe_block(small, all, contract, place, next)) n.elements.push_back(e);
  }
  return n;
}

ErrorSplit split_error(const Probed& e, const Format& format) {
  if (!is_number(e.exact) || !is_number(e.without_rounding) || !std::isfinite(e.got))
    return {not_a_number, not_a_number, not_a_number};
  const double unit = ulp(format, e.exact.high);
  const Exact got{e.got, 0, 0, Exact::Class::finite};
  return {difference(got, e.exact) / unit, difference(got, e.without_rounding) / unit,
          difference(e.without_rounding, e.exact) / unit};
}

std::int64_t ordinal_of(const Format& format, double value) {
  const auto magnitude =
      static_cast<std::int64_t>(encode(format, std::fabs(value)) >> idle_bits(format));
  return value < 0 ? -magnitude : magnitude;
}

double value_of(const Format& format, std::int64_t ordinal) {
  const auto magnitude = static_cast<std::uint64_t>(ordinal < 0 ? -ordinal : ordinal);
  const double value = decode(format, magnitude << idle_bits(format));
  return ordinal < 0 ? -value : value;
}

Accepted accepted_values(const Exact& exact, double bound, const Store& store) {
  if (!is_number(exact)) return {exact.high, exact.high};
  const Format& f = store.format;
  const auto exceeds = [&](std::int64_t o) {
    return judge(exact, bound, infinite, value_of(f, o), store).verdict == Verdict::exceeds;
  };
  const std::int64_t top = ordinal_of(f, f.largest());
  const double nearest = round_to(f, exact.high);
  const std::int64_t middle = std::isfinite(nearest) ? ordinal_of(f, nearest)
                              : exact.high < 0       ? -top
                                                     : top;
  if (exceeds(middle)) return {infinite, -infinite};  // no number: an overflow is wanted
  const auto edge = [&](std::int64_t good, std::int64_t bad) {
    if (!exceeds(bad)) return value_of(f, bad);
    while (good + 1 != bad && good - 1 != bad) {
      const std::int64_t between = std::midpoint(good, bad);
      (exceeds(between) ? bad : good) = between;
    }
    return value_of(f, good);
  };
  return {edge(middle, -top), edge(middle, top)};
}

}  // namespace opbound
