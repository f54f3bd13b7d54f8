// An op on the device: its own kernel, the bound of that, and its definition in double-double. The
// same sources as on the host, every block one thread block. Work is started, not waited for.
#pragma once

#include <array>

#include "bounds/product.hpp"
#include "bounds/tracked_double_double.hpp"
#include "ops/instantiate/device_launch.hpp"
#include "ops/instantiate/theorem.hpp"

namespace opbound {

namespace detail {

/// The definition of a part, by the same team.
template <class Part, class Op>
__global__ void __launch_bounds__(team_width)
    device_definitions(Problem<Op> problem, ReferenceIo<CertifiedDouble> io, std::int64_t blocks) {
  using R = CertifiedDouble;
  __shared__ alignas(16) unsigned char lanes[team_width * widest_lane<R>];
  const DeviceTeam<team_width, widest_lane<R>> team(lanes);
  for (std::int64_t b = blockIdx.x; b < blocks; b += gridDim.x)
    Part::template define<R>(team, problem, io, b);
}

/// A theorem's sums are in turn: one thread for each block.
template <class Part, class Op>
__global__ void device_theorems(Problem<Op> problem, TheoremIo io, Arithmetic arithmetic,
                                std::int64_t blocks) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t b = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; b < blocks;
       b += threads)
    Part::theorem(problem, io, arithmetic, b);
}

/// A saved tensor's bound as the backward pass reads it: stored.
template <class T>
__global__ void device_round_saved(DeviceBound a, std::int64_t count, Format stored) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += threads) {
    Tracked<T, Own> x(from<T>(a.value[i]));
    x.radius = a.radius[i];
    x = stored_in(stored, x);
    a.value[i] = to_double(x);
    a.radius[i] = x.radius;
  }
}

/// A part's own way to bounds and references of whole tensors, for problems that it serves: its
/// operands unpacked to fp64, then a tile to a thread block.
template <class Certified, class Op>
__global__ void device_unpack(Problem<Op> problem, Bindings tensors, double* to,
                              std::int64_t count) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t e = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < count;
       e += threads)
    Certified::unpack(problem, tensors, e, to);
}
template <class Certified, class Op>
__global__ void __launch_bounds__(Certified::threads)
    device_certified(Problem<Op> problem, const double* operands,
                     typename Certified::Results results, std::int64_t blocks) {
  __shared__ alignas(16) unsigned char shared[Certified::shared_bytes];
  for (std::int64_t b = blockIdx.x; b < blocks; b += gridDim.x)
    Certified::run(problem, operands, results, b, reinterpret_cast<double*>(shared));
}

/// One step of a part's quick check, a row to a thread block, and what it says of the rows: counts
/// of those that fail, and of those that it cannot judge.
template <class Check, class Op>
__global__ void __launch_bounds__(team_width)
    device_quick_step(Problem<Op> problem, Bindings tensors, double* memory, std::uint64_t seed,
                      int step, std::int64_t rows) {
  using Sums = typename Check::RowSums;
  __shared__ alignas(16) unsigned char lanes[team_width * sizeof(Sums)];
  const DeviceTeam<team_width, sizeof(Sums)> team(lanes);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    Check::run(team, problem, tensors, memory, seed, step, row);
}
template <class Check, class Op>
__global__ void device_quick_verdict(Problem<Op> problem, Format compute, Format stored,
                                     const double* memory, std::int64_t rows,
                                     unsigned long long* counts) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; row < rows;
       row += threads) {
    const auto v = Check::verdict(problem, compute, stored, memory, row);
    if (v != RowVerdict::passes) atomicAdd(&counts[v == RowVerdict::fails ? 0 : 1], 1ULL);
  }
}

}  // namespace detail

template <class Op>
struct DeviceOf {
  /// The views hold device addresses.
  static void run(const Call& c) {
    run_pass<typename Op::forward>(c, c.forward);
    if constexpr (detail::HasBackward<Op>) run_pass<typename Op::backward>(c, c.backward);
  }

  /// For the own contract.
  static void bound(const Call& c, std::span<const DeviceBound> to) {
    detail::with_compute_type(c.compute, [&]<class T>() {
      if (c.direction == Direction::forward) {
        bound_pass<typename Op::forward, T>(c, c.forward, to, {});
        return;
      }
      if constexpr (detail::HasBackward<Op>) {
        std::vector<DeviceBound> saved;
        Held held;
        if (c.direction == Direction::backward_full && detail::reads_saved_tensors<Op>())
          saved = saved_bounds<T>(c, held);
        bound_pass<typename Op::backward, T>(c, c.backward, to, saved);
      }
    });
  }

  static std::optional<QuickCheck> quick_check(const Call& c, std::uint64_t seed) {
    std::optional<QuickCheck> result;
    if (c.direction != Direction::forward) return result;
    detail::for_each_part<typename Op::forward>([&]<class Part>() {
      if constexpr (requires { sizeof(typename Part::freivalds); }) {
        using Check = typename Part::freivalds;
        const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
        if (!Check::serves(problem) || !suits_whole(c)) return;
        const cuda::Memory memory = cuda::memory_for<double>(Check::memory(c.sizes));
        cuda::Memory found(2 * sizeof(unsigned long long));
        found.clear();
        auto* const sums = memory.template as<double>();
        for (int step = 0; step < 3; ++step) {
          const std::int64_t rows = Check::rows_of(c.sizes, step);
          detail::device_quick_step<Check><<<cuda::grid_of(rows), team_width>>>(
              problem, opbound::bind(c.forward), sums, seed, step, rows);
          OPBOUND_CUDA_CHECK(cudaGetLastError());
        }
        const std::int64_t rows = c.sizes[0];
        const TensorView& output = c.forward[static_cast<std::size_t>(Part::outputs[0])];
        detail::device_quick_verdict<Check><<<cuda::grid_of((rows + 127) / 128), 128>>>(
            problem, c.compute, format_of(output.element), sums, rows,
            found.template as<unsigned long long>());
        OPBOUND_CUDA_CHECK(cudaGetLastError());
        std::array<unsigned long long, 2> counts{};
        found.copy_to_host(counts.data());
        result = QuickCheck{rows - static_cast<std::int64_t>(counts[1]),
                            static_cast<std::int64_t>(counts[0])};
      }
    });
    return result;
  }

  /// Bounds for every order and fp64 references of whole tensors, where the forward pass's one part
  /// has a way to them; false, and nothing done, where it has not.
  static bool prove(const Call& c, std::span<const DeviceBound> bound,
                    std::span<const DeviceReference> reference) {
    bool done = false;
    if (c.direction != Direction::forward) return done;
    detail::for_each_part<typename Op::forward>([&]<class Part>() {
      if constexpr (requires { sizeof(typename Part::certified); }) {
        using Certified = typename Part::certified;
        const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
        if (!Certified::serves(problem) || !suits_whole(c)) return;
        done = true;
        const std::int64_t blocks = Certified::blocks(c.sizes);
        const std::int64_t count = Certified::unpacked(c.sizes);
        const cuda::Memory operands = cuda::memory_for<double>(count);
        detail::device_unpack<Certified><<<cuda::grid_of((count + 255) / 256), 256>>>(
            problem, opbound::bind(c.forward), operands.template as<double>(), count);
        OPBOUND_CUDA_CHECK(cudaGetLastError());
        const auto output = static_cast<std::size_t>(Part::outputs[0]);
        detail::device_certified<Certified><<<cuda::grid_of(blocks), Certified::threads>>>(
            problem, operands.template as<double>(),
            typename Certified::Results{bound[output], reference[output], c.compute}, blocks);
        OPBOUND_CUDA_CHECK(cudaGetLastError());
      }
    });
    return done;
  }

  static void reference(const Call& c, std::span<const DeviceReference> to) {
    if (c.direction == Direction::forward) {
      define_pass<typename Op::forward>(c, c.forward, to, {}, {});
      return;
    }
    if constexpr (detail::HasBackward<Op>) {
      Held held;
      std::vector<CertifiedDouble*> saved;
      if (c.direction == Direction::backward_full && detail::reads_saved_tensors<Op>()) {
        for (std::size_t t = 0; t < c.forward.size(); ++t)
          saved.push_back(is_result(Op::forward::tensors[t])
                              ? allocate<CertifiedDouble>(held, c.forward[t].count())
                              : nullptr);
        define_pass<typename Op::forward>(c, c.forward, {}, saved, {});
      }
      define_pass<typename Op::backward>(c, c.backward, to, {}, saved);
    }
  }

 private:
  using Held = std::vector<cuda::Memory>;  ///< what a pass leaves to the next

  /// What a pass computes for others: scratch stays inside of it.
  static bool is_result(const TensorSpec& t) { return t.is_written() && t.role != Role::scratch; }

  /// What whole-tensor ways ask for: a kernel in fp32 whose inputs are exact there, so that in fp64
  /// products are exact and nothing overflows or underflows.
  static bool suits_whole(const Call& c) {
    return c.compute == fp32 && detail::loads_exactly<typename Op::forward>(c.forward, fp32);
  }

  template <class T>
  static T* allocate(Held& held, std::int64_t count) {
    return held.emplace_back(cuda::memory_for<T>(count)).template as<T>();
  }

  template <class Pass>
  static void run_pass(const Call& c, std::span<const TensorView> views) {
    if (views.empty()) return;
    detail::with_compute_type(c.compute, [&]<class T>() {
      const PlainIo<T> io{opbound::bind(views)};
      const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
      detail::for_each_part<Pass>(
          [&]<class Part>() { detail::launch_fastest<Part, Pass, T>(problem, io); });
    });
  }

  /// Bounds of all that the forward pass computes, stored as the backward pass reads them.
  template <class T>
  static std::vector<DeviceBound> saved_bounds(const Call& c, Held& held) {
    std::vector<DeviceBound> saved(c.forward.size());
    for (std::size_t t = 0; t < saved.size(); ++t) {
      if (!is_result(Op::forward::tensors[t])) continue;
      const std::int64_t count = c.forward[t].count();
      saved[t] = {allocate<double>(held, count), allocate<double>(held, count),
                  allocate<std::uint64_t>(held, 1)};
      held.back().clear();  // theorems count in it
    }
    bound_pass<typename Op::forward, T>(c, c.forward, saved, {});
    for (std::size_t t = 0; t < saved.size(); ++t) {
      const TensorView& view = c.forward[t];
      if (saved[t].value == nullptr || !is_float(view.element) || view.count() == 0) continue;
      detail::device_round_saved<T><<<cuda::grid_of((view.count() + 255) / 256), 256>>>(
          saved[t], view.count(), format_of(view.element));
      OPBOUND_CUDA_CHECK(cudaGetLastError());
    }
    return saved;
  }

  /// `saved`: bounds of the forward pass's tensors, where they are not exact inputs.
  template <class Pass, class T>
  static void bound_pass(const Call& c, std::span<const TensorView> views,
                         std::span<const DeviceBound> to, std::span<const DeviceBound> saved) {
    Held held;
    TrackedIo<T, Own> io{opbound::bind(views), {}};
    TheoremIo theorem{io.tensors, {}, {}};
    for (std::size_t t = 0; t < views.size(); ++t) {
      const TensorSpec& spec = Pass::tensors[t];
      DeviceBound a = spec.is_written() ? to[t] : DeviceBound{};
      if (spec.role == Role::scratch) {
        const std::int64_t count = views[t].count();
        a = {allocate<double>(held, count), allocate<double>(held, count), nullptr};
      } else if (spec.role == Role::saved && !saved.empty()) {
        a = saved[static_cast<std::size_t>(detail::place_in_forward<Op>(spec.name))];
      }
      io.tracked[t] = {a.value, a.radius, nullptr, spec.role == Role::scratch};
      theorem.radius[t] = a.radius;
      theorem.by_theorem[t] = a.by_theorem;
    }
    const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
    detail::for_each_part<Pass>([&]<class Part>() {
      detail::launch<Part, Tracked<T, Own>>(problem, io, Part::blocks(c.sizes));
    });
    if (!detail::loads_exactly<Pass>(views, Facts<T>::format)) return;
    const Arithmetic arithmetic = detail::arithmetic_of<T, Own>({});
    detail::for_each_part<Pass>([&]<class Part>() {
      if constexpr (detail::HasTheorem<Part, Op>) {
        const std::int64_t blocks = Part::blocks(c.sizes);
        if (blocks == 0) return;
        detail::device_theorems<Part>
            <<<cuda::grid_of((blocks + 63) / 64), 64>>>(problem, theorem, arithmetic, blocks);
        OPBOUND_CUDA_CHECK(cudaGetLastError());
      }
    });
  }

  /// `keep`: where this pass's results go, or nothing; `saved`: what an earlier pass kept.
  template <class Pass>
  static void define_pass(const Call& c, std::span<const TensorView> views,
                          std::span<const DeviceReference> to,
                          std::span<CertifiedDouble* const> keep,
                          std::span<CertifiedDouble* const> saved) {
    Held held;
    ReferenceIo<CertifiedDouble> io{opbound::bind(views), {}, {}, {}, {}};
    for (std::size_t t = 0; t < views.size(); ++t) {
      const TensorSpec& spec = Pass::tensors[t];
      if (spec.role == Role::scratch) {
        io.saved[t] = io.keep[t] = allocate<CertifiedDouble>(held, views[t].count());
      } else if (spec.is_written()) {
        if (!keep.empty()) io.keep[t] = keep[t];
        if (!to.empty()) {
          io.exact_values[t] = to[t].exact;
          io.gauge[t] = to[t].gauge;
        }
      } else if (spec.role == Role::saved && !saved.empty()) {
        io.saved[t] = saved[static_cast<std::size_t>(detail::place_in_forward<Op>(spec.name))];
      }
    }
    const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
    detail::for_each_part<Pass>([&]<class Part>() {
      const std::int64_t blocks = Part::blocks(c.sizes);
      if (blocks == 0) return;
      detail::device_definitions<Part><<<cuda::grid_of(blocks), team_width>>>(problem, io, blocks);
      OPBOUND_CUDA_CHECK(cudaGetLastError());
    });
  }
};

}  // namespace opbound
