// What the device could do at most, measured in the same run.
#pragma once

#include <functional>

namespace opbound::benchmarks {

double multiply_adds_per_second();  ///< in fp64
double copied_bytes_per_second();   ///< read plus written
void wait_for_device();

/// Milliseconds on the device for what `start` starts: the fastest of five times.
double fastest_ms(const std::function<void()>& start);

}  // namespace opbound::benchmarks
