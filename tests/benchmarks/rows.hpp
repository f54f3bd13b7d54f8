// Row kernels on the device against memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace opbound::benchmarks {

struct RowTimes {
  double kernel_ms;
  double bytes;  ///< read and written, each tensor once
};

/// The forward pass of our own kernel on rows x n numbers: bf16 in and out, fp32 inside.
RowTimes time_rows(std::string_view op, std::int64_t rows, std::int64_t n);

}  // namespace opbound::benchmarks
