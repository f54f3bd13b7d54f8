// The own kernel of an op on the device: the same source, its blocks one thread block each.
#pragma once

#include <algorithm>
#include <concepts>

#include "ops/cuda.hpp"
#include "ops/instantiate/walk.hpp"

namespace opbound {

namespace detail {

/// Blocks beyond the grid are taken in turn, so any number of them runs.
template <class Part, class T, class Op, class Io>
__global__ void __launch_bounds__(team_width)
    device_blocks(Problem<Op> problem, Io io, std::int64_t blocks) {
  __shared__ alignas(16) unsigned char lanes[team_width * widest_lane<T>];
  const DeviceTeam<team_width, widest_lane<T>> team(lanes);
  for (std::int64_t b = blockIdx.x; b < blocks; b += gridDim.x)
    Part::template kernel<T>(team, problem, io, b);
}

/// A part's second body for speed, which gives the same bits (a test compares them): tiles, each of
/// one thread block.
template <class Tile, class T, class Op, class Io>
__global__ void __launch_bounds__(Tile::threads)
    device_tiles(Problem<Op> problem, Io io, std::int64_t blocks) {
  __shared__ alignas(16) unsigned char shared[Tile::template shared_bytes<T>];
  for (std::int64_t b = blockIdx.x; b < blocks; b += gridDim.x)
    Tile::template run<T>(problem, io, b, shared);
}

inline constexpr std::int64_t largest_grid = 1 << 20;

template <class Part, class T, class Op, class Io>
void launch(const Problem<Op>& problem, const Io& io, std::int64_t blocks) {
  if (blocks == 0) return;
  device_blocks<Part, T>
      <<<static_cast<unsigned>(std::min(blocks, largest_grid)), team_width>>>(problem, io, blocks);
  OPBOUND_CUDA_CHECK(cudaGetLastError());
}

/// The part's results, by its tiled body where it has one for this problem.
template <class Part, class T, class Op>
void launch_fastest(const Problem<Op>& problem, const PlainIo<T>& io) {
  if constexpr (requires { typename Part::tile; } && std::floating_point<T>) {
    using Tile = typename Part::tile;
    if (Tile::serves(problem)) {
      const std::int64_t tiles = Tile::blocks(problem.sizes);
      if (tiles == 0) return;
      device_tiles<Tile, T>
          <<<static_cast<unsigned>(std::min(tiles, largest_grid)), Tile::threads>>>(problem, io,
                                                                                    tiles);
      OPBOUND_CUDA_CHECK(cudaGetLastError());
      return;
    }
  }
  launch<Part, T>(problem, io, Part::blocks(problem.sizes));
}

}  // namespace detail

template <class Op>
struct DeviceOf {
  /// The views hold device addresses. Returns when the work is done.
  static void run(const Call& c) {
    run_pass<typename Op::forward>(c, c.forward);
    if constexpr (detail::HasBackward<Op>) run_pass<typename Op::backward>(c, c.backward);
    OPBOUND_CUDA_CHECK(cudaDeviceSynchronize());
  }

  /// Own bounds of the judged outputs by the device team. The views hold device addresses.
  static BoundArrays bound(const Call& c) {
    if (c.direction == Direction::forward) return bound_pass<typename Op::forward>(c, c.forward);
    if constexpr (detail::HasBackward<Op>) {
      if (c.direction == Direction::backward_local)
        return bound_pass<typename Op::backward>(c, c.backward);
    }
    throw ProviderFailure("device bounds are made for one pass at a time");
  }

 private:
  template <class Pass>
  static void run_pass(const Call& c, std::span<const TensorView> views) {
    if (views.empty()) return;
    detail::with_compute_type(c.compute, [&]<class T>() {
      const PlainIo<T> io{bind(views)};
      const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
      detail::for_each_part<Pass>(
          [&]<class Part>() { detail::launch_fastest<Part, T>(problem, io); });
    });
  }

  template <class Pass>
  static BoundArrays bound_pass(const Call& c, std::span<const TensorView> views) {
    BoundArrays result(views.size());
    std::vector<cuda::Memory> memory;
    memory.reserve(2 * views.size());
    detail::with_compute_type(c.compute, [&]<class T>() {
      TrackedIo<T, Own> io{bind(views), {}};
      for (std::size_t t = 0; t < views.size(); ++t) {
        if (!Pass::tensors[t].is_written()) continue;
        const auto count = static_cast<std::size_t>(views[t].count());
        result[t].value.resize(count);
        result[t].radius.resize(count);
        io.tracked[t].value =
            static_cast<double*>(memory.emplace_back(count * sizeof(double)).data());
        io.tracked[t].radius =
            static_cast<double*>(memory.emplace_back(count * sizeof(double)).data());
      }
      const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
      detail::for_each_part<Pass>([&]<class Part>() {
        detail::launch<Part, Tracked<T, Own>>(problem, io, Part::blocks(c.sizes));
      });
    });
    OPBOUND_CUDA_CHECK(cudaDeviceSynchronize());
    std::size_t next = 0;
    for (std::size_t t = 0; t < views.size(); ++t) {
      if (!Pass::tensors[t].is_written()) continue;
      memory[next++].copy_to_host(result[t].value.data());
      memory[next++].copy_to_host(result[t].radius.data());
    }
    return result;
  }
};

}  // namespace opbound
