// What lets one source run on the host and on the device.
#pragma once

#ifdef __CUDACC__
#define OPBOUND_HD __host__ __device__
#define OPBOUND_APART __noinline__  ///< called, not inlined: for what is large and need not be fast
#else
#define OPBOUND_HD
#define OPBOUND_APART
#endif
