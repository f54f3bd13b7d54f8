// Collectives that are put into streams: sums in the balanced tree's order by our own kernel, NCCL
// moving shards between ranks or nobody where ranks reach one another's memory; and NCCL's own.
#include "distributed/modules/nccl_ranks.hpp"

#ifndef OPBOUND_WITH_KERNELS
namespace opbound {
bool has_tree_sum(Element, Element) { return false; }
cudaError_t start_tree_sum(const TreeSum&, cudaStream_t) { return cudaErrorNotSupported; }
}  // namespace opbound
#endif

namespace opbound::nccl {
namespace {

constexpr const char* no_kernel = "no kernel adds such elements in this build";

/// Elements of a message, cut into a part for each rank.
struct Shards {
  std::int64_t count, length;

  Chunk of(int rank) const {
    const std::int64_t first = std::min(rank * length, count);
    return {first, std::min(length, count - first)};
  }
  /// Elements [first, first + most) of a rank's part.
  Chunk piece_of(int rank, std::int64_t first, std::int64_t most) const {
    const Chunk all = of(rank);
    const std::int64_t begin = std::min(first, all.count);
    return {all.first + begin, std::min(most, all.count - begin)};
  }
};

/// Parts that begin at whole packs of 16 bytes where any length will do.
Shards shards_of(const NcclLaunch& call) {
  const std::int64_t length = (call.count + call.ranks - 1) / call.ranks;
  if (call.collective != Collective::all_reduce) return {call.count, length};
  const std::int64_t pack = 128 / bytes_of(call.sum.element);
  return {call.count, (length + pack - 1) / pack * pack};
}

TreeSum tree_sum_of(const NcclSum& how) {
  TreeSum sum;
  sum.wire = how.element;
  sum.compute = how.compute;
  sum.divisor = how.divisor;
  return sum;
}

// ---- ranks that reach one another's memory

/// How many blocks read and write others' memory. Of 128 MiB on two H200s 32 take 0.45 ms, 64 take
/// 0.42 and 132, all there are at once, 0.41: the rest of the device is left to others.
constexpr std::int64_t shared_blocks = 64;

/// The others' addresses of what is at `data`, if it is shared.
const Shared* shared_at(const Local& own, const void* data, std::int64_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  for (const Shared& s : own.shared)
    if (first >= s.own && first + bytes <= s.own + s.bytes) return &s;
  return nullptr;
}

/// One kernel: every rank reads its part of all others' memory and writes the sum into it.
const char* add_in_shared(const NcclLaunch& call, std::size_t k, const Shared& shared) {
  Local& own = locals[k];
  const Shards shards = shards_of(call);
  const Chunk part = shards.of(own.rank);
  const auto width = static_cast<std::int64_t>(bytes_of(call.sum.element));
  const std::int64_t place =
      static_cast<std::byte*>(call.data[k]) - shared.own + part.first * width;
  TreeSum sum = tree_sum_of(call.sum);
  sum.count = part.count;
  sum.term_count = call.ranks;
  sum.target_count = call.collective == Collective::all_reduce ? call.ranks : 1;
  for (int r = 0; r < call.ranks; ++r)
    sum.terms[static_cast<std::size_t>(r)] = shared.of_ranks[static_cast<std::size_t>(r)] + place;
  for (int t = 0; t < sum.target_count; ++t)  // each begins at another one
    sum.targets[static_cast<std::size_t>(t)] =
        shared.of_ranks[static_cast<std::size_t>((own.rank + t) % call.ranks)] + place;
  sum.meeting = own.meeting;
  constexpr std::int64_t bytes_of_block = 512 * 16 * 4;
  const std::int64_t blocks = (shards.length * width + bytes_of_block - 1) / bytes_of_block;
  sum.blocks = static_cast<int>(std::clamp<std::int64_t>(blocks, 1, shared_blocks));
  OPBOUND_TRY(cudaSetDevice(own.device));
  OPBOUND_TRY(start_tree_sum(sum, static_cast<cudaStream_t>(call.streams[k])));
  return nullptr;
}

// ---- ranks that NCCL moves between

/// Bytes of a shard that go in one piece, so that one is added while the next one comes. NCCL moves
/// long pieces faster by more than this gains: 128 MiB between two H200s take 0.90 ms in pieces of
/// 8 MiB, 0.56 ms in one of 64.
constexpr std::int64_t piece_bytes = std::int64_t{64} << 20;

/// What a rank needs before it exchanges: room for the others' pieces.
const char* prepare(Local& own, std::size_t bytes) {
  OPBOUND_TRY(cudaSetDevice(own.device));
  if (own.sums == nullptr) {
    OPBOUND_TRY(cudaStreamCreateWithFlags(&own.sums, cudaStreamNonBlocking));
    for (auto* events : {&own.exchanged, &own.summed})
      for (cudaEvent_t& event : *events)
        OPBOUND_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  if (bytes <= own.others_bytes) return nullptr;
  OPBOUND_TRY(cudaFree(own.others));
  own.others = nullptr;
  own.others_bytes = 0;
  OPBOUND_TRY(cudaMalloc(reinterpret_cast<void**>(&own.others), bytes));
  own.others_bytes = bytes;
  return nullptr;
}

/// One all-reduce or reduce-scatter by exchange, piece after piece.
class Exchange {
 public:
  explicit Exchange(const NcclLaunch& call)
      : call_(call),
        shards_(shards_of(call)),
        width_(bytes_of(call.sum.element)),
        piece_(std::min(shards_.length, piece_bytes / width_)) {}

  const char* run() {
    const std::int64_t pieces = piece_ == 0 ? 0 : (shards_.length + piece_ - 1) / piece_;
    const std::int64_t bytes = std::min<std::int64_t>(pieces, 2) * call_.ranks * piece_ * width_;
    for (Local& own : locals) OPBOUND_PASS(prepare(own, static_cast<std::size_t>(bytes)));
    for (std::int64_t p = 0; p < pieces; ++p) {
      OPBOUND_PASS(exchange(p));
      for (std::size_t k = 0; k < locals.size(); ++k) OPBOUND_PASS(add(k, p));
      if (p > 0) OPBOUND_PASS(gather(p - 1));
    }
    return pieces == 0 ? nullptr : gather(pieces - 1);
  }

 private:
  std::byte* message(std::size_t k, std::int64_t element) const {
    return static_cast<std::byte*>(call_.data[k]) + element * width_;
  }
  std::byte* place_of(std::size_t k, std::int64_t p, int rank) const {
    return locals[k].others + ((p % 2) * call_.ranks + rank) * piece_ * width_;
  }
  cudaStream_t stream(std::size_t k) const { return static_cast<cudaStream_t>(call_.streams[k]); }
  Chunk piece(int rank, std::int64_t p) const { return shards_.piece_of(rank, p * piece_, piece_); }

  /// Every rank's piece of each other's part goes there.
  const char* exchange(std::int64_t p) {
    return in_group([&]() -> const char* {
      for (std::size_t k = 0; k < locals.size(); ++k) {
        const Local& own = locals[k];
        if (own.rank >= call_.ranks) continue;
        const auto mine = static_cast<std::size_t>(piece(own.rank, p).count * width_);
        for (int step = 1; step < call_.ranks; ++step) {
          const int to = (own.rank + step) % call_.ranks;
          const int from = (own.rank + call_.ranks - step) % call_.ranks;
          const Chunk theirs = piece(to, p);
          OPBOUND_TRY(ncclSend(message(k, theirs.first),
                               static_cast<std::size_t>(theirs.count * width_), ncclUint8, to,
                               own.communicator, stream(k)));
          OPBOUND_TRY(
              ncclRecv(place_of(k, p, from), mine, ncclUint8, from, own.communicator, stream(k)));
        }
      }
      return nullptr;
    });
  }

  const char* add(std::size_t k, std::int64_t p) {
    Local& own = locals[k];
    if (own.rank >= call_.ranks) return nullptr;
    const Chunk mine = piece(own.rank, p);
    TreeSum sum = tree_sum_of(call_.sum);
    sum.count = mine.count;
    sum.term_count = call_.ranks;
    sum.staged = place_of(k, p, 0);
    sum.stride = piece_ * width_;
    sum.own_term = own.rank;
    sum.own = message(k, mine.first);
    sum.targets[0] = message(k, mine.first);
    const auto slot = static_cast<std::size_t>(p % 2);
    OPBOUND_TRY(cudaSetDevice(own.device));
    OPBOUND_TRY(cudaEventRecord(own.exchanged[slot], stream(k)));
    OPBOUND_TRY(cudaStreamWaitEvent(own.sums, own.exchanged[slot], 0));
    OPBOUND_TRY(start_tree_sum(sum, own.sums));
    OPBOUND_TRY(cudaEventRecord(own.summed[slot], own.sums));
    return nullptr;
  }

  /// Every rank's sums go to all others; of a scatter, nobody's.
  const char* gather(std::int64_t p) {
    for (std::size_t k = 0; k < locals.size(); ++k) {
      if (locals[k].rank >= call_.ranks) continue;
      OPBOUND_TRY(cudaSetDevice(locals[k].device));
      OPBOUND_TRY(
          cudaStreamWaitEvent(stream(k), locals[k].summed[static_cast<std::size_t>(p % 2)], 0));
    }
    if (call_.collective == Collective::reduce_scatter) return nullptr;
    return in_group([&]() -> const char* {
      for (std::size_t k = 0; k < locals.size(); ++k) {
        const Local& own = locals[k];
        if (own.rank >= call_.ranks) continue;
        const Chunk mine = piece(own.rank, p);
        for (int step = 1; step < call_.ranks; ++step) {
          const int to = (own.rank + step) % call_.ranks;
          const int from = (own.rank + call_.ranks - step) % call_.ranks;
          const Chunk theirs = piece(from, p);
          OPBOUND_TRY(ncclSend(message(k, mine.first),
                               static_cast<std::size_t>(mine.count * width_), ncclUint8, to,
                               own.communicator, stream(k)));
          OPBOUND_TRY(ncclRecv(message(k, theirs.first),
                               static_cast<std::size_t>(theirs.count * width_), ncclUint8, from,
                               own.communicator, stream(k)));
        }
      }
      return nullptr;
    });
  }

  const NcclLaunch& call_;
  Shards shards_;
  std::int64_t width_, piece_;
};

const char* launch_tree(const NcclLaunch& call) {
  if (!has_tree_sum(call.sum.element, call.sum.compute)) return lacks(no_kernel);
  const std::int64_t bytes = call.count * bytes_of(call.sum.element);
  std::vector<const Shared*> shared;
  for (std::size_t k = 0; k < locals.size(); ++k)
    shared.push_back(shared_at(locals[k], call.data[k], bytes));
  const bool all_share = std::ranges::find(shared, nullptr) == shared.end();
  if (call.ranks > 1 && (call.ranks < all_ranks || !call.may_share || !all_share))
    return Exchange(call).run();
  for (std::size_t k = 0; k < locals.size(); ++k) {
    if (locals[k].rank >= call.ranks) continue;
    if (call.ranks == 1) {
      if (call.sum.divisor == 0) return nullptr;
      TreeSum sum = tree_sum_of(call.sum);
      sum.count = call.count;
      sum.terms[0] = sum.targets[0] = call.data[k];
      OPBOUND_TRY(cudaSetDevice(locals[k].device));
      OPBOUND_TRY(start_tree_sum(sum, static_cast<cudaStream_t>(call.streams[k])));
      continue;
    }
    OPBOUND_PASS(add_in_shared(call, k, *shared[k]));
  }
  return nullptr;
}

/// NCCL's own, in place.
const char* launch_library(const NcclLaunch& call, std::size_t k) {
  Local& own = locals[k];
  auto* data = static_cast<std::byte*>(call.data[k]);
  const auto stream = static_cast<cudaStream_t>(call.streams[k]);
  const auto count = static_cast<std::size_t>(call.count);
  const auto width = static_cast<std::size_t>(bytes_of(call.sum.element));
  const std::size_t shard = count / static_cast<std::size_t>(call.ranks);
  std::byte* own_part = data + static_cast<std::size_t>(own.rank) * shard * width;
  const std::optional<ncclDataType_t> type = type_of(call.sum.element);
  const ncclRedOp_t op = operation_of(call.sum.reduction);
  if (adds(call.collective) && !type) return lacks("no NCCL type for this format");
  switch (call.collective) {
    case Collective::all_reduce:
      OPBOUND_TRY(ncclAllReduce(data, data, count, *type, op, own.communicator, stream));
      break;
    case Collective::reduce_scatter:
      OPBOUND_TRY(ncclReduceScatter(data, own_part, shard, *type, op, own.communicator, stream));
      break;
    case Collective::all_gather:
      OPBOUND_TRY(
          ncclAllGather(own_part, data, shard * width, ncclUint8, own.communicator, stream));
      break;
    case Collective::broadcast:
      OPBOUND_TRY(ncclBroadcast(data, data, count * width, ncclUint8, 0, own.communicator, stream));
      break;
  }
  return nullptr;
}

}  // namespace

const char* launch(const NcclLaunch& call) {
  if (adds(call.collective) && call.sum.is_in_tree) return launch_tree(call);
  if (call.ranks > 1) {
    const char* const told = in_group([&]() -> const char* {
      for (std::size_t k = 0; k < locals.size(); ++k) OPBOUND_PASS(launch_library(call, k));
      return nullptr;
    });
    OPBOUND_PASS(told);
  }
  if (!adds(call.collective) || call.sum.divisor == 0) return nullptr;
  for (std::size_t k = 0; k < locals.size(); ++k) {  // a mean that divides after
    TreeSum sum = tree_sum_of(call.sum);
    if (!has_tree_sum(sum.wire, sum.compute)) return lacks(no_kernel);
    sum.count = call.count;
    sum.terms[0] = sum.targets[0] = call.data[k];
    OPBOUND_TRY(cudaSetDevice(locals[k].device));
    OPBOUND_TRY(start_tree_sum(sum, static_cast<cudaStream_t>(call.streams[k])));
  }
  return nullptr;
}

const char* add(void* sum, const void* term, std::int64_t count, const NcclSum& how, void* stream) {
  if (!has_tree_sum(how.element, how.compute)) return lacks(no_kernel);
  TreeSum both = tree_sum_of(how);
  both.count = count;
  both.term_count = 2;
  both.terms[0] = both.targets[0] = sum;
  both.terms[1] = term;
  OPBOUND_TRY(cudaSetDevice(locals.front().device));
  OPBOUND_TRY(start_tree_sum(both, static_cast<cudaStream_t>(stream)));
  return nullptr;
}

const char* release_tree(Local& own) {
  OPBOUND_TRY(cudaSetDevice(own.device));
  OPBOUND_TRY(cudaFree(own.others));
  OPBOUND_TRY(cudaFree(own.words));
  if (own.sums == nullptr) return nullptr;
  OPBOUND_TRY(cudaStreamDestroy(own.sums));
  for (auto* events : {&own.exchanged, &own.summed})
    for (cudaEvent_t event : *events) OPBOUND_TRY(cudaEventDestroy(event));
  return nullptr;
}

}  // namespace opbound::nccl
