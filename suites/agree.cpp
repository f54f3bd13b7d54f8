#include "suites/agree.hpp"

#include <bit>

namespace opbound {
namespace {

bool same_number(double a, double b) {
  return (a != a && b != b) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// A record that `differing` of `count` elements differ.
Record compared(Record r, std::string part, std::uint64_t count, std::uint64_t differing) {
  r.kind = CheckKind::agreement;
  r.part = std::move(part);
  r.contract = "bits of the host";
  r.bound_source = r.contract;
  r.counts.checked = count;
  r.counts.exceeds = differing;
  r.counts.within = count - differing;
  r.verdict = differing > 0 ? Verdict::exceeds : Verdict::within;
  return r;
}

/// How many elements of an output differ; called where hashes do.
std::uint64_t count_differing(const CaseSpec& spec, const Provider& device, const Prepared& host,
                              std::size_t tensor) {
  const Prepared there = prepare(spec);
  device.run(*spec.op, there.call);
  const TensorView a = host.call.judged()[tensor], b = there.call.judged()[tensor];
  std::uint64_t differing = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) differing += same_number(a.at(i), b.at(i)) ? 0 : 1;
  return differing;
}

/// Everything of a check that is not its worst element's text.
bool same_judgement(const OutputCheck& a, const OutputCheck& b) {
  return a.proof_hash == b.proof_hash && a.counts == b.counts && a.histogram == b.histogram &&
         a.by_theorem == b.by_theorem && a.worst.index == b.worst.index &&
         same_number(a.ratio, b.ratio) && same_number(a.acceptable_mean, b.acceptable_mean) &&
         same_number(a.error_ulp_max, b.error_ulp_max) &&
         same_number(a.error_ulp_mean, b.error_ulp_mean) && same_number(a.bias_ulp, b.bias_ulp) &&
         same_number(a.bias_z, b.bias_z);
}

}  // namespace

std::vector<Record> agree_case(const CaseSpec& spec, const Provider& device, Prepared& prepared,
                               const std::vector<OutputCheck>& checks, Agreement agreement) {
  const Op& op = *spec.op;
  op.run(prepared.call);
  std::vector<OutputCheck> here;
  if (agreement == Agreement::all)
    here = certify(op, prepared.call,
                   bounds_of(op, prepared.call, device.contract(op, spec.declared)));
  const Record common = record_of(spec, device);
  std::vector<Record> records;
  for (std::size_t k = 0; k < checks.size(); ++k) {
    const auto tensor = static_cast<std::size_t>(checks[k].tensor);
    const std::string name(op.pass(spec.direction).tensors[tensor].name);
    const bool is_same = hash_of(prepared.tensors.find(name)->second) == hash_text(checks[k].hash);
    records.push_back(compared(
        common, name, checks[k].counts.checked,
        is_same ? 0 : std::max<std::uint64_t>(1, count_differing(spec, device, prepared, tensor))));
    records.back().output_hash = hash_text(checks[k].hash);
    if (agreement != Agreement::all) continue;
    records.push_back(compared(common, name + " judged", checks[k].counts.checked,
                               same_judgement(checks[k], here[k]) ? 0 : checks[k].counts.checked));
    if (records.back().verdict != Verdict::within)
      records.back().reason = "the bound, the reference or a statistic differs somewhere";
  }
  return records;
}

}  // namespace opbound
