// What opbound and a plug-in's process say to each other, and the memory that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.hpp"

namespace opbound::detail {

/// What the plug-in's process is asked for.
enum class Step : std::uint8_t {
  load,     ///< open the library and describe it: the answer is a list of texts
  support,  ///< supports() and workspace_size() for the request: the answer is a number of bytes
  run,      ///< run() for the request
  discard   ///< end the process, it may have broken itself; there is no answer
};

/// One message to the process; the request itself is in the shared memory.
struct Message {
  Step step = Step::load;
  std::uint64_t bytes = 0;  ///< of the shared memory in use
};

/// How an answer begins; a text follows.
enum class Outcome : char {
  done = 'd',
  unsupported = 'u',
  failed = 'f',     ///< what the plug-in says, or what was found of it, in words
  not_usable = 'n'  ///< the library cannot be opened or is no plug-in: what and what was expected
};

struct Answer {
  Outcome outcome = Outcome::done;
  std::string text;
};

/// Longest message: well below what a socket of packets takes.
inline constexpr std::size_t longest_answer = 1 << 16;

/// Texts in one answer, each ended by a 0.
std::string joined(const std::vector<std::string>& texts);
std::vector<std::string> split(std::string_view joined);

/// A tensor in the shared memory.
struct SharedTensor {
  int place = 0;             ///< in the pass's tensor list
  TensorView view;           ///< without data
  std::uint64_t offset = 0;  ///< of its first element, in bytes from the memory's beginning
  std::uint64_t bytes = 0;   ///< from its first element to its last
  std::uint64_t end() const { return offset + bytes; }
};

/// One pass for the plug-in, at the beginning of the shared memory. Its process is a fork of this
/// one, so that an Op's address is valid in both.
struct Request {
  const Op* op = nullptr;
  bool is_backward = false;
  AttributeBytes attributes{};
  int variant = 0;
  Element compute = Element::fp32;
  std::uint64_t workspace = 0, workspace_bytes = 0;  ///< offset and size
  int tensor_count = 0;
  SharedTensor tensors[max_tensors];

  const PassInfo& pass() const { return is_backward ? *op->backward : op->forward; }
  std::string_view name_of(const SharedTensor& t) const {
    return pass().tensors[static_cast<std::size_t>(t.place)].name;
  }
  std::span<const SharedTensor> all() const {
    return {tensors, static_cast<std::size_t>(tensor_count)};
  }
};

/// Lays a pass's tensors out, with zones between them that nobody may write. Tensors that take no
/// part, and scratch, which other kernels have no use for, are left out.
Request make_request(const Op& op, const Call& call, bool is_backward,
                     std::span<const TensorView> views);

/// Finds the request a workspace behind its tensors; gives the bytes of shared memory it needs.
std::uint64_t place_workspace(Request& request, std::uint64_t workspace_bytes);

/// Writes the request, its tensors and the zones between them.
void fill_memory(const Request& request, std::span<const TensorView> views,
                 std::span<std::byte> memory);

/// What the plug-in wrote where it must not, in words: outside of tensors, or into inputs; else
/// empty.
std::string trespass(const Request& request, std::span<const TensorView> views,
                     std::span<const std::byte> memory);

/// Copies the outputs to where the call wants them.
void take_outputs(const Request& request, std::span<const TensorView> views,
                  std::span<const std::byte> memory);

}  // namespace opbound::detail
