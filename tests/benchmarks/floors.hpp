// What the device could do at most, measured in the same run.
#pragma once

namespace opbound::benchmarks {

double multiply_adds_per_second();  ///< in fp64
double copied_bytes_per_second();   ///< read plus written
void wait_for_device();

}  // namespace opbound::benchmarks
