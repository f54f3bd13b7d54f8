#include "tests/benchmarks/rows.hpp"

#include "ops/device_call.hpp"
#include "suites/run.hpp"
#include "tests/benchmarks/floors.hpp"

namespace opbound::benchmarks {

RowTimes time_rows(std::string_view op, std::int64_t rows, std::int64_t n) {
  constexpr int launches = 20;  // between two readings of the clock
  CaseSpec spec;
  spec.op = find_op(op);
  spec.attributes = spec.op->default_attributes;
  spec.precision = {bf16, fp32, bf16};
  spec.sizes = {rows, n};
  const Prepared prepared = prepare(spec);
  const cuda::DeviceCall there(prepared.call);
  RowTimes times{};
  for (const TensorView& v : prepared.call.forward)
    times.bytes += static_cast<double>(v.extent() * bytes_of(v.element));
  times.kernel_ms = fastest_ms([&] {
    for (int i = 0; i < launches; ++i) spec.op->run_on_device(there.call());
  });
  times.kernel_ms /= launches;
  return times;
}

}  // namespace opbound::benchmarks
