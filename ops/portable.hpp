// What lets one source run on the host and on the device.
#pragma once

#ifdef __CUDACC__
#define OPBOUND_HD __host__ __device__
#ifndef OPBOUND_APART               // a source that has to be fast defines it as nothing
#define OPBOUND_APART __noinline__  ///< called, not inlined: for what is large and need not be fast
#endif
#define OPBOUND_RARE __noinline__  ///< seldom taken: it shall not cost registers
#else
#define OPBOUND_HD
#define OPBOUND_RARE
#define OPBOUND_APART
#endif

#ifdef __CUDA_ARCH__
#define OPBOUND_ROLLED _Pragma("unroll 1")  ///< a loop that is not unrolled
#else
#define OPBOUND_ROLLED
#endif
