// What the parts of the module libopbound_nccl.so share: the ranks of this process, and errors.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "distributed/modules/nccl_transport.hpp"
#include "distributed/modules/tree_sum.hpp"

namespace opbound::nccl {

/// A rank's memory that others read and write themselves, and theirs, in the order of the ranks.
struct Shared {
  std::byte* own = nullptr;
  std::size_t bytes = 0;
  std::array<std::byte*, most_near_ranks> of_ranks{};
  bool is_mapped = false;  ///< from other processes: to be closed
};

/// What a rank of this process holds.
struct Local {
  int device = 0, rank = 0;
  ncclComm_t communicator = nullptr;
  cudaStream_t writes = nullptr;  ///< the stream that makes a message
  cudaStream_t moves = nullptr;   ///< NCCL's
  cudaStream_t urgent = nullptr;  ///< in its place, of the highest priority
  std::vector<cudaEvent_t> written;
  cudaEvent_t began = nullptr, ended = nullptr;  ///< of a collective in the stream that moves
  std::byte *message = nullptr, *result = nullptr, *staged = nullptr;
  std::size_t bytes = 0;
  bool is_symmetric = false;
  ncclWindow_t windows[2] = {nullptr, nullptr};

  // ---- sums in a tree
  cudaStream_t sums = nullptr;  ///< beside the stream that moves
  std::array<cudaEvent_t, 2> exchanged{}, summed{};
  std::byte* others = nullptr;  ///< what has come from other ranks
  std::size_t others_bytes = 0;
  std::uint32_t* words = nullptr;  ///< of its Meeting
  Meeting meeting{};
  std::vector<Shared> shared;
};

extern std::vector<Local> locals;
extern int all_ranks;

/// The words of an error, kept until the next one. `lacks`: of what is not there, rather than
/// broken.
const char* fails(const std::string& text);
const char* lacks(const std::string& text);
/// The same error in other words.
const char* reworded(const std::string& text);
const char* failed(cudaError_t code, const char* call);
const char* failed(ncclResult_t code, const char* call);

// Gives the error of a call to the caller of this function, if there is one.
#define OPBOUND_TRY(call)                                                   \
  do {                                                                      \
    if (const char* error_of_try = ::opbound::nccl::failed(call, #call);    \
        error_of_try != nullptr) {                                          \
      const std::string words_of_try = error_of_try;                        \
      const std::size_t end_of_name = words_of_try.find('(');               \
      const std::size_t text_of_try = words_of_try.find(": ");              \
      return ::opbound::nccl::reworded(                                     \
          words_of_try.substr(0, std::min(end_of_name, text_of_try)) +      \
          words_of_try.substr(std::min(text_of_try, words_of_try.size()))); \
    }                                                                       \
  } while (false)
// The same of a function that gives an error already.
#define OPBOUND_PASS(call)                                                                \
  do {                                                                                    \
    if (const char* error_of_pass = call; error_of_pass != nullptr) return error_of_pass; \
  } while (false)

/// f() between the two ends of a group; the second comes whatever f says.
template <class F>
const char* in_group(F f) {
  OPBOUND_TRY(ncclGroupStart());
  const char* const told = f();
  const ncclResult_t ended = ncclGroupEnd();
  if (told != nullptr) return told;
  OPBOUND_TRY(ended);
  return nullptr;
}

std::optional<ncclDataType_t> type_of(Element e);
ncclRedOp_t operation_of(all_reduce::Reduction reduction);

/// Waits for a stream, and for nobody who will not come: NCCL's own errors, or so many seconds.
const char* wait_for(Local& own, cudaStream_t stream, double seconds);

// ---- nccl_tree.cpp
const char* launch(const NcclLaunch& call);
const char* add(void* sum, const void* term, std::int64_t count, const NcclSum& how, void* stream);
const char* release_tree(Local& own);

// ---- nccl_shared.cpp
const char* offer(void* data, std::byte* handles);
const char* share(std::span<void* const> data, std::int64_t bytes,
                  std::span<const std::byte> handles, double seconds);
const char* unshare();
/// Did a rank not come to a meeting? What follows on the device is void then.
const char* has_failed(Local& own, cudaStream_t stream, bool& answer);

}  // namespace opbound::nccl
