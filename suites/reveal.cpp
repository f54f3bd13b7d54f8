#include "suites/reveal.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "suites/input.hpp"
#include "suites/prepare.hpp"
#include "suites/same_bits.hpp"

namespace opbound {
namespace {

constexpr std::uint64_t replays = 8;  // random inputs that a tree has to give the bits of

/// The powers of two that make a probe: M and a unit, each the product of a term's number and, in a
/// sum of products, its factor's.
struct ProbeNumbers {
  double term_large, factor_large;
  double term_unit, factor_unit;
  std::int64_t counts;  ///< units that every format on the way counts
};

/// Of the least power of two that a number of `f` may be without being subnormal in `compute`,
/// where a kernel may flush it.
int least_exponent(const Format& f, const Format& compute) {
  return std::max(f.exponent_min - f.digits + 1, compute.exponent_min);
}
int most_exponent(const Format& f) { return std::ilogb(f.largest()); }

/// Splits 2^exponent into two factors, the first as near to it as its format lets it be.
std::pair<double, double> split(int exponent, int least, int most) {
  const int first = std::clamp(exponent, least, most);
  return {std::ldexp(1.0, first), std::ldexp(1.0, exponent - first)};
}

/// Units that are added first, `counts` of them, must be lost in M and in -M, whose spacing towards
/// 0 is half of ulp(M): counts * unit <= ulp(M) / 4.
ProbeNumbers probe_numbers(const Format& term, const Format* factor, const Format& compute,
                           const Format& output) {
  const int least = least_exponent(term, compute), most = most_exponent(term);
  const int depth = factor == nullptr ? 0 : least_exponent(*factor, compute);
  const int reach = factor == nullptr ? 0 : most_exponent(*factor);
  const int large = std::min(most + reach, most_exponent(compute) - 1);
  const int unit = std::max({least + depth, compute.exponent_min, output.exponent_min});
  ProbeNumbers n{};
  std::tie(n.term_large, n.factor_large) = split(large, least, most);
  std::tie(n.term_unit, n.factor_unit) = split(unit, least, most);
  const int lost = large - compute.digits - unit - 1;
  n.counts = lost < 0 ? 0 : std::int64_t{1} << std::min({lost, compute.digits, output.digits, 30});
  return n;
}

constexpr const char* unknown_in_block =
    "a node of more than two terms says nothing of the order in it, unless it is a matrix unit's";

bool has_dimension(const TensorSpec& t, std::string_view dim) {
  return std::find(t.dims.begin(), t.dims.end(), dim) != t.dims.end();
}

bool takes_part(const CaseSpec& spec, const TensorSpec& t) {
  return spec.op->has_tensor(spec.attributes, t.name);
}

/// A kernel with inputs that are all probe: terms in one tensor, their factors in another.
class Probed {
 public:
  Probed(const CaseSpec& spec, const SumOfPass& sum, const Provider& provider)
      : spec_(spec),
        provider_(provider),
        pass_(spec.op->pass(spec.direction)),
        dim_(spec.op->dims[static_cast<std::size_t>(sum.dimension)]),
        output_(static_cast<std::size_t>(sum.output)),
        prepared_(prepare(spec)) {
    for (std::size_t t = 0; t < pass_.tensors.size(); ++t) take(t);
    if (terms_ == nullptr) return;
    const Format out = format_of(prepared_.call.judged()[output_].element);
    const Format term = format_of(terms_->element);
    const Format factor = factors_ == nullptr ? term : format_of(factors_->element);
    numbers_ =
        probe_numbers(term, factors_ == nullptr ? nullptr : &factor, spec.precision.compute, out);
  }

  bool has_terms() const { return terms_ != nullptr; }
  std::int64_t terms() const { return size_of(spec_, dim_); }
  std::int64_t counts() const { return numbers_.counts; }

  double operator()(std::span<const ProbeTerm> terms) {
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const bool is_large = terms[i] == ProbeTerm::plus || terms[i] == ProbeTerm::minus;
      const double value = terms[i] == ProbeTerm::zero ? 0
                           : is_large                  ? numbers_.term_large
                                                       : numbers_.term_unit;
      const auto place = static_cast<std::int64_t>(i);
      terms_->set(place * term_stride_, terms[i] == ProbeTerm::minus ? -value : value);
      if (factors_ != nullptr)
        factors_->set(place * factor_stride_,
                      is_large ? numbers_.factor_large : numbers_.factor_unit);
    }
    provider_.run(*spec_.op, prepared_.call);
    const double units =
        prepared_.call.judged()[output_].at(0) / numbers_.term_unit / numbers_.factor_unit / scale_;
    const double whole = std::nearbyint(units);
    return scale_ != 1 && std::fabs(units - whole) < 0.25 ? whole : units;
  }

  /// What one term alone becomes. A mean divides, so that units are counted to a quarter.
  void set_scale(double scale) {
    scale_ = scale;
    if (scale != 1) numbers_.counts /= 8;
  }

 private:
  /// Terms are 0 but for those of the first element of the output; all other numbers are 1.
  void take(std::size_t t) {
    const TensorSpec& tensor = pass_.tensors[t];
    if (tensor.is_written() || !takes_part(spec_, tensor)) return;
    const TensorView& values = prepared_.call.judged()[t];  // in the layout that the case gives it
    if (!is_float(values.element)) return;
    fill(values, 1);
    if (!has_dimension(tensor, dim_)) return;
    if (terms_ == nullptr) {
      terms_ = &values;
      term_stride_ = stride(tensor, values);
      fill(values, 0);
    } else if (factors_ == nullptr) {
      factors_ = &values;
      factor_stride_ = stride(tensor, values);
    }
  }

  static void fill(const TensorView& to, double value) {
    for (std::int64_t i = 0; i < to.count(); ++i) to.set(i, value);
  }

  /// Between neighbours along the sum, in row-major places.
  std::int64_t stride(const TensorSpec& tensor, const TensorView& values) const {
    std::int64_t product = 1;
    for (int axis = values.rank - 1; tensor.dims[static_cast<std::size_t>(axis)] != dim_; --axis)
      product *= values.size[axis];
    return product;
  }

  const CaseSpec& spec_;
  const Provider& provider_;
  const PassInfo& pass_;
  std::string_view dim_;
  std::size_t output_;
  Prepared prepared_;
  const TensorView* terms_ = nullptr;
  const TensorView* factors_ = nullptr;
  std::int64_t term_stride_ = 1, factor_stride_ = 1;
  ProbeNumbers numbers_{};
  double scale_ = 1;
};

/// No terms give 0, and every term alone the same; else it is no plain sum, or not of these terms.
std::string why_no_sum(Probed& probe) {
  if (!probe.has_terms()) return "no input has the dimension that is summed over";
  const std::int64_t n = probe.terms();
  std::vector<ProbeTerm> terms(static_cast<std::size_t>(n), ProbeTerm::zero);
  if (probe(terms) != 0) return "it is no plain sum: zeros do not give 0";
  double scale = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    terms[static_cast<std::size_t>(i)] = ProbeTerm::unit;
    const double got = probe(terms);
    terms[static_cast<std::size_t>(i)] = ProbeTerm::zero;
    if (i == 0) scale = got;
    if (!(got == scale && std::fabs(got) > 0 && std::isfinite(got)))
      return "it is no plain sum: term " + std::to_string(i) + " alone gives " +
             std::to_string(got) + " of itself, term 0 " + std::to_string(scale);
  }
  probe.set_scale(scale);
  return probe.counts() > 0 ? "" : "the formats are too narrow for probes";
}

/// How many elements of the output have other bits when it is added along the tree, or nothing
/// where the case's algorithm has no such sum.
std::optional<std::int64_t> differing(const CaseSpec& spec, std::size_t output,
                                      const std::vector<std::uint64_t>& got, const SumTree& tree,
                                      Products products) {
  const Prepared p = prepare(spec);
  if (!spec.op->run_along(p.call, tree, products)) return std::nullopt;
  const auto replayed = bits_of(p.call.judged()[output]);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < got.size(); ++i) count += got[i] == replayed[i] ? 0 : 1;
  return count;
}

/// Outputs of the same case on other seeds.
using Outputs = std::vector<std::vector<std::uint64_t>>;

/// How many of all elements differ, or nothing where the algorithm has no such sum.
std::optional<std::int64_t> differing(const CaseSpec& spec, std::size_t output, const Outputs& got,
                                      const SumTree& tree, Products products) {
  std::int64_t wrong = 0;
  CaseSpec random = spec;
  for (std::size_t seed = 0; seed < got.size(); ++seed) {
    random.seed = seed + 1;
    const auto count = differing(random, output, got[seed], tree, products);
    if (!count) return std::nullopt;
    wrong += *count;
  }
  return wrong;
}

/// Orders that a kernel often has: in turn, from the end, pair by pair.
std::vector<SumTree> usual_trees(std::int64_t n) {
  SumTree forth{n, {}}, back{n, {}}, pairs{n, {}};
  for (std::int64_t k = 1; k < n; ++k) {
    forth.nodes.push_back({k == 1 ? 0 : n + k - 2, k});
    back.nodes.push_back({k == 1 ? n - 1 : n + k - 2, n - 1 - k});
    pairs.nodes.push_back({2 * (k - 1), 2 * (k - 1) + 1});  // results queue up behind the terms
  }
  return {forth, back, pairs};
}

/// Would another order have given these bits? Then they are no evidence for this one.
bool tells_orders_apart(const CaseSpec& spec, std::size_t output, const Outputs& got,
                        const RevealedSum& r) {
  if (r.found.tree.leaves < 3) return true;
  int others = 0, told = 0;
  for (const SumTree& other : usual_trees(r.found.tree.leaves)) {
    if (is_same_order(other, r.found.tree)) continue;
    ++others;
    told += differing(spec, output, got, other, r.products).value_or(0) > 0 ? 1 : 0;
  }
  return told == others;
}

bool has_blocks(const SumTree& tree) {
  return std::any_of(tree.nodes.begin(), tree.nodes.end(),
                     [](const auto& children) { return children.size() > 2; });
}

/// A node of many terms is one step of a matrix unit, which takes them at once: an algorithm that
/// gives other bits when they stand the other way round adds them in turn.
bool takes_blocks_at_once(const CaseSpec& spec, std::size_t output, const Outputs& got,
                          const RevealedSum& r) {
  if (!has_blocks(r.found.tree)) return true;
  SumTree turned = r.found.tree;
  for (auto& children : turned.nodes)
    if (children.size() > 2) std::reverse(children.begin(), children.end());
  return differing(spec, output, got, turned, r.products) == 0;
}

/// Tries the case's algorithm, with products as they may be.
void replay_by(const CaseSpec& spec, std::size_t output, const Outputs& got, RevealedSum& r) {
  std::int64_t all = 0;
  for (const auto& bits : got) all += std::ssize(bits);
  for (const Products products : all_products) {
    const auto wrong = differing(spec, output, got, r.found.tree, products);
    if (!wrong) return;
    r.replayed_elements = all;
    r.products = products;
    r.variant = spec.variant;
    r.is_replayed = *wrong == 0;
    r.note = std::to_string(*wrong) + " of " + std::to_string(all) +
             " elements have other bits along the tree in " +
             std::string(name_of(spec.precision.compute));
    if (!r.is_replayed) continue;
    r.note.clear();
    if (!takes_blocks_at_once(spec, output, got, r)) r.note = unknown_in_block;
    if (!tells_orders_apart(spec, output, got, r))
      r.note =
          "another order gives the same bits: the output is too narrow, or terms are taken as they "
          "come";
    r.is_replayed = r.note.empty();
    return;
  }
}

void replay(const CaseSpec& spec, std::size_t output, const Provider& provider, RevealedSum& r) {
  Outputs got;
  CaseSpec random = spec;
  for (random.seed = 1; random.seed <= replays; ++random.seed)
    got.push_back(output_bits(random, output, provider));
  r.note = has_blocks(r.found.tree) ? unknown_in_block
                                    : "no declared algorithm is one sum of so many terms";
  for (const int variant : spec.declared) {
    random.variant = variant;
    replay_by(random, output, got, r);
    if (r.is_replayed) return;
  }
}

}  // namespace

std::vector<SumOfPass> sums_of(const Op& op, Direction direction) {
  std::vector<SumOfPass> sums;
  for (const PartInfo& part : op.pass(direction).parts) {
    for (std::size_t d = 0; d < op.dims.size(); ++d) {
      Sizes sizes;
      sizes.fill(1);
      sizes[d] = 2;
      if (part.longest_sum(sizes) == 2)
        for (const int output : part.outputs) sums.push_back({output, static_cast<int>(d)});
    }
  }
  return sums;
}

namespace {
/// The case with all its terms in one sum: an index that says which sum a term is part of is 0.
CaseSpec in_one_sum(CaseSpec spec, const SumOfPass& sum) {
  const std::string_view dim = spec.op->dims[static_cast<std::size_t>(sum.dimension)];
  for (const TensorSpec& t : spec.op->pass(spec.direction).tensors) {
    if (t.role != Role::index || !takes_part(spec, t) || !has_dimension(t, dim)) continue;
    std::erase_if(spec.inputs, [&](const auto& input) { return input.first == t.name; });
    spec.inputs.emplace_back(t.name, parse_input("same_index(value=0)"));
  }
  return spec;
}
}  // namespace

RevealedSum reveal_case(const CaseSpec& given, const SumOfPass& sum, const Provider& provider,
                        std::int64_t most_calls) {
  const CaseSpec spec = in_one_sum(given, sum);
  const auto output = static_cast<std::size_t>(sum.output);
  RevealedSum r;
  Probed probe(spec, sum, provider);
  r.found.refusal = why_no_sum(probe);
  if (!r.found.refusal.empty()) return r;
  for (const std::int64_t counts : {probe.counts(), std::int64_t{1}}) {
    const std::int64_t calls = r.found.calls;
    r.found = reveal_sum(probe.terms(), counts, most_calls - calls,
                         [&](std::span<const ProbeTerm> terms) { return probe(terms); });
    r.found.calls += calls;
    if (r.found.refusal.empty()) replay(spec, output, provider, r);
    if (!r.found.is_miscounted) break;
  }
  r.same_bits = ask_same_bits(spec, output, sum.dimension, provider);
  return r;
}

Contract revealed_contract(const CaseSpec& spec, const Provider& provider,
                           std::int64_t most_calls) {
  Contract contract = provider.contract(*spec.op, spec.declared);
  if (contract.order != Contract::Order::any || spec.direction == Direction::backward_full)
    return contract;
  const auto length = [&](const SumOfPass& s) {
    return spec.sizes[static_cast<std::size_t>(s.dimension)];
  };
  const auto sums = sums_of(*spec.op, spec.direction);
  for (const SumOfPass& sum : sums) {
    const bool is_alone = std::none_of(sums.begin(), sums.end(), [&](const SumOfPass& other) {
      return other.output != sum.output && length(other) == length(sum);
    });
    if (length(sum) < 3 || !is_alone) continue;
    const RevealedSum revealed = reveal_case(spec, sum, provider, most_calls);
    if (!revealed.is_replayed) continue;
    contract.variants = {revealed.variant};
    contract.order = Contract::Order::tree;
    contract.tree = revealed.found.tree;
    break;
  }
  return contract;
}

}  // namespace opbound
