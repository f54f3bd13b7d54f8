// NCCL behind the table of nccl_transport.hpp: a module that is opened only where it is asked for.
#include <chrono>
#include <cmath>
#include <thread>

#include "distributed/modules/nccl_ranks.hpp"

namespace opbound::nccl {

std::vector<Local> locals;
int all_ranks = 0;

namespace {
std::string failure;
bool is_of_absence = false;
}  // namespace

const char* reworded(const std::string& text) {
  failure = text;
  return failure.c_str();
}
const char* fails(const std::string& text) {
  is_of_absence = false;
  return reworded(text);
}
const char* lacks(const std::string& text) {
  is_of_absence = true;
  return reworded(text);
}
const char* failed(cudaError_t code, const char* call) {
  return code == cudaSuccess ? nullptr : fails(std::string(call) + ": " + cudaGetErrorString(code));
}
const char* failed(ncclResult_t code, const char* call) {
  if (code == ncclSuccess) return nullptr;
  const std::string last = ncclGetLastError(nullptr);
  const std::string text = std::string(call) + ": " + ncclGetErrorString(code) + ", " + last;
  // what NCCL_ALGO and NCCL_PROTO leave it no way to do; its code is that of any bad use
  const bool has_no_way = last.find("no algorithm/protocol available") != std::string::npos;
  return has_no_way ? lacks(text) : fails(text);
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
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
    case Element::e4m3:
      return ncclFloat8e4m3;
    case Element::e5m2:
      return ncclFloat8e5m2;
#endif
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

const char* wait_for(Local& own, cudaStream_t stream, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  OPBOUND_TRY(cudaSetDevice(own.device));
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) break;
    if (state != cudaErrorNotReady) return failed(state, "cudaStreamQuery");
    ncclResult_t state_there = ncclSuccess;
    if (own.communicator != nullptr)
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
  bool did_fail = false;
  OPBOUND_PASS(has_failed(own, stream, did_fail));
  return did_fail ? fails("a rank did not come to a sum in shared memory") : nullptr;
}

namespace {

static_assert(nccl_id_bytes == NCCL_UNIQUE_ID_BYTES);

const char* unique_id(std::byte* id) {
  ncclUniqueId made;
  OPBOUND_TRY(ncclGetUniqueId(&made));
  std::copy_n(reinterpret_cast<const std::byte*>(made.internal), nccl_id_bytes, id);
  return nullptr;
}

/// A communicator for each rank of this process; none where it is the only rank.
const char* communicators_of(std::span<const int> devices, int first_rank, const std::byte* id,
                             std::vector<ncclComm_t>& communicators) {
  if (id == nullptr) {
    OPBOUND_TRY(ncclCommInitAll(communicators.data(), all_ranks, devices.data()));
    return nullptr;
  }
  ncclUniqueId told;
  std::copy_n(id, nccl_id_bytes, reinterpret_cast<std::byte*>(told.internal));
  return in_group([&]() -> const char* {
    for (std::size_t k = 0; k < devices.size(); ++k) {
      OPBOUND_TRY(cudaSetDevice(devices[k]));
      OPBOUND_TRY(
          ncclCommInitRank(&communicators[k], all_ranks, told, first_rank + static_cast<int>(k)));
    }
    return nullptr;
  });
}

const char* start(std::span<const int> devices, int first_rank, int ranks, const std::byte* id) {
  locals.assign(devices.size(), {});
  all_ranks = ranks;
  std::vector<ncclComm_t> communicators(devices.size());
  OPBOUND_PASS(communicators_of(devices, first_rank, id, communicators));
  for (std::size_t k = 0; k < devices.size(); ++k) {
    Local& own = locals[k];
    own.device = devices[k];
    own.rank = first_rank + static_cast<int>(k);
    own.communicator = communicators[k];
    OPBOUND_TRY(cudaSetDevice(own.device));
    int least = 0, most = 0;
    OPBOUND_TRY(cudaDeviceGetStreamPriorityRange(&least, &most));
    OPBOUND_TRY(cudaStreamCreateWithFlags(&own.writes, cudaStreamNonBlocking));
    OPBOUND_TRY(cudaStreamCreateWithPriority(&own.moves, cudaStreamNonBlocking, least));
    OPBOUND_TRY(cudaStreamCreateWithPriority(&own.urgent, cudaStreamNonBlocking, most));
    for (cudaEvent_t* event : {&own.began, &own.ended}) OPBOUND_TRY(cudaEventCreate(event));
  }
  OPBOUND_TRY(cudaSetDevice(devices[0]));
  return nullptr;
}

// ---- messages from the host and back

const char* release(Local& own) {
  OPBOUND_TRY(cudaSetDevice(own.device));
  std::erase_if(own.shared, [&](const Shared& s) { return s.own == own.message; });
  for (ncclWindow_t& window : own.windows) {
    if (window != nullptr) OPBOUND_TRY(ncclCommWindowDeregister(own.communicator, window));
    window = nullptr;
  }
  for (std::byte** memory : {&own.message, &own.result}) {
    if (own.is_symmetric) {
      OPBOUND_TRY(ncclMemFree(*memory));
    } else {
      OPBOUND_TRY(cudaFree(*memory));
    }
    *memory = nullptr;
  }
  OPBOUND_TRY(cudaFreeHost(own.staged));
  own.staged = nullptr;
  own.bytes = 0;
  return nullptr;
}

/// Room for a message, aligned as cudaMalloc aligns.
const char* reserve(Local& own, std::size_t bytes, bool is_symmetric) {
  OPBOUND_PASS(release(own));
  OPBOUND_TRY(cudaSetDevice(own.device));
  own.is_symmetric = is_symmetric;
  for (std::byte** memory : {&own.message, &own.result}) {
    auto** place = reinterpret_cast<void**>(memory);
    if (is_symmetric) {
      OPBOUND_TRY(ncclMemAlloc(place, bytes));
    } else {
      OPBOUND_TRY(cudaMalloc(place, bytes));
    }
  }
  OPBOUND_TRY(cudaMallocHost(reinterpret_cast<void**>(&own.staged), bytes));
  own.bytes = bytes;
  return nullptr;
}

/// Windows of all ranks over their messages, which NCCL's symmetric kernels ask for.
const char* register_windows() {
  for (int w = 0; w < 2; ++w) {
    const char* const told = in_group([&]() -> const char* {
      for (Local& own : locals)
        OPBOUND_TRY(ncclCommWindowRegister(own.communicator, w == 0 ? own.message : own.result,
                                           own.bytes, &own.windows[w], NCCL_WIN_COLL_SYMMETRIC));
      return nullptr;
    });
    OPBOUND_PASS(told);
  }
  for (const Local& own : locals)
    if (own.windows[0] == nullptr || own.windows[1] == nullptr)
      return lacks("no symmetric memory between these ranks");
  return nullptr;
}

const char* reserve_all(const NcclCall& call) {
  const auto width = static_cast<std::size_t>(bytes_of(call.sum.element));
  // shards have one size: the last one may end behind the message
  const std::int64_t elements = std::max(call.count, call.shard * all_ranks) + call.offset;
  const std::size_t bytes = std::max<std::size_t>(static_cast<std::size_t>(elements) * width, 1);
  for (Local& own : locals) {
    OPBOUND_TRY(cudaSetDevice(own.device));
    while (own.written.size() < call.parts.size()) {
      own.written.emplace_back();
      OPBOUND_TRY(cudaEventCreateWithFlags(&own.written.back(), cudaEventDisableTiming));
    }
  }
  const Local& first = locals.front();
  if (bytes <= first.bytes && call.is_symmetric == first.is_symmetric) return nullptr;
  for (Local& own : locals) OPBOUND_PASS(reserve(own, bytes, call.is_symmetric));
  if (call.is_symmetric) return register_windows();
  if (!call.sum.is_in_tree || static_cast<int>(locals.size()) < all_ranks) return nullptr;
  std::vector<void*> messages;
  for (const Local& own : locals) messages.push_back(own.message);
  // where devices do not reach one another, NCCL moves
  if (share(messages, static_cast<std::int64_t>(bytes), {}, call.seconds) != nullptr)
    return unshare();
  return nullptr;
}

/// What a stream is busy with that has not made its tensor yet.
void CUDART_CB be_late(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

/// Zeros, then each part by the stream that writes; the stream that moves waits for those it shall
/// wait for.
const char* write_message(Local& own, const NcclCall& call, const void* given, cudaStream_t moves) {
  const auto width = static_cast<std::size_t>(bytes_of(call.sum.element));
  std::byte* first = own.message + static_cast<std::size_t>(call.offset) * width;
  OPBOUND_TRY(cudaSetDevice(own.device));
  OPBOUND_TRY(cudaMemsetAsync(own.message, 0, own.bytes, own.writes));
  OPBOUND_TRY(cudaStreamSynchronize(own.writes));
  std::copy_n(static_cast<const std::byte*>(given), static_cast<std::size_t>(call.count) * width,
              own.staged);
  if (call.is_otherwise && own.rank % 2 == 1)
    OPBOUND_TRY(cudaLaunchHostFunc(moves, be_late, nullptr));
  for (std::size_t k = 0; k < call.parts.size(); ++k) {
    const NcclPart& part = call.parts[k];
    const std::size_t from = static_cast<std::size_t>(part.range.first) * width;
    const std::size_t bytes = static_cast<std::size_t>(part.range.count) * width;
    if (part.is_late) OPBOUND_TRY(cudaLaunchHostFunc(own.writes, be_late, nullptr));
    OPBOUND_TRY(cudaMemcpyAsync(first + from, own.staged + from, bytes, cudaMemcpyHostToDevice,
                                own.writes));
    if (!part.is_waited) continue;
    OPBOUND_TRY(cudaEventRecord(own.written[k], own.writes));
    OPBOUND_TRY(cudaStreamWaitEvent(moves, own.written[k], 0));
  }
  return nullptr;
}

/// Starts NCCL's part, from `message` to `result`: out of place, as most programs call it.
const char* launch_library(Local& own, const NcclCall& call, cudaStream_t moves) {
  const auto width = static_cast<std::size_t>(bytes_of(call.sum.element));
  const std::size_t offset = static_cast<std::size_t>(call.offset) * width;
  const auto count = static_cast<std::size_t>(call.count);
  const auto shard = static_cast<std::size_t>(call.shard);
  const std::size_t own_shard = static_cast<std::size_t>(own.rank) * shard * width;
  std::byte *from = own.message + offset, *to = own.result + offset;
  const std::optional<ncclDataType_t> type = type_of(call.sum.element);
  if (!type) return lacks("no NCCL type for this format");
  const ncclRedOp_t op = operation_of(call.sum.reduction);
  switch (call.collective) {
    case Collective::all_reduce:
      OPBOUND_TRY(ncclAllReduce(from, to, count, *type, op, own.communicator, moves));
      break;
    case Collective::reduce_scatter:
      OPBOUND_TRY(
          ncclReduceScatter(from, to + own_shard, shard, *type, op, own.communicator, moves));
      break;
    case Collective::all_gather:
      OPBOUND_TRY(
          ncclAllGather(from + own_shard, to, shard * width, ncclUint8, own.communicator, moves));
      break;
    case Collective::broadcast:
      OPBOUND_TRY(ncclBroadcast(from, to, count * width, ncclUint8, 0, own.communicator, moves));
      break;
  }
  return nullptr;
}

const char* launch_messages(const NcclCall& call, std::span<const cudaStream_t> moves) {
  if (call.sum.is_in_tree) {
    std::vector<void*> data, streams(moves.begin(), moves.end());
    for (const Local& own : locals)
      data.push_back(own.message + call.offset * bytes_of(call.sum.element));
    return launch(
        {call.collective, call.sum, call.ranks, call.count, data, streams, call.is_shared});
  }
  return in_group([&]() -> const char* {
    for (std::size_t k = 0; k < locals.size(); ++k)
      OPBOUND_PASS(launch_library(locals[k], call, moves[k]));
    return nullptr;
  });
}

const char* run(const NcclCall& call) {
  const auto width = static_cast<std::size_t>(bytes_of(call.sum.element));
  OPBOUND_PASS(reserve_all(call));
  std::vector<cudaStream_t> moves;
  for (std::size_t k = 0; k < locals.size(); ++k) {
    moves.push_back(call.is_otherwise ? locals[k].urgent : locals[k].moves);
    OPBOUND_PASS(write_message(locals[k], call, call.data[k], moves[k]));
    OPBOUND_TRY(cudaEventRecord(locals[k].began, moves[k]));
  }
  OPBOUND_PASS(launch_messages(call, moves));
  for (std::size_t k = 0; k < locals.size(); ++k) {
    OPBOUND_TRY(cudaSetDevice(locals[k].device));
    OPBOUND_TRY(cudaEventRecord(locals[k].ended, moves[k]));
  }
  for (std::size_t k = 0; k < locals.size(); ++k) {
    Local& own = locals[k];
    OPBOUND_PASS(wait_for(own, moves[k], call.seconds));
    OPBOUND_TRY(cudaStreamSynchronize(own.writes));  // what nobody waited for is done too
    float ms = 0;
    OPBOUND_TRY(cudaEventElapsedTime(&ms, own.began, own.ended));
    call.ms[k] = static_cast<double>(ms);
    const std::byte* from = call.sum.is_in_tree ? own.message : own.result;
    OPBOUND_TRY(cudaMemcpy(call.data[k], from + static_cast<std::size_t>(call.offset) * width,
                           static_cast<std::size_t>(call.count) * width, cudaMemcpyDeviceToHost));
  }
  return nullptr;
}

const char* wait(void* stream, double seconds) {
  return wait_for(locals.front(), static_cast<cudaStream_t>(stream), seconds);
}

const char* finish() {
  for (Local& own : locals) {
    OPBOUND_TRY(cudaSetDevice(own.device));
    OPBOUND_PASS(release(own));
  }
  while (!locals.empty() && !locals.front().shared.empty()) OPBOUND_PASS(unshare());
  for (Local& own : locals) {
    OPBOUND_PASS(release_tree(own));
    for (cudaEvent_t event : own.written) OPBOUND_TRY(cudaEventDestroy(event));
    for (cudaEvent_t event : {own.began, own.ended}) OPBOUND_TRY(cudaEventDestroy(event));
    for (cudaStream_t stream : {own.writes, own.moves, own.urgent})
      OPBOUND_TRY(cudaStreamDestroy(stream));
    if (own.communicator != nullptr) OPBOUND_TRY(ncclCommDestroy(own.communicator));
  }
  locals.clear();
  return nullptr;
}

const char* fill(NcclTransport* t) {
  OPBOUND_TRY(ncclGetVersion(&t->version));
  OPBOUND_TRY(cudaGetDeviceCount(&t->devices));
  t->has_kernels = has_tree_sum(Element::fp32, Element::fp32);
  t->is_absent = [] { return is_of_absence; };
  t->unique_id = unique_id;
  t->start = start;
  t->run = run;
  t->launch = launch;
  t->add = add;
  t->offer = offer;
  t->share = share;
  t->unshare = unshare;
  t->wait = wait;
  t->finish = finish;
  return nullptr;
}

}  // namespace

}  // namespace opbound::nccl

extern "C" const char* opbound_nccl_open(opbound::NcclTransport* t) {
  return opbound::nccl::fill(t);
}
