#include "suites/sweep.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include "ops/parallel.hpp"
#include "ops/precision.hpp"
#include "suites/rerun.hpp"
#include "suites/run.hpp"
#include "suites/sweep_foreign.hpp"

namespace opbound {
namespace {

/// Inputs of a pass that take part, in its order.
std::vector<std::size_t> operands_of(const CaseSpec& spec) {
  const auto tensors = spec.op->pass(spec.direction).tensors;
  std::vector<std::size_t> places;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (!tensors[t].is_written() && is_float(tensor_element(spec, tensors[t])) &&
        spec.op->has_tensor(spec.attributes, tensors[t].name))
      places.push_back(t);
  return places;
}

/// The first operand takes every pattern; the second too, where both have 32 bits together.
Sweep sweep_for(const CaseSpec& spec, std::uint64_t every) {
  const auto tensors = spec.op->pass(spec.direction).tensors;
  Sweep sweep;
  sweep.direction = spec.direction;
  sweep.attributes = spec.attributes;
  sweep.variant = spec.variant;
  sweep.compute = spec.precision.compute;
  sweep.every = every;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    sweep.element[t] = tensor_element(spec, tensors[t]);
  int bits = 0;
  for (const std::size_t t : operands_of(spec)) {
    Operand& o = sweep.operand[t];
    o.format = format_of(sweep.element[t]);
    o.values = bits + o.format.bits() <= 32 ? Operand::Values::patterns : Operand::Values::drawn;
    o.shift = bits;
    o.seed = spec.seed + t;
    if (o.values == Operand::Values::patterns) bits += o.format.bits();
  }
  return sweep;
}

int swept_bits(const Sweep& sweep) {
  int bits = 0;
  for (const Operand& o : sweep.operand)
    if (o.values == Operand::Values::patterns) bits += o.format.bits();
  return bits;
}

/// Masks and indices are no operands: a pass that reads them is not swept.
bool reads_floats_only(const CaseSpec& spec) {
  const auto tensors = spec.op->pass(spec.direction).tensors;
  return std::all_of(tensors.begin(), tensors.end(), [](const TensorSpec& t) {
    return t.role != Role::mask && t.role != Role::index;
  });
}

/// Places of the outputs that can be swept: of parts that make nothing but numbers.
std::vector<int> swept_outputs(const CaseSpec& spec) {
  const PassInfo& pass = spec.op->pass(spec.direction);
  const Sweep sweep = sweep_for(spec, 1);
  std::vector<int> outputs;
  for (const PartInfo& part : pass.parts) {
    const bool makes_numbers = std::all_of(part.outputs.begin(), part.outputs.end(), [&](int t) {
      return is_float(sweep.element[static_cast<std::size_t>(t)]);
    });
    for (const int t : part.outputs) {
      const std::string_view name = pass.tensors[static_cast<std::size_t>(t)].name;
      const bool is_narrow =
          makes_numbers && bytes_of(sweep.element[static_cast<std::size_t>(t)]) <= 4;
      if (is_narrow && spec.op->has_tensor(spec.attributes, name) &&
          spec.op->sweep(sweep, t, 0, 0, 0, {}))
        outputs.push_back(t);
    }
  }
  return outputs;
}

FirstRung sweep_on_host(const Op& op, const Sweep& sweep, int output, std::int64_t count,
                        const SweepProgress& progress) {
  constexpr std::int64_t slice = (1 << 20) / sweep_run_length;
  FirstRung o{};
  o.tensor = output;
  o.open.resize(sweep_open_room);
  std::uint64_t open_count = 0;
  std::vector<Tally> tallies(static_cast<std::size_t>(runs_of(count, sweep_run_length)));
  for (std::int64_t first = 0; first < std::ssize(tallies); first += slice) {
    const std::int64_t last = std::min<std::int64_t>(std::ssize(tallies), first + slice);
    op.sweep(
        sweep, output, count, first, last,
        {tallies.data() + first, o.histogram.data(), o.open.data(), &open_count, sweep_open_room});
    progress(static_cast<std::uint64_t>((last - first) * sweep_run_length));
  }
  o.tally = merged(std::move(tallies));
  o.open.resize(std::min(open_count, sweep_open_room));
  std::sort(o.open.begin(), o.open.end());
  return o;
}

/// A call on one element of a sweep, with its tensors.
struct OneElement {
  std::vector<Tensor> tensors;
  Call call;
};

OneElement one_element(const CaseSpec& spec, const Sweep& sweep, std::int64_t k) {
  const PassInfo& pass = spec.op->pass(spec.direction);
  OneElement one;
  one.tensors.reserve(pass.tensors.size());
  one.call = {
      spec.direction, spec.attributes, spec.variant, spec.sizes, spec.precision.compute, {}, {}};
  for (std::size_t t = 0; t < pass.tensors.size(); ++t) {
    Tensor& tensor = one.tensors.emplace_back(tensor_element(spec, pass.tensors[t]),
                                              tensor_shape(spec, pass.tensors[t]));
    if (tensor.count() > 0) tensor.set(0, sweep.operand[t].at(sweep.index_of(k)));
    auto& views = spec.direction == Direction::forward ? one.call.forward : one.call.backward;
    views.push_back(tensor.view());
  }
  return one;
}

/// Element k as double-double or MPFR decides it, and whether MPFR did.
struct Decided {
  JudgedElement element{};
  bool by_mpfr = false;
};
Decided decided(const CaseSpec& spec, const Sweep& sweep, int output, std::int64_t k) {
  const OneElement one = one_element(spec, sweep, k);
  spec.op->run(one.call);
  Contract own;
  own.variants = {spec.variant};
  for (const FirstRung& o : judged_elements(*spec.op, one.call, bounds_of(*spec.op, one.call, own)))
    if (o.tensor == output) return {o.elements.front(), o.sent_to_mpfr > 0};
  detail::require(false, "a swept output is judged");
  return {};
}

/// What fp64 left open is decided, and joins the tally. How many elements MPFR took.
std::uint64_t close_open(const CaseSpec& spec, const Sweep& sweep, FirstRung& o) {
  std::vector<Decided> found(o.open.size());
  parallel_for(std::ssize(o.open), 1024, [&](std::int64_t k) {
    const auto place = static_cast<std::size_t>(k);
    found[place] = decided(spec, sweep, o.tensor, o.open[place]);
  });
  std::uint64_t by_mpfr = 0;
  for (const Decided& d : found) {
    o.elements.push_back(d.element);
    by_mpfr += d.by_mpfr ? 1 : 0;
  }
  join(o);
  return by_mpfr;
}

std::string input_text(const CaseSpec& spec, const Sweep& sweep) {
  const auto tensors = spec.op->pass(spec.direction).tensors;
  std::string text;
  for (const std::size_t t : operands_of(spec)) {
    text.append(text.empty() ? "" : " ").append(tensors[t].name).append("=");
    text += sweep.operand[t].values == Operand::Values::patterns ? "every pattern" : "drawn";
  }
  if (sweep.every > 1) text += ", each " + std::to_string(sweep.every) + "th";
  return text;
}

/// What a sweep's check says beside its counts; `worst_input`: the operands of its worst element.
Record described(const CaseSpec& spec, const Provider& provider, const Sweep& sweep,
                 const Contract& contract, const OutputCheck& c,
                 const std::vector<double>& worst_input) {
  Record r = record_of(spec, provider, c);
  r.inputs.input = input_text(spec, sweep);
  r.contract = contract_text(*spec.op, contract);
  r.bound_source = bound_source(contract, 0);
  if (!r.worst) return r;
  const std::vector<std::size_t> operands = operands_of(spec);
  for (std::size_t k = 0; k < worst_input.size(); ++k)
    r.worst->input.emplace_back(spec.op->pass(spec.direction).tensors[operands[k]].name,
                                worst_input[k]);
  return r;
}

Record own_record(const CaseSpec& spec, const Provider& provider, const Sweep& sweep,
                  FirstRung& o) {
  const std::uint64_t opened = o.tally.undecided;  // some may have had no room in `open`
  const std::uint64_t by_mpfr = close_open(spec, sweep, o);
  if (o.tally.worst >= 0) {
    o.worst = decided(spec, sweep, o.tensor, o.tally.worst).element;
    o.tally.worst_ratio = std::max(o.tally.worst_ratio, o.judge.of(o.worst, true).ratio);
  }
  OutputCheck c = check_of(o.tally, o.histogram, o.worst);
  c.tensor = o.tensor;
  c.rungs.fp64 = c.counts.checked - opened;
  c.rungs.mpfr = by_mpfr;
  c.rungs.dd = o.open.size() - by_mpfr;
  Contract own;
  own.variants = {spec.variant};
  std::vector<double> worst_input;
  for (const std::size_t t : operands_of(spec))
    worst_input.push_back(
        sweep.operand[t].at(sweep.index_of(static_cast<std::int64_t>(c.worst.index))));
  return described(spec, provider, sweep, own, c, worst_input);
}

/// Double-double decides, or MPFR.
Record foreign_record(const CaseSpec& spec, const Provider& provider, const Sweep& sweep,
                      int output, const SweepProgress& progress) {
  const Contract contract = provider.contract(*spec.op, spec.declared);
  const std::vector<std::size_t> operands = operands_of(spec);
  const auto [o, worst_input] = sweep_foreign(spec, provider, contract, sweep, operands, output,
                                              sweep_size(spec, sweep.every), progress);
  OutputCheck c = check_of(o.tally, o.histogram, o.worst);
  c.tensor = output;
  c.rungs.mpfr = o.sent_to_mpfr;
  c.rungs.dd = c.counts.checked - o.sent_to_mpfr;
  return described(spec, provider, sweep, contract, c, worst_input);
}

Record swept_record(const CaseSpec& spec, const Provider& provider, const Sweep& sweep, int output,
                    const SweepProgress& progress) {
  if (provider.is_foreign()) return foreign_record(spec, provider, sweep, output, progress);
  const std::int64_t count = sweep_size(spec, sweep.every);
  FirstRung o = provider.is_on_device() ? sweep_on_device(*spec.op, sweep, output, count, progress)
                                        : sweep_on_host(*spec.op, sweep, output, count, progress);
  o.judge = sweep.judge_of(output);
  return own_record(spec, provider, sweep, o);
}

}  // namespace

std::vector<CaseSpec> sweeps_of(const std::vector<CaseSpec>& cases, bool all_attributes) {
  std::vector<CaseSpec> sweeps;
  std::set<std::string> seen;
  for (CaseSpec spec : cases) {
    spec.sizes.fill(1);
    spec.inputs.clear();
    spec.declared = {spec.variant};
    spec.seed = 1;
    const Precision& p = spec.precision;
    const bool is_narrow = p.storage.bits() <= 32 && p.compute == fp32 && p.output.bits() <= 32;
    if (!is_narrow || spec.direction == Direction::backward_full) continue;
    if (!spec.op->refuses(spec.attributes, spec.sizes).empty()) continue;
    if (!reads_floats_only(spec) || swept_bits(sweep_for(spec, 1)) == 0) continue;
    if (swept_outputs(spec).empty()) continue;
    CaseSpec key = spec;
    if (!all_attributes) key.attributes = spec.op->default_attributes;
    if (seen.insert(std::string(spec.op->name) + " " + identity(key)).second)
      sweeps.push_back(std::move(spec));
  }
  return sweeps;
}

std::int64_t sweep_size(const CaseSpec& spec, std::uint64_t every) {
  const std::uint64_t all = std::uint64_t{1} << swept_bits(sweep_for(spec, every));
  return static_cast<std::int64_t>((all + every - 1) / every);
}

std::vector<Record> run_sweep(const CaseSpec& spec, const Provider& provider, std::uint64_t every,
                              const SweepProgress& progress) {
  const Sweep sweep = sweep_for(spec, every);
  if (provider.is_on_device()) provider.select_device();
  std::vector<Record> records;
  for (const int output : swept_outputs(spec)) {
    const auto start = std::chrono::steady_clock::now();
    records.push_back(swept_record(spec, provider, sweep, output, progress));
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    records.back().time_ms = elapsed.count();
  }
  return records;
}

}  // namespace opbound
