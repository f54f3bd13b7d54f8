// NCCL behind the table of nccl_transport.hpp: a module that is opened only where it is asked for.
#include "distributed/modules/nccl_transport.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace opbound {
namespace {

static_assert(nccl_id_bytes == NCCL_UNIQUE_ID_BYTES);

/// What a rank of this process holds.
struct Local {
  int device = 0;
  ncclComm_t communicator = nullptr;
  cudaStream_t writes = nullptr;  ///< the stream that makes a message
  cudaStream_t moves = nullptr;   ///< NCCL's
  std::vector<cudaEvent_t> written;
  std::byte *message = nullptr, *result = nullptr, *staged = nullptr;
  std::size_t bytes = 0;
};

std::vector<Local> locals;
std::string failure;

const char* fails(const std::string& text) {
  failure = text;
  return failure.c_str();
}
const char* failed(cudaError_t code, const char* call) {
  return code == cudaSuccess ? nullptr : fails(std::string(call) + ": " + cudaGetErrorString(code));
}
const char* failed(ncclResult_t code, const char* call) {
  if (code == ncclSuccess) return nullptr;
  return fails(std::string(call) + ": " + ncclGetErrorString(code) + ", " +
               ncclGetLastError(nullptr));
}

// Gives the error of a call to the caller of this function, if there is one.
#define OPBOUND_TRY(call)                                                          \
  do {                                                                             \
    if (const char* error_of_try = failed(call, #call); error_of_try != nullptr) { \
      const std::string words = error_of_try;                                      \
      const std::size_t end = words.find('(');                                     \
      const std::size_t text = words.find(": ");                                   \
      return fails(words.substr(0, std::min(end, text)) +                          \
                   words.substr(std::min(text, words.size())));                    \
    }                                                                              \
  } while (false)

const char* unique_id(std::byte* id) {
  ncclUniqueId made;
  OPBOUND_TRY(ncclGetUniqueId(&made));
  std::copy_n(reinterpret_cast<const std::byte*>(made.internal), nccl_id_bytes, id);
  return nullptr;
}

const char* start(std::span<const int> devices, int first_rank, int ranks, const std::byte* id) {
  locals.assign(devices.size(), {});
  std::vector<ncclComm_t> communicators(devices.size());
  if (id == nullptr) {
    OPBOUND_TRY(ncclCommInitAll(communicators.data(), ranks, devices.data()));
  } else {
    ncclUniqueId told;
    std::copy_n(id, nccl_id_bytes, reinterpret_cast<std::byte*>(told.internal));
    OPBOUND_TRY(ncclGroupStart());
    for (std::size_t k = 0; k < devices.size(); ++k) {
      OPBOUND_TRY(cudaSetDevice(devices[k]));
      OPBOUND_TRY(
          ncclCommInitRank(&communicators[k], ranks, told, first_rank + static_cast<int>(k)));
    }
    OPBOUND_TRY(ncclGroupEnd());
  }
  for (std::size_t k = 0; k < devices.size(); ++k) {
    Local& own = locals[k];
    own.device = devices[k];
    own.communicator = communicators[k];
    OPBOUND_TRY(cudaSetDevice(own.device));
    OPBOUND_TRY(cudaStreamCreateWithFlags(&own.writes, cudaStreamNonBlocking));
    OPBOUND_TRY(cudaStreamCreateWithFlags(&own.moves, cudaStreamNonBlocking));
  }
  return nullptr;
}

const char* release(Local& own) {
  OPBOUND_TRY(cudaFree(own.message));
  OPBOUND_TRY(cudaFree(own.result));
  OPBOUND_TRY(cudaFreeHost(own.staged));
  own.message = own.result = own.staged = nullptr;
  own.bytes = 0;
  return nullptr;
}

/// Room for a message, aligned as cudaMalloc aligns.
const char* reserve(Local& own, std::size_t bytes, std::size_t events) {
  OPBOUND_TRY(cudaSetDevice(own.device));
  while (own.written.size() < events) {
    own.written.emplace_back();
    OPBOUND_TRY(cudaEventCreateWithFlags(&own.written.back(), cudaEventDisableTiming));
  }
  if (bytes <= own.bytes) return nullptr;
  if (const char* error = release(own)) return error;
  OPBOUND_TRY(cudaMalloc(reinterpret_cast<void**>(&own.message), bytes));
  OPBOUND_TRY(cudaMalloc(reinterpret_cast<void**>(&own.result), bytes));
  OPBOUND_TRY(cudaMallocHost(reinterpret_cast<void**>(&own.staged), bytes));
  own.bytes = bytes;
  return nullptr;
}

/// NCCL's type of an element that is_moved_and_added.
std::optional<ncclDataType_t> type_of(Element e) {
  switch (e) {
    case Element::fp64:
      return ncclFloat64;
    case Element::fp32:
      return ncclFloat32;
    case Element::bf16:
      return ncclBfloat16;
    case Element::fp16:
      return ncclFloat16;
    default:
      return std::nullopt;  // bytes would be added as integers
  }
}

ncclRedOp_t operation_of(all_reduce::Reduction reduction) {
  switch (reduction) {
    case all_reduce::Reduction::mean:
      return ncclAvg;
    case all_reduce::Reduction::min:
      return ncclMin;
    case all_reduce::Reduction::max:
      return ncclMax;
    default:
      return ncclSum;
  }
}

/// What a stream is busy with that has not made its tensor yet.
void CUDART_CB be_late(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

/// Zeros, then each part by the stream that writes; NCCL's stream waits for those it shall wait
/// for.
const char* write_message(Local& own, const NcclCall& call, const void* given) {
  const auto width = static_cast<std::size_t>(bytes_of(call.element));
  std::byte* first = own.message + static_cast<std::size_t>(call.offset) * width;
  OPBOUND_TRY(cudaSetDevice(own.device));
  OPBOUND_TRY(cudaMemsetAsync(own.message, 0, own.bytes, own.writes));
  OPBOUND_TRY(cudaStreamSynchronize(own.writes));
  std::copy_n(static_cast<const std::byte*>(given), static_cast<std::size_t>(call.count) * width,
              own.staged);
  for (std::size_t k = 0; k < call.parts.size(); ++k) {
    const NcclPart& part = call.parts[k];
    const std::size_t from = static_cast<std::size_t>(part.range.first) * width;
    const std::size_t bytes = static_cast<std::size_t>(part.range.count) * width;
    if (part.is_late) OPBOUND_TRY(cudaLaunchHostFunc(own.writes, be_late, nullptr));
    OPBOUND_TRY(cudaMemcpyAsync(first + from, own.staged + from, bytes, cudaMemcpyHostToDevice,
                                own.writes));
    if (!part.is_waited) continue;
    OPBOUND_TRY(cudaEventRecord(own.written[k], own.writes));
    OPBOUND_TRY(cudaStreamWaitEvent(own.moves, own.written[k], 0));
  }
  return nullptr;
}

/// Starts NCCL's part; the result is where `result` says.
const char* launch(Local& own, const NcclCall& call, std::size_t shard_of_rank) {
  const auto width = static_cast<std::size_t>(bytes_of(call.element));
  const std::size_t offset = static_cast<std::size_t>(call.offset) * width;
  const auto count = static_cast<std::size_t>(call.count);
  const auto shard = static_cast<std::size_t>(call.shard);
  const std::size_t own_shard = shard_of_rank * shard * width;
  std::byte *from = own.message + offset, *to = own.result + offset;
  const std::optional<ncclDataType_t> known = type_of(call.element);
  if (!known) return fails("no NCCL type for this format");
  const ncclDataType_t type = *known;
  const ncclRedOp_t op = operation_of(call.reduction);
  switch (call.collective) {
    case Collective::all_reduce:
      OPBOUND_TRY(ncclAllReduce(from, to, count, type, op, own.communicator, own.moves));
      break;
    case Collective::reduce_scatter:
      OPBOUND_TRY(
          ncclReduceScatter(from, to + own_shard, shard, type, op, own.communicator, own.moves));
      break;
    case Collective::all_gather:
      OPBOUND_TRY(ncclAllGather(from + own_shard, to, shard * width, ncclUint8, own.communicator,
                                own.moves));
      break;
    case Collective::broadcast:
      OPBOUND_TRY(
          ncclBroadcast(from, to, count * width, ncclUint8, 0, own.communicator, own.moves));
      break;
  }
  return nullptr;
}

/// Waits for a stream, and for nobody who will not come: NCCL's own errors, or so many seconds.
const char* wait(Local& own, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  OPBOUND_TRY(cudaSetDevice(own.device));
  for (;;) {
    const cudaError_t state = cudaStreamQuery(own.moves);
    if (state == cudaSuccess) return nullptr;
    if (state != cudaErrorNotReady) return failed(state, "cudaStreamQuery");
    ncclResult_t state_there = ncclSuccess;
    OPBOUND_TRY(ncclCommGetAsyncError(own.communicator, &state_there));
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    const bool is_late = passed.count() > seconds;
    if (state_there == ncclSuccess && !is_late) continue;
    const char* words =
        is_late ? fails("no end within " + std::to_string(std::lround(seconds)) + " seconds")
                : failed(state_there, "NCCL");
    for (Local& l : locals) {  // what failed is told already, not how it is cleared away
      ncclCommAbort(l.communicator);
      l.communicator = nullptr;
    }
    return words;
  }
}

const char* run(const NcclCall& call) {
  const auto width = static_cast<std::size_t>(bytes_of(call.element));
  int ranks = 1;
  OPBOUND_TRY(ncclCommCount(locals.front().communicator, &ranks));
  // shards have one size: the last one may end behind the message
  const std::int64_t elements = std::max(call.count, call.shard * ranks) + call.offset;
  for (std::size_t k = 0; k < locals.size(); ++k) {
    if (const char* error =
            reserve(locals[k], static_cast<std::size_t>(elements) * width, call.parts.size()))
      return error;
    if (const char* error = write_message(locals[k], call, call.data[k])) return error;
  }
  OPBOUND_TRY(ncclGroupStart());
  for (Local& own : locals) {
    int rank = 0;
    OPBOUND_TRY(ncclCommUserRank(own.communicator, &rank));
    if (const char* error = launch(own, call, static_cast<std::size_t>(rank))) return error;
  }
  OPBOUND_TRY(ncclGroupEnd());
  for (std::size_t k = 0; k < locals.size(); ++k) {
    Local& own = locals[k];
    if (const char* error = wait(own, call.seconds)) return error;
    OPBOUND_TRY(cudaStreamSynchronize(own.writes));  // what nobody waited for is done too
    OPBOUND_TRY(cudaMemcpy(call.data[k], own.result + static_cast<std::size_t>(call.offset) * width,
                           static_cast<std::size_t>(call.count) * width, cudaMemcpyDeviceToHost));
  }
  return nullptr;
}

const char* finish() {
  for (Local& own : locals) {
    OPBOUND_TRY(cudaSetDevice(own.device));
    if (const char* error = release(own)) return error;
    for (cudaEvent_t event : own.written) OPBOUND_TRY(cudaEventDestroy(event));
    OPBOUND_TRY(cudaStreamDestroy(own.writes));
    OPBOUND_TRY(cudaStreamDestroy(own.moves));
    if (own.communicator != nullptr) OPBOUND_TRY(ncclCommDestroy(own.communicator));
  }
  locals.clear();
  return nullptr;
}

}  // namespace

extern "C" const char* opbound_nccl_open(NcclTransport* t) {
  OPBOUND_TRY(ncclGetVersion(&t->version));
  OPBOUND_TRY(cudaGetDeviceCount(&t->devices));
  t->unique_id = unique_id;
  t->start = start;
  t->run = run;
  t->finish = finish;
  return nullptr;
}

}  // namespace opbound
