// Memory that ranks read and write of one another: found, told and opened.
#include <cstring>

#include "distributed/modules/nccl_ranks.hpp"

namespace opbound::nccl {
namespace {

const char* make_words(Local& own) {
  if (own.words != nullptr) return nullptr;
  OPBOUND_TRY(cudaSetDevice(own.device));
  // a handle is of a whole block of the allocator's: this one is nobody else's
  constexpr std::size_t block = std::size_t{2} << 20;
  OPBOUND_TRY(cudaMalloc(reinterpret_cast<void**>(&own.words), block));
  OPBOUND_TRY(cudaMemset(own.words, 0, Meeting::words * sizeof(std::uint32_t)));
  OPBOUND_TRY(cudaDeviceSynchronize());
  return nullptr;
}

const char* share_here(std::span<void* const> data, std::int64_t bytes) {
  for (Local& own : locals) {
    OPBOUND_PASS(make_words(own));
    for (const Local& other : locals) {
      if (other.device == own.device) continue;
      OPBOUND_TRY(cudaSetDevice(own.device));
      const cudaError_t code = cudaDeviceEnablePeerAccess(other.device, 0);
      if (code == cudaErrorPeerAccessAlreadyEnabled) {
        static_cast<void>(cudaGetLastError());  // it is told once more otherwise
        continue;
      }
      OPBOUND_TRY(code);
    }
  }
  for (std::size_t k = 0; k < locals.size(); ++k) {
    Shared s{static_cast<std::byte*>(data[k]), static_cast<std::size_t>(bytes), {}, false};
    for (std::size_t r = 0; r < locals.size(); ++r) {
      s.of_ranks[r] = static_cast<std::byte*>(data[r]);
      locals[k].meeting.of_ranks[r] = locals[r].words;
    }
    locals[k].shared.push_back(s);
  }
  return nullptr;
}

/// The memory behind another process's handle.
const char* open(const std::byte* handle, void** memory) {
  cudaIpcMemHandle_t h;
  std::memcpy(&h, handle, sizeof h);
  OPBOUND_TRY(cudaIpcOpenMemHandle(memory, h, cudaIpcMemLazyEnablePeerAccess));
  return nullptr;
}

const char* share_between(void* data, std::int64_t bytes, std::span<const std::byte> handles) {
  Local& own = locals.front();
  OPBOUND_TRY(cudaSetDevice(own.device));
  own.shared.push_back({static_cast<std::byte*>(data), static_cast<std::size_t>(bytes), {}, true});
  Shared& s = own.shared.back();
  const bool is_first = own.meeting.of_ranks[0] == nullptr;
  for (std::size_t r = 0; r < static_cast<std::size_t>(all_ranks); ++r) {
    if (static_cast<int>(r) == own.rank) {
      s.of_ranks[r] = s.own;
      own.meeting.of_ranks[r] = own.words;
      continue;
    }
    const std::byte* handle = handles.data() + r * nccl_handle_bytes;
    void* memory = nullptr;
    OPBOUND_PASS(open(handle, &memory));
    s.of_ranks[r] = static_cast<std::byte*>(memory);
    if (!is_first) continue;
    OPBOUND_PASS(open(handle + sizeof(cudaIpcMemHandle_t), &memory));
    own.meeting.of_ranks[r] = static_cast<std::uint32_t*>(memory);
  }
  return nullptr;
}

}  // namespace

const char* offer(void* data, std::byte* handles) {
  static_assert(2 * sizeof(cudaIpcMemHandle_t) <= nccl_handle_bytes);
  Local& own = locals.front();
  OPBOUND_PASS(make_words(own));
  cudaIpcMemHandle_t handle;
  OPBOUND_TRY(cudaIpcGetMemHandle(&handle, data));
  std::memcpy(handles, &handle, sizeof handle);
  OPBOUND_TRY(cudaIpcGetMemHandle(&handle, own.words));
  std::memcpy(handles + sizeof handle, &handle, sizeof handle);
  return nullptr;
}

const char* share(std::span<void* const> data, std::int64_t bytes,
                  std::span<const std::byte> handles, double seconds) {
  if (all_ranks > most_near_ranks) return fails("too many ranks to share memory");
  for (Local& own : locals) {
    own.meeting.ranks = all_ranks;
    own.meeting.rank = own.rank;
    own.meeting.patience_ns = static_cast<std::uint64_t>(seconds * 1e9);
  }
  return handles.empty() ? share_here(data, bytes) : share_between(data[0], bytes, handles);
}

const char* unshare() {
  for (Local& own : locals) {
    if (own.shared.empty()) continue;
    const Shared s = own.shared.back();
    own.shared.pop_back();
    if (own.shared.empty()) own.meeting = {};  // others' words may not have been opened
    if (!s.is_mapped) continue;
    OPBOUND_TRY(cudaSetDevice(own.device));
    for (std::byte* memory : s.of_ranks)
      if (memory != nullptr && memory != s.own) OPBOUND_TRY(cudaIpcCloseMemHandle(memory));
  }
  return nullptr;
}

const char* has_failed(Local& own, cudaStream_t stream, bool& answer) {
  answer = false;
  if (own.words == nullptr) return nullptr;
  std::uint32_t word = 0;
  OPBOUND_TRY(cudaMemcpyAsync(&word, own.words + Meeting::failed, sizeof word,
                              cudaMemcpyDeviceToHost, stream));
  OPBOUND_TRY(cudaStreamSynchronize(stream));
  answer = word != 0;
  return nullptr;
}

}  // namespace opbound::nccl
