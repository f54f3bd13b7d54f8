// What lets one source run on the host and on the device.
#pragma once

#ifdef __CUDACC__
#define OPBOUND_HD __host__ __device__
#else
#define OPBOUND_HD
#endif
