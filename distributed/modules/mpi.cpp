// MPI behind the table of mpi_transport.hpp: a module that is opened only where MPI is asked for.
#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "distributed/modules/mpi_transport.hpp"
#include "ops/number.hpp"

namespace opbound {
namespace {

/// Bytes of one call: MPI counts in int.
constexpr std::size_t most_bytes = std::size_t{1} << 30;

std::string failure;
int own_rank = 0, all_ranks = 1;

/// The words of an MPI error, or null; they last until the next one.
const char* failed(int code, const char* call) {
  if (code == MPI_SUCCESS) return nullptr;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  failure = std::string(call) + ": " + std::string(text.data(), static_cast<std::size_t>(length));
  return failure.c_str();
}

/// A part of a message on its way.
struct Part {
  std::int32_t peer;
  bool comes;
  int bytes;
};

/// What has been started and has not ended; requests and parts have the same places.
struct Transit {
  std::vector<MPI_Request> requests;
  std::vector<Part> parts;
};

/// Calls start(pointer, bytes, request) for every part of a message. An empty message is a part
/// too, of no bytes: whoever waits for it waits for its sender.
template <class Bytes, class F>
const char* in_parts(std::int32_t peer, bool comes, std::span<Bytes> bytes, Transit& transit,
                     F start) {
  std::size_t first = 0;
  do {
    const auto count = static_cast<int>(std::min(most_bytes, bytes.size() - first));
    transit.requests.push_back(MPI_REQUEST_NULL);
    transit.parts.push_back({peer, comes, count});
    const int code = start(bytes.data() + first, count, &transit.requests.back());
    if (const char* error = failed(code, comes ? "MPI_Irecv" : "MPI_Isend")) return error;
    first += most_bytes;
  } while (first < bytes.size());
  return nullptr;
}

std::string named(const Part& part) {
  return (part.comes ? "receiving from rank " : "sending to rank ") + std::to_string(part.peer);
}

const char* is_elsewhere(const Part& part, const std::string& sent) {
  failure = named(part) + ": it sends " + sent + " where " + std::to_string(part.bytes) +
            " bytes are due: it is at another place";
  return failure.c_str();
}

/// Did all of a part come, and no more? MPI itself takes a shorter message for the whole.
const char* judged(const Part& part, int code, const MPI_Status& status) {
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  if (kind == MPI_ERR_TRUNCATE && part.comes) return is_elsewhere(part, "more");
  if (const char* error = failed(code, named(part).c_str())) return error;
  if (!part.comes) return nullptr;
  int count = 0;
  if (const char* error = failed(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count"))
    return error;
  return count == part.bytes ? nullptr : is_elsewhere(part, std::to_string(count) + " bytes");
}

/// What has not ended after so many seconds is taken back, and the first of it is named.
const char* given_up(Transit& transit, double seconds) {
  std::string whom;
  for (std::size_t k = 0; k < transit.requests.size(); ++k) {
    if (transit.requests[k] == MPI_REQUEST_NULL) continue;
    const Part& part = transit.parts[k];
    if (whom.empty()) {
      int has_sent = 0;
      whom = named(part) + ": ";
      if (part.comes)
        MPI_Iprobe(part.peer, MPI_ANY_TAG, MPI_COMM_WORLD, &has_sent, MPI_STATUS_IGNORE);
      if (has_sent != 0) whom += "it has sent something else; ";
    }
    MPI_Cancel(&transit.requests[k]);
    MPI_Request_free(&transit.requests[k]);
  }
  failure = whom + "no end within " + std::to_string(std::lround(seconds)) + " seconds";
  return failure.c_str();
}

/// Waits for all of it; what is wrong with a part is told as soon as it has come.
const char* wait(Transit& transit, double seconds) {
  const auto count = static_cast<int>(transit.requests.size());
  std::vector<int> places(transit.requests.size());
  std::vector<MPI_Status> statuses(transit.requests.size());
  const double start = MPI_Wtime();
  for (int left = count; left > 0;) {
    int ended = 0;
    const int code =
        MPI_Testsome(count, transit.requests.data(), &ended, places.data(), statuses.data());
    int kind = MPI_SUCCESS;
    MPI_Error_class(code, &kind);
    const bool is_told_by_part = kind == MPI_ERR_IN_STATUS;
    if (!is_told_by_part)
      if (const char* error = failed(code, "MPI_Testsome")) return error;
    if (ended == MPI_UNDEFINED) return nullptr;
    for (int k = 0; k < ended; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const Part& part = transit.parts[static_cast<std::size_t>(places[at])];
      const int own = is_told_by_part ? statuses[at].MPI_ERROR : MPI_SUCCESS;
      if (const char* error = judged(part, own, statuses[at])) return error;
    }
    left -= ended;
    if (ended == 0 && MPI_Wtime() - start > seconds) return given_up(transit, seconds);
  }
  return nullptr;
}

const char* exchange(std::span<const Sent> sent, std::span<const Received> received,
                     double seconds) {
  Transit transit;
  for (const Received& r : received)
    if (const char* error =
            in_parts(r.from, true, r.bytes, transit, [&](auto* p, int n, auto* request) {
              return MPI_Irecv(p, n, MPI_BYTE, r.from, r.tag, MPI_COMM_WORLD, request);
            }))
      return error;
  for (const Sent& s : sent)
    if (const char* error =
            in_parts(s.to, false, s.bytes, transit, [&](auto* p, int n, auto* request) {
              return MPI_Isend(p, n, MPI_BYTE, s.to, s.tag, MPI_COMM_WORLD, request);
            }))
      return error;
  return wait(transit, seconds);
}

// ---- the library's own collectives

/// MPI has no numbers of 16 bits or 8: it moves their bits and is told how they are added.
template <Format F, all_reduce::Reduction Kind>
void combine(void* in, void* in_out, int* count, MPI_Datatype*) {
  for (std::int64_t i = 0; i < *count; ++i) {
    const double a = load(F.kind, in, i), b = load(F.kind, in_out, i);
    const double c = Kind == all_reduce::Reduction::max   ? max(a, b)
                     : Kind == all_reduce::Reduction::min ? min(a, b)
                                                          : round_to(F, a + b);
    store(F.kind, in_out, i, c);
  }
}

template <Format F>
MPI_User_function* combine_by(all_reduce::Reduction reduction) {
  switch (reduction) {
    case all_reduce::Reduction::max:
      return combine<F, all_reduce::Reduction::max>;
    case all_reduce::Reduction::min:
      return combine<F, all_reduce::Reduction::min>;
    default:
      return combine<F, all_reduce::Reduction::sum>;
  }
}

MPI_User_function* narrow_combine(Element element, all_reduce::Reduction reduction) {
  switch (element) {
    case Element::bf16:
      return combine_by<bf16>(reduction);
    case Element::fp16:
      return combine_by<fp16>(reduction);
    case Element::e4m3:
      return combine_by<e4m3>(reduction);
    default:
      return combine_by<e5m2>(reduction);
  }
}

struct Operation {
  MPI_Datatype type = MPI_BYTE;
  MPI_Op op = MPI_SUM;
  const char* error = nullptr;
};

/// MPI's own types and operations where it has them.
Operation operation(Element element, all_reduce::Reduction reduction) {
  Operation o;
  o.op = reduction == all_reduce::Reduction::max   ? MPI_MAX
         : reduction == all_reduce::Reduction::min ? MPI_MIN
                                                   : MPI_SUM;
  if (element == Element::fp32) {
    o.type = MPI_FLOAT;
  } else if (element == Element::fp64) {
    o.type = MPI_DOUBLE;
  } else if (is_moved_and_added(element)) {
    // one of each for the whole run: MPI has no place to keep a format with an operation
    static std::array<std::array<MPI_Op, 4>, 7> made{};
    static std::array<std::array<bool, 4>, 7> is_made{};
    const auto f = static_cast<std::size_t>(element), k = static_cast<std::size_t>(reduction);
    if (!is_made[f][k])
      o.error = failed(MPI_Op_create(narrow_combine(element, reduction), 1, &made[f][k]),
                       "MPI_Op_create");
    is_made[f][k] = o.error == nullptr;
    o.type = bytes_of(element) == 2 ? MPI_UINT16_T : MPI_UINT8_T;
    o.op = made[f][k];
  } else {
    o.error = "no MPI type for this format";
  }
  return o;
}

const char* too_long(std::int64_t count) {
  return count > (std::int64_t{1} << 30) ? "a message of more than 2^30 elements" : nullptr;
}

const char* reduce_all(Element element, all_reduce::Reduction reduction, void* data,
                       std::int64_t count) {
  if (const char* error = too_long(count)) return error;
  const Operation o = operation(element, reduction);
  if (o.error != nullptr) return o.error;
  return failed(
      MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), o.type, o.op, MPI_COMM_WORLD),
      "MPI_Allreduce");
}

/// Each rank's elements of a message that is cut into shards.
struct Shards {
  std::vector<int> counts, firsts;

  Shards(std::int64_t count, std::int64_t shard, int unit) {
    for (std::int64_t r = 0; r < all_ranks; ++r) {
      const std::int64_t first = std::min(r * shard, count);
      firsts.push_back(static_cast<int>(first) * unit);
      counts.push_back(static_cast<int>(std::min(shard, count - first)) * unit);
    }
  }
};

const char* scatter_reduced(Element element, all_reduce::Reduction reduction, void* data,
                            std::int64_t count, std::int64_t shard) {
  if (const char* error = too_long(count)) return error;
  const Operation o = operation(element, reduction);
  if (o.error != nullptr) return o.error;
  const Shards shards(count, shard, 1);
  const auto r = static_cast<std::size_t>(own_rank);
  const auto width = static_cast<std::size_t>(bytes_of(element));
  std::vector<std::byte> own(static_cast<std::size_t>(shards.counts[r]) * width + 1);
  const int code =
      MPI_Reduce_scatter(data, own.data(), shards.counts.data(), o.type, o.op, MPI_COMM_WORLD);
  std::copy(own.begin(), own.end() - 1,
            static_cast<std::byte*>(data) + static_cast<std::size_t>(shards.firsts[r]) * width);
  return failed(code, "MPI_Reduce_scatter");
}

const char* gather_shards(Element element, void* data, std::int64_t count, std::int64_t shard) {
  const int width = bytes_of(element);
  if (const char* error = too_long(count * width)) return error;
  const Shards shards(count, shard, width);
  return failed(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, shards.counts.data(),
                               shards.firsts.data(), MPI_BYTE, MPI_COMM_WORLD),
                "MPI_Allgatherv");
}

const char* broadcast(Element element, void* data, std::int64_t count) {
  const int width = bytes_of(element);
  if (const char* error = too_long(count * width)) return error;
  return failed(MPI_Bcast(data, static_cast<int>(count) * width, MPI_BYTE, 0, MPI_COMM_WORLD),
                "MPI_Bcast");
}

const char* finish() { return failed(MPI_Finalize(), "MPI_Finalize"); }

void abort_all(int code) { failed(MPI_Abort(MPI_COMM_WORLD, code), "MPI_Abort"); }

}  // namespace

extern "C" const char* opbound_mpi_start(MpiTransport* t) {
  static std::string version;
  if (const char* error = failed(MPI_Init(nullptr, nullptr), "MPI_Init")) return error;
  if (const char* error = failed(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
                                 "MPI_Comm_set_errhandler"))
    return error;
  if (const char* error = failed(MPI_Comm_rank(MPI_COMM_WORLD, &own_rank), "MPI_Comm_rank"))
    return error;
  if (const char* error = failed(MPI_Comm_size(MPI_COMM_WORLD, &all_ranks), "MPI_Comm_size"))
    return error;
  int length = 0;
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  if (const char* error =
          failed(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version"))
    return error;
  version.assign(text.data(), static_cast<std::size_t>(length));
  version.resize(std::min(version.find_first_of(",\n"), version.size()));
  *t = {own_rank,        all_ranks,     version.c_str(), exchange, reduce_all,
        scatter_reduced, gather_shards, broadcast,       finish,   abort_all};
  return nullptr;
}

}  // namespace opbound
