// The largest singular values of a gradient matrix.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/tensor.hpp"

namespace opbound::trace {

inline constexpr int largest_values = 8;

/// sigma_i^2 / |G|_F^2 of the 8 largest singular values of the matrix [rows, columns], descending;
/// fewer where it has fewer, none of a matrix of zeros or of one that is not finite.
///
/// By subspace iteration from 16 random columns (Halko, Martinsson and Tropp 2011, algorithms 4.4
/// and 5.1 with two iterations), in fp64. Never above the true shares but for rounding; exact but
/// for rounding where rows or columns are at most 16.
std::vector<double> largest_shares(const Tensor& gradient, std::uint64_t seed);

}  // namespace opbound::trace
