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

/// Calls start(pointer, bytes, request) for every part of a message.
template <class Bytes, class F>
const char* in_parts(std::span<Bytes> bytes, std::vector<MPI_Request>& requests, const char* call,
                     F start) {
  for (std::size_t first = 0; first < bytes.size(); first += most_bytes) {
    const std::size_t count = std::min(most_bytes, bytes.size() - first);
    requests.push_back(MPI_REQUEST_NULL);
    const int code = start(bytes.data() + first, static_cast<int>(count), &requests.back());
    if (const char* error = failed(code, call)) return error;
  }
  return nullptr;
}

/// Waits for all of them; those that are not done after so many seconds are given up.
const char* wait(std::vector<MPI_Request>& requests, double seconds) {
  const auto count = static_cast<int>(requests.size());
  const double start = MPI_Wtime();
  for (int done = 0;;) {
    if (const char* error =
            failed(MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall"))
      return error;
    if (done != 0) return nullptr;
    if (MPI_Wtime() - start > seconds) break;
  }
  for (MPI_Request& request : requests) {
    if (request == MPI_REQUEST_NULL) continue;
    if (const char* error = failed(MPI_Cancel(&request), "MPI_Cancel")) return error;
    if (const char* error = failed(MPI_Request_free(&request), "MPI_Request_free")) return error;
  }
  failure = "no end within " + std::to_string(std::lround(seconds)) + " seconds";
  return failure.c_str();
}

const char* exchange(std::span<const Sent> sent, std::span<const Received> received,
                     double seconds) {
  std::vector<MPI_Request> requests;
  for (const Received& r : received)
    if (const char* error = in_parts(r.bytes, requests, "MPI_Irecv", [&](auto* p, int n, auto* q) {
          return MPI_Irecv(p, n, MPI_BYTE, r.from, r.tag, MPI_COMM_WORLD, q);
        }))
      return error;
  for (const Sent& s : sent)
    if (const char* error = in_parts(s.bytes, requests, "MPI_Isend", [&](auto* p, int n, auto* q) {
          return MPI_Isend(p, n, MPI_BYTE, s.to, s.tag, MPI_COMM_WORLD, q);
        }))
      return error;
  return wait(requests, seconds);
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
