// How a part's own kernel is started on the device: by the fastest of the ways that serve a
// problem, all of which give the same bits.
#pragma once

#include <concepts>
#include <tuple>

#include "bounds/product.hpp"
#include "ops/cuda.hpp"
#include "ops/instantiate/row_team.hpp"
#include "ops/instantiate/typed_io.hpp"
#include "ops/instantiate/walk.hpp"

namespace opbound::detail {

/// Blocks beyond the grid are taken in turn, so any number of them runs.
template <class Part, class T, class Op, class Io>
__global__ void __launch_bounds__(team_width)
    device_blocks(Problem<Op> problem, Io io, std::int64_t blocks) {
  __shared__ alignas(16) unsigned char lanes[team_width * widest_lane<T>];
  const DeviceTeam<team_width, widest_lane<T>> team(lanes);
  for (std::int64_t b = blockIdx.x; b < blocks; b += gridDim.x)
    Part::template kernel<T>(team, problem, io, b);
}

/// The same with memory for what a block's kernel remembers.
template <class Part, class T, class Op, class Io>
__global__ void __launch_bounds__(team_width)
    device_remembering_blocks(Problem<Op> problem, Io io, std::int64_t blocks) {
  __shared__ alignas(16) unsigned char lanes[team_width * widest_lane<T>];
  extern __shared__ unsigned char memory[];  // 16 bytes aligned, as any such memory
  const RememberingTeam<T> team(lanes, reinterpret_cast<T*>(memory));
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

/// A row in registers, for the problem that an op names first: its first variant with the
/// attributes that it has by itself, which are constants here as the row's length is. Blocks at the
/// same time on a multiprocessor: as many as the registers of rows of 4096 allow.
template <class Part, class Pass, Element stored, int chunks, class Op>
__global__ void __launch_bounds__(team_width / neighbours<Part>, neighbours<Part> == 1 ? 6 : 10)
    device_rows(Sizes sizes, Bindings tensors, std::int64_t blocks) {
  using Io = RowIo<Pass, stored, neighbours<Part>>;
  using Team = RowTeam<Io, neighbours<Part>, chunks>;
  __shared__ float shared[team_width];
  Problem<Op> problem{{}, 0, sizes};
  problem.sizes[1] = Team::length;
  const Io io(tensors);
  const Team team(io, shared);
  for (std::int64_t b = blockIdx.x; b < blocks; b += gridDim.x)
    Part::template kernel<float>(team, problem, io, b);
}

template <class Part, class T, class Op, class Io>
void launch(const Problem<Op>& problem, const Io& io, std::int64_t blocks) {
  if (blocks == 0) return;
  device_blocks<Part, T><<<cuda::grid_of(blocks), team_width>>>(problem, io, blocks);
  OPBOUND_CUDA_CHECK(cudaGetLastError());
}

/// Are they those that the op has by itself?
template <class Op>
bool are_default(const typename Op::Attributes& a) {
  const typename Op::Attributes own{};
  return std::apply([&](const auto&... f) { return (... && (a.*f.member == own.*f.member)); },
                    Op::attributes);
}

template <class Part, class Pass, Element stored, int chunks, class Op>
bool launch_rows_of(const Problem<Op>& problem, const Bindings& tensors) {
  if (problem.sizes[1] != std::int64_t{team_width} * chunks) return false;
  constexpr int threads = team_width / neighbours<Part>;
  const std::int64_t blocks = Part::blocks(problem.sizes);
  if (blocks == 0) return true;
  device_rows<Part, Pass, stored, chunks, Op>
      <<<cuda::grid_of(blocks), threads>>>(problem.sizes, tensors, blocks);
  OPBOUND_CUDA_CHECK(cudaGetLastError());
  return true;
}

/// In registers, where that serves the problem: rows of 1024, 2048 or 4096.
template <class Part, class Pass, Element stored, class Op>
bool launch_rows(const Problem<Op>& problem, const Bindings& tensors) {
  const bool is_first = problem.variant == 0 && are_default<Op>(problem.attributes) &&
                        Part::remembered(problem.sizes) == problem.sizes[1];
  return is_first && RowIo<Pass, stored, neighbours<Part>>::suits(tensors) &&
         (launch_rows_of<Part, Pass, stored, 32>(problem, tensors) ||
          launch_rows_of<Part, Pass, stored, 16>(problem, tensors) ||
          launch_rows_of<Part, Pass, stored, 8>(problem, tensors));
}

/// With loads whose type is known, where all tensors are of that type, and memory for what a block
/// remembers, where there is as much.
template <class Part, class Pass, Element stored, class Op>
bool launch_typed(const Problem<Op>& problem, const Bindings& tensors) {
  using Io = TypedIo<Pass, stored>;
  if (!Io::suits(tensors)) return false;
  if (launch_rows<Part, Pass, stored>(problem, tensors)) return true;
  constexpr std::int64_t most = (48 << 10) - team_width * widest_lane<float>;  // any block has it
  const std::int64_t bytes = Part::remembered(problem.sizes) * std::int64_t{sizeof(float)};
  const std::int64_t blocks = Part::blocks(problem.sizes);
  if (bytes > most) {
    launch<Part, float>(problem, Io{tensors}, blocks);
  } else if (blocks > 0) {
    device_remembering_blocks<Part, float>
        <<<cuda::grid_of(blocks), team_width, static_cast<std::size_t>(bytes)>>>(
            problem, Io{tensors}, blocks);
    OPBOUND_CUDA_CHECK(cudaGetLastError());
  }
  return true;
}

/// The part's results, by its tiled body where it has one for this problem.
template <class Part, class Pass, class T, class Op>
void launch_fastest(const Problem<Op>& problem, const PlainIo<T>& io) {
  if constexpr (requires { typename Part::tile; } && std::floating_point<T>) {
    using Tile = typename Part::tile;
    if (Tile::serves(problem)) {
      const std::int64_t tiles = Tile::blocks(problem.sizes);
      if (tiles == 0) return;
      device_tiles<Tile, T><<<cuda::grid_of(tiles), Tile::threads>>>(problem, io, tiles);
      OPBOUND_CUDA_CHECK(cudaGetLastError());
      return;
    }
  }
  if constexpr (requires(const Sizes& sizes) { Part::remembered(sizes); } &&
                std::same_as<T, float>) {
    if (launch_typed<Part, Pass, Element::bf16>(problem, io.tensors)) return;
    if (launch_typed<Part, Pass, Element::fp16>(problem, io.tensors)) return;
    if (launch_typed<Part, Pass, Element::fp32>(problem, io.tensors)) return;
  }
  launch<Part, T>(problem, io, Part::blocks(problem.sizes));
}

}  // namespace opbound::detail
