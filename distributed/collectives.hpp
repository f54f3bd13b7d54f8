// The collectives that a training loop calls, one interface for ranks on CPUs and on GPUs: sums of
// gradients whose bits do not depend on the number of ranks, and what only moves.
//
// A process is one rank. Tensors are contiguous, in the rank's own memory: the host's, or that of
// its CUDA device. On a device every call is put into `stream` (a cudaStream_t that somebody made,
// not the default one) and returns; nothing waits on the host, so that a CUDA graph may record it
// once it has run. On the host a call returns when it is done, and `stream` means nothing. Every
// rank makes the same calls, with the same counts, in the same order; on a device in one stream at
// a time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "distributed/engine.hpp"
#include "distributed/launch.hpp"
#include "distributed/program.hpp"
#include "distributed/reproducible.hpp"
#include "ops/tensor.hpp"

namespace opbound {

/// Bound of a sum: that of ops/all_reduce.hpp in the order that is asked for, over the ranks' or
/// the micro-batches' terms. Elements are in reducer.wire, which travels; sums are made as Reducer
/// says, rounded to reducer.compute and then to reducer.wire at every node.
///
/// Errors: InputError for an order or format that these ranks cannot have (`refusal_of` says so
/// before), ProviderFailure where a transport, NCCL or CUDA fails. What fails on a device after a
/// call has returned is thrown by `wait`. A count below zero, or none that is a multiple of size()
/// where it has to be, is a programmer's error and aborts.
class Collectives {
 public:
  Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  virtual ~Collectives() = default;

  /// "one rank", "mpi", "tcp", "nccl 2.28.9": for a run's record.
  virtual std::string name() const = 0;
  virtual std::int32_t rank() const = 0;
  virtual std::int32_t size() const = 0;
  /// The CUDA device whose memory tensors are in; -1: the host's.
  virtual int device() const { return -1; }

  /// What has to be otherwise, where sums by this order cannot be had; else empty.
  ///
  /// `order` is a variant of all_reduce. all_reduce::balanced_tree gives the same bits on 1, 2, 4,
  /// ... ranks. all_reduce::any_order is what is fastest: NCCL's own on a device, else the balanced
  /// tree, or a ring where the ranks are no power of two. The host has all other orders too.
  virtual std::string refusal_of(const Reducer& reducer, int order) const = 0;

  /// data[0, count) becomes its sum, mean, minimum or maximum over all ranks, on every rank. A mean
  /// divides by reducer.terms.
  virtual void all_reduce(void* data, std::int64_t count, const Reducer& reducer, int order,
                          void* stream = nullptr) = 0;

  /// The same, of which rank r gets elements [r, r + 1) * count / size(), in their place in data;
  /// what is left of the others is unspecified. count is a multiple of size(). The order is
  /// balanced_tree or any_order.
  virtual void reduce_scatter(void* data, std::int64_t count, const Reducer& reducer, int order,
                              void* stream = nullptr) = 0;

  /// Rank r's elements [r, r + 1) * count / size() on every rank. count is a multiple of size().
  virtual void all_gather(void* data, std::int64_t count, Element element,
                          void* stream = nullptr) = 0;

  /// Rank 0's elements on every rank.
  virtual void broadcast(void* data, std::int64_t count, Element element,
                         void* stream = nullptr) = 0;

  /// A node of a tree inside of this rank: sum[i] = sum[i] + term[i], as reducer adds and keeps it;
  /// `is_last`: the sum is complete, a mean is divided.
  virtual void add(void* sum, const void* term, std::int64_t count, const Reducer& reducer,
                   bool is_last, void* stream = nullptr) = 0;

  /// Other ranks may read and write this memory themselves, where their devices reach it: sums in
  /// it are faster by far. `data` is what cudaMalloc gave; any part of it may be reduced later, by
  /// all ranks at the same place in it. Every rank calls it, with its own memory of the same size,
  /// and frees that after this object. On the host it does nothing.
  virtual void share(void* /*data*/, std::int64_t /*bytes*/) {}

  /// Waits on the host until what `stream` holds is done. Throws ProviderFailure where a rank did
  /// not come within the seconds that were given, or a device failed.
  virtual void wait(void* stream = nullptr) = 0;

  /// Host bytes of every rank, of one size, one after the other, on every rank: losses, hashes. It
  /// is a barrier too. It does not wait for streams.
  virtual std::vector<std::byte> gather(std::span<const std::byte> own) = 0;
};

/// The ranks that a launcher started (launch.hpp), each of them one process; without one, one rank.
/// On the host MPI moves under mpirun and srun, TCP under torchrun. On a device NCCL does, for one
/// rank too, and a rank's device() is the one of its place among its machine's ranks: a program
/// makes it current for its own runtime. Throws Unavailable where a module or a GPU is missing,
/// ProviderFailure where ranks do not come within `seconds`, as a later call does.
std::unique_ptr<Collectives> join_ranks(double seconds = patience());
/// On devices. Without a launcher the one rank has device number `device`; beside one InputError
/// unless it is 0, since the launcher places the ranks.
std::unique_ptr<Collectives> join_device_ranks(int device, double seconds = patience());

/// The same over a transport that somebody has; one rank where there is none.
std::unique_ptr<Collectives> host_collectives(std::unique_ptr<Communicator> communicator,
                                              std::string name);

/// The sum of all ranks' micro-batches, with the bits of one balanced tree over all of them:
///
///   const Reducer mean{.compute = fp32, .wire = fp32, .reduction = Reduction::mean, .terms = 64};
///   MicroBatchSum sum(ranks, mean, count);      // ranks.share(memory, bytes) before: faster
///   sum.begin(slots);                           // sum.slot_count() buffers of count elements
///   for (std::int64_t m = sum.share().first; m < sum.share().first + sum.share().count; ++m) {
///     gradient(m, sum.next(), stream);          // written there, in mean.wire
///     sum.take(stream);                         // adds what can be added, and keeps it in wire
///   }
///   sum.all_reduce(stream);                     // in slots[0], on every rank
class MicroBatchSum {
 public:
  /// reducer.terms is the number of all ranks' micro-batches. Throws InputError where
  /// reproducible_refusal says why, or refusal_of does.
  MicroBatchSum(Collectives& ranks, const Reducer& reducer, std::int64_t count);

  /// The micro-batches that are this rank's, to be taken in turn.
  const Share& share() const { return share_; }
  /// How many buffers are needed: at most 1 + ceil(log2 share().count).
  std::int32_t slot_count() const;

  /// Begins a sum in these buffers.
  void begin(std::span<void* const> slots);
  /// Where the next micro-batch's gradient is to be written.
  void* next() const;
  void take(void* stream = nullptr);
  void all_reduce(void* stream = nullptr);
  /// The same, of which each rank gets its part only: see Collectives::reduce_scatter.
  void reduce_scatter(void* stream = nullptr);

 private:
  Collectives& ranks_;
  Reducer reducer_;
  std::int64_t count_;
  Share share_;
  std::vector<void*> slots_;
  std::vector<std::int32_t> adds_;  ///< after each micro-batch
  std::size_t taken_ = 0;
  std::size_t held_ = 0;  ///< sums that wait in slots
};

}  // namespace opbound
