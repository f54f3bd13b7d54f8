#include "suites/agree.hpp"

#include <bit>
#include <cstdint>
#include <functional>

#include "suites/run.hpp"

namespace opbound {
namespace {

/// A record of how many of `count` elements differ.
Record compare(Record r, std::string part, std::int64_t count,
               const std::function<bool(std::int64_t)>& differs) {
  r.kind = CheckKind::agreement;
  r.part = std::move(part);
  r.contract = "bits of the host";
  r.bound_source = r.contract;
  for (std::int64_t i = 0; i < count; ++i) ++(differs(i) ? r.counts.exceeds : r.counts.within);
  r.counts.checked = r.counts.exceeds + r.counts.within;
  r.verdict = r.counts.exceeds > 0 ? Verdict::exceeds : Verdict::within;
  return r;
}

bool same_number(double a, double b) {
  return (a != a && b != b) || std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

void compare_outputs(const CaseSpec& spec, const Provider& host, const Provider& device,
                     const Record& common, std::vector<Record>& records) {
  Prepared here = prepare(spec), there = prepare(spec);
  host.run(*spec.op, here.call);
  device.run(*spec.op, there.call);
  const auto tensors = spec.op->pass(spec.direction).tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (!tensors[t].is_judged()) continue;
    const TensorView a = here.call.judged()[t], b = there.call.judged()[t];
    records.push_back(compare(common, std::string(tensors[t].name), a.count(),
                              [&](std::int64_t i) { return !same_number(a.at(i), b.at(i)); }));
    records.back().output_hash = hash_of(there.tensors.find(tensors[t].name)->second);
  }
}

void compare_bounds(const CaseSpec& spec, const Provider& host, const Provider& device,
                    const Record& common, std::vector<Record>& records) {
  Prepared prepared = prepare(spec);
  const BoundArrays here = host.own_bounds(*spec.op, prepared.call);
  const BoundArrays there = device.own_bounds(*spec.op, prepared.call);
  const auto tensors = spec.op->pass(spec.direction).tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (!tensors[t].is_judged()) continue;
    const auto differs = [&](std::int64_t i) {
      const auto k = static_cast<std::size_t>(i);
      return !same_number(here[t].value[k], there[t].value[k]) ||
             !same_number(here[t].radius[k], there[t].radius[k]);
    };
    records.push_back(compare(common, std::string(tensors[t].name) + " bound",
                              std::ssize(here[t].value), differs));
  }
}

}  // namespace

std::vector<Record> agree_case(const CaseSpec& spec, const Provider& device) {
  const auto host = own_host_provider();
  Record common = record_of(spec, device);
  std::vector<Record> records;
  try {
    compare_outputs(spec, *host, device, common, records);
    if (spec.direction != Direction::backward_full)  // its bound is that of the two passes together
      compare_bounds(spec, *host, device, common, records);
  } catch (const Unavailable& e) {
    common.verdict = Verdict::skipped;
    common.reason = e.what();
    return {common};
  } catch (const ProviderFailure& e) {
    common.verdict = Verdict::failed;
    common.reason = e.what();
    return {common};
  }
  return records;
}

}  // namespace opbound
