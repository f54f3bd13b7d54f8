// One instruction of the device's matrix units on many tiles, against the emulation.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "ops/matmul/unit.hpp"
#include "tests/device/unit_inputs.hpp"

namespace opbound::unit_products {

enum class Instruction : std::uint8_t { mma, wgmma };
inline constexpr std::array<std::string_view, 2> instruction_names{"mma.sync", "wgmma"};

/// An instruction and the formats that its factors are stored in; fp32 is cut to tf32.
struct Operation {
  Instruction instruction;
  Format a, b;
  int terms;  ///< of each sum
};

/// The unit that it is emulated as.
constexpr MatrixUnit unit_of(const Operation& o) {
  const bool is_own = o.instruction == Instruction::wgmma || o.a.bits() > 8;
  return matrix_unit(is_own ? Generation::hopper : Generation::hopper_mma, factor_format(o.a));
}

/// All that a Hopper device has, with sums in fp32.
inline constexpr std::array<Operation, 16> operations{{
    {Instruction::mma, bf16, bf16, 16},
    {Instruction::mma, fp16, fp16, 16},
    {Instruction::mma, tf32, tf32, 8},
    {Instruction::mma, fp32, fp32, 8},
    {Instruction::mma, e4m3, e4m3, 32},
    {Instruction::mma, e4m3, e5m2, 32},
    {Instruction::mma, e5m2, e4m3, 32},
    {Instruction::mma, e5m2, e5m2, 32},
    {Instruction::wgmma, bf16, bf16, 16},
    {Instruction::wgmma, fp16, fp16, 16},
    {Instruction::wgmma, tf32, tf32, 8},
    {Instruction::wgmma, fp32, fp32, 8},
    {Instruction::wgmma, e4m3, e4m3, 32},
    {Instruction::wgmma, e4m3, e5m2, 32},
    {Instruction::wgmma, e5m2, e4m3, 32},
    {Instruction::wgmma, e5m2, e5m2, 32},
}};

/// The first sum whose bits the emulation does not have.
struct Difference {
  std::uint64_t tile = 0;
  int row = 0, column = 0;
  float got = 0, expected = 0;
};

/// What was found of each kind of tile: factors times accumulators.
struct Compared {
  std::uint64_t sums = 0;
  std::array<std::uint64_t, std::size_t{unit_inputs::kinds} * unit_inputs::kinds> differing{};
  std::array<Difference, std::size_t{unit_inputs::kinds} * unit_inputs::kinds> first{};

  std::uint64_t all_differing() const {
    std::uint64_t all = 0;
    for (const std::uint64_t n : differing) all += n;
    return all;
  }
};

/// Tiles 0, 1, ... on the current device, which is a Hopper. Every bit counts but NaN's. `unit`:
/// what the device is compared with. Throws ProviderFailure where CUDA does not run it.
Compared compare(const Operation& o, const MatrixUnit& unit, std::uint64_t tiles);

}  // namespace opbound::unit_products
