// The fingerprint of a parameter's gradient: a few numbers that add over parts of it, so that
// shards, ranks and micro-batches can be put together in any way.
//
// The sketch s of a gradient g keeps angles. Elements are taken in rows of 64, in the parameter's
// row-major order; row r has a sign for each of its elements and one rotation, from a hash of
// (parameter's name, r):
//
//   s[(e + rotation(r)) mod 64] += sign(r, e) g[64 r + e]
//
// Elements of one row never meet, those of two rows meet with probability 1/64, and the signs are
// independent, so that for any two gradients a and b (a count sketch: Charikar, Chen and
// Farach-Colton 2002; the variance as Alon, Matias and Szegedy 1999)
//
//   E<s(a), s(b)> = <a, b>,  Var<s(a), s(b)> <= (|a|^2 |b|^2 + <a, b>^2) / 64.
//
// The sketch is linear, so |s(a) - s(b)|^2 estimates |a - b|^2 with a relative standard deviation
// of at most sqrt(2 / 64): angles of 1e-7 are seen as well as right ones.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "ops/tensor.hpp"

namespace opbound::trace {

inline constexpr std::int64_t sketch_width = 64;
/// Elements whose sums are made in one order: by lanes of the sketch, row after row.
inline constexpr std::int64_t block_elements = 256 * sketch_width;

/// Sums over a part of a gradient. What is not finite is counted, and left out of the other sums.
struct GradientSums {
  std::int64_t count = 0, nonfinite = 0;
  double sum = 0;          ///< of elements
  double square = 0;       ///< of their squares
  std::uint64_t hash = 0;  ///< of bits and places: equal for equal bits
  std::array<double, sketch_width> sketch{};

  GradientSums& operator+=(const GradientSums& part);
  bool operator==(const GradientSums&) const = default;

  double norm() const;
  double mean() const;
  /// Of the mean: how far it would be from 0 if signs were drawn.
  double standard_error() const;
};

/// What seeds the sketch of a parameter: the same wherever it is computed.
std::uint64_t sketch_key(std::string_view parameter);

/// Elements [first, first + count) of a parameter, which lie at `data`, contiguous. Blocks of
/// block_elements, counted from the parameter's first element, are summed one after the other, so
/// that parts that are cut at the same places give the same bits.
GradientSums sums_of(std::uint64_t key, std::int64_t first, std::int64_t count, Element element,
                     const void* data);

/// <a, b> / (|a| |b|) of sketches, one after the other; 1 of two that are 0.
double cosine(std::span<const double> a, std::span<const double> b);

/// |a - b| / max(|a|, |b|): of gradients of equal norm sqrt(2 (1 - cosine)); 0 of two that are 0.
/// Infinite where one of them is not finite and they are not the same.
double distance(std::span<const double> a, std::span<const double> b);

}  // namespace opbound::trace
