// The sum of a step's gradients, checked against its terms by random signs: for each parameter, the
// mean times a vector of signs is the mean of the micro-batches' gradients times that vector.
//
// With M terms g_m of a parameter of n elements, v of signs +-1, and a mean that was summed in any
// order, each partial sum rounded to the compute format and to what it is kept in, cast at most
// twice and divided once:
//
//   |mean . v - (1/M) sum_m g_m . v| <= (growth - 1) S + n (2 M + 2) eta growth
//
// growth = (1 + u_c)^(M + 1) (1 + u_s)^(M + 3), S = (1/M) sum_m sum_i |g_mi|, u_c of the compute
// format, u_s and eta of the coarser of the gradient's and the wire's: a path from a term to the
// mean has at most M - 1 additions of two roundings, two casts of one, and a division of two, one
// more where it is a product with 1/M (Higham 2002, 3.1 and 4.2). fp64's own errors are added. A
// parameter with an element that is off by more than this bound is missed with probability
// 2^-vectors: the argument of bounds/product.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bounds/product.hpp"
#include "distributed/collectives.hpp"
#include "distributed/trace/finding.hpp"
#include "distributed/train/layout.hpp"
#include "distributed/train/policy.hpp"
#include "ops/op.hpp"

namespace opbound::trace {

/// Of one parameter, or a part of it: its products with the vectors, then sum |g_i|.
using SignSums = std::array<double, quick_check_vectors + 1>;

/// Adds to each parameter's sums what lies in [part.begin, part.end) of the flat array, of which
/// `flat` holds that part in this format.
void add_sign_sums(const train::Layout& layout, const train::Range& part, const std::byte* flat,
                   Element element, std::uint64_t seed, std::vector<SignSums>& sums);

/// How the mean of `terms` micro-batches may err, relative to S, and each element absolutely.
struct MeanBound {
  double relative, absolute, largest;  ///< largest: finite terms below it cannot overflow
  MeanBound(const train::Policy& policy, std::int64_t terms);
};

/// One parameter: does its mean fit the sum of its terms? `why` says what does not.
struct MeanFit {
  bool fits = true;
  std::size_t vector = 0;
  double got = 0, expected = 0, bound = 0;
};
MeanFit fit_of(const SignSums& mean, const SignSums& sum_of_terms, double elements,
               std::int64_t terms, const MeanBound& bound);

/// Doubles of all ranks, one rank's after another.
std::vector<double> gathered(Collectives& ranks, const std::vector<double>& own);

/// A text of each rank, in their order.
std::vector<std::string> gathered_texts(Collectives& ranks, const std::string& own);

}  // namespace opbound::trace
