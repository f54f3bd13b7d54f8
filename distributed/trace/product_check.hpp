// A matrix product checked against a few random vectors (Freivalds 1979), on the host, in about the
// time that reading its operands takes.
//
// The slack is that of bounds/product.hpp, as on a device (ops/matmul/freivalds.hpp). A row with an
// element that is off by more than it is missed with probability 2^-quick_check_vectors at most.
// What is smaller in each element, such as a store that rounds the wrong way, is not seen: that is
// what single elements are judged for.
#pragma once

#include <cstdint>
#include <vector>

#include "bounds/product.hpp"
#include "ops/op.hpp"

namespace opbound::trace {

/// d = a b + bias, of m rows, n columns and k terms. Views are on the host, of two axes and any
/// strides; of `bias` one axis, or no data where there is none.
struct Product {
  TensorView a, b, d, bias;
  Format compute = fp32;
};

/// The products of a matmul's pass: of the outputs that there are. Empty where the slack is not of
/// this call: scales, alpha, beta, and matrix units, whose sums are cut.
struct NamedProduct {
  std::string_view output;
  Product product;
};
std::vector<NamedProduct> products_of(const Op& op, const Call& call);

/// Rows of d that fail, rising, and how many were judged.
struct ProductRows {
  std::vector<std::int64_t> failing;
  std::int64_t judged = 0;
};
ProductRows check_product(const Product& product, std::uint64_t seed);

}  // namespace opbound::trace
