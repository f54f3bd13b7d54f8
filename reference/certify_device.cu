#include "reference/certify_device.hpp"

#include "ops/device_call.hpp"
#include "ops/instantiate/device_counts.hpp"
#include "ops/sweep.hpp"
#include "ops/team.hpp"
#include "reference/device_tally.hpp"

namespace opbound {
namespace {

__global__ void __launch_bounds__(team_width)
    tally_elements(JudgedOutput judged, std::int64_t count, TallyResult to) {
  __shared__ alignas(16) unsigned char lanes[team_width * sizeof(Tally)];
  __shared__ detail::DeviceCounts::Shared histogram;
  const DeviceTeam<team_width, sizeof(Tally)> team(lanes);
  const detail::DeviceCounts counts(histogram, to);
  for (std::int64_t r = blockIdx.x; r < runs_of(count); r += gridDim.x) {
    const Tally t =
        tally_run(team, r, count, [&](std::int64_t i) { return judged.first(i, counts); });
    if (threadIdx.x == 0) to.runs[r] = t;
  }
  counts.finish();
}

__global__ void gather(JudgedOutput judged, const std::int64_t* index, std::int64_t count,
                       JudgedElement* to) {
  const std::int64_t k = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (k < count) to[k] = judged.element(index[k]);
}

std::vector<JudgedElement> elements_at(const JudgedOutput& judged,
                                       const std::vector<std::int64_t>& index) {
  std::vector<JudgedElement> elements(index.size());
  if (index.empty()) return elements;
  const auto count = std::ssize(index);
  cuda::Memory there = cuda::memory_for<std::int64_t>(count);
  there.copy_from_host(index.data());
  const cuda::Memory gathered = cuda::memory_for<JudgedElement>(count);
  gather<<<static_cast<unsigned>((count + 127) / 128), 128>>>(judged, there.as<std::int64_t>(),
                                                              count, gathered.as<JudgedElement>());
  OPBOUND_CUDA_CHECK(cudaGetLastError());
  gathered.copy_to_host(elements.data());
  return elements;
}

/// The first rung of one output.
void tally_all(const JudgedOutput& judged, FirstRung& to) {
  const std::int64_t count = judged.view.count();
  if (count == 0) return;
  cuda::DeviceTally found(runs_of(count), static_cast<std::uint64_t>(count));
  tally_elements<<<cuda::grid_of(runs_of(count)), team_width>>>(judged, count, found.from_run(0));
  OPBOUND_CUDA_CHECK(cudaGetLastError());
  found.read(to);
  to.elements = elements_at(judged, to.open);
  if (to.tally.worst >= 0) to.worst = elements_at(judged, {to.tally.worst}).front();
}

/// What judges a call's outputs, in device memory.
class Proof {
 public:
  Proof(const Op& op, const Call& call, const std::vector<FirstRung>& outputs)
      : op_(op), call_(call), bound_(call.judged().size()), reference_(call.judged().size()) {
    for (const FirstRung& o : outputs) {
      const auto t = static_cast<std::size_t>(o.tensor);
      const std::int64_t count = call.judged()[t].count();
      bound_[t] = {hold<double>(count), hold<double>(count), hold<std::uint64_t>(1)};
      reference_[t] = {hold<Exact>(count), hold<double>(count)};
      OPBOUND_CUDA_CHECK(cudaMemset(bound_[t].by_theorem, 0, sizeof(std::uint64_t)));
    }
  }

  /// Starts what makes the arrays; a bound that is given is copied. True where a way for whole
  /// tensors was taken: then the bound holds for every order, and the reference is fp64's.
  bool make(const BoundArrays& given) {
    if (op_.prove_on_device(call_, bound_, reference_)) return true;
    op_.reference_on_device(call_, reference_);
    if (given.empty()) {
      op_.bound_on_device(call_, bound_);
      return false;
    }
    for (std::size_t t = 0; t < given.size(); ++t) {
      if (bound_[t].value == nullptr) continue;
      const std::size_t bytes = given[t].value.size() * sizeof(double);
      OPBOUND_CUDA_CHECK(
          cudaMemcpy(bound_[t].value, given[t].value.data(), bytes, cudaMemcpyHostToDevice));
      OPBOUND_CUDA_CHECK(
          cudaMemcpy(bound_[t].radius, given[t].radius.data(), bytes, cudaMemcpyHostToDevice));
    }
    return false;
  }

  JudgedOutput of(const FirstRung& o) const {
    const auto t = static_cast<std::size_t>(o.tensor);
    return {call_.judged()[t],   bound_[t].value,     bound_[t].radius,
            reference_[t].exact, reference_[t].gauge, o.judge};
  }
  std::uint64_t by_theorem(const FirstRung& o) const {
    std::uint64_t count = 0;
    OPBOUND_CUDA_CHECK(cudaMemcpy(&count, bound_[static_cast<std::size_t>(o.tensor)].by_theorem,
                                  sizeof count, cudaMemcpyDeviceToHost));
    return count;
  }

 private:
  template <class T>
  T* hold(std::int64_t count) {
    return held_.emplace_back(cuda::memory_for<T>(count)).template as<T>();
  }

  const Op& op_;
  const Call& call_;
  std::vector<cuda::Memory> held_;
  std::vector<DeviceBound> bound_;
  std::vector<DeviceReference> reference_;
};

}  // namespace

std::vector<FirstRung> first_rung_on_device(const Op& op, const Call& there,
                                            const BoundArrays& bounds) {
  std::vector<FirstRung> outputs = judged_outputs(op, there);
  Proof proof(op, there, outputs);
  const bool is_whole = proof.make(bounds);
  for (FirstRung& o : outputs) {
    o.is_of_every_order = is_whole;
    if (is_whole) {
      o.judge.most_doubt_ulp = fp64_doubt_ulp;
      o.judge.sharpens_doubts = false;
    }
    tally_all(proof.of(o), o);
    o.by_theorem = bounds.empty() ? proof.by_theorem(o)
                                  : bounds[static_cast<std::size_t>(o.tensor)].by_theorem;
  }
  return outputs;
}

std::vector<OutputCheck> certify_on_device(const Provider& provider, const Op& op, const Call& call,
                                           const BoundArrays& bounds) {
  provider.select_device();
  const cuda::DeviceCall there(call);
  provider.run_on_device(op, there.call());
  return finish(op, call, first_rung_on_device(op, there.call(), bounds));
}

std::optional<QuickCheck> quick_check_on(const Provider& provider, const Op& op, const Call& call,
                                         std::uint64_t seed) {
  provider.select_device();
  const cuda::DeviceCall there(call);
  provider.run_on_device(op, there.call());
  return op.quick_check_on_device(there.call(), seed);
}

}  // namespace opbound
