// A large bf16 product: our kernel, its certification element by element, the check of its rows.
#pragma once

#include <cstdint>

namespace opbound::benchmarks {

struct ProductTimes {
  double kernel_s = 0, certify_s = 0, quick_s = 0;
  std::uint64_t within = 0, open = 0, exceeds = 0;
  std::int64_t failing_rows = 0;
  double ratio = 0;
};

/// a, b and d are side x side, sums in fp32.
ProductTimes time_product(std::int64_t side);

}  // namespace opbound::benchmarks
