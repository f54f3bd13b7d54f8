// A smaller case cut out of a call: a few of its independent blocks, as a call of the same op.
//
// Rows of a softmax have nothing to do with each other, nor have columns of a layer norm's dgamma.
// Which dimension may be cut, and which outputs are right then, is said in a table (families_of);
// what a table does not name is judged whole. tests/test_audit.cpp runs every cut that a model
// gives: the kernel's outputs of the cut have to be the bits of the whole call's.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "suites/suite.hpp"

namespace opbound::trace {

/// Blocks of a pass, one for each place along a dimension, and the outputs that they make.
struct Family {
  std::string_view along;
  std::vector<std::string_view> outputs;
  bool is_elementwise = false;
};

/// The families of a call's pass; none where its blocks cannot be cut: an element's place decides
/// its random number, or all of a tensor makes one number.
std::vector<Family> families_of(const CaseSpec& spec);

/// Places along dimensions, by place of the dimension in the op's list, rising.
using Choice = std::vector<std::pair<int, std::vector<std::int64_t>>>;

/// A call on host memory: inputs that are not cut are those of the whole call, all else is a copy.
struct Cut {
  Cut() = default;
  Cut(const Cut&) = delete;
  Cut& operator=(const Cut&) = delete;
  Cut(Cut&&) = default;
  Cut& operator=(Cut&&) = default;
  ~Cut() = default;

  CaseSpec spec;
  std::vector<Tensor> tensors;  ///< in the order of the pass's list; empty where it is not cut
  Call call;
  std::vector<Shape> whole;  ///< each tensor's shape in the whole call
  Choice choice;
  /// Where the one output element stands for one of another pass: that pass's tensor, and the place
  /// in it.
  int stands_for = -1;
  std::int64_t stands_at = 0;

  /// Where an element of a tensor stands in the whole call's tensor; both row-major.
  std::int64_t place_in_whole(std::size_t tensor, std::int64_t element) const;
};

/// How many blocks a family has in this call.
std::int64_t blocks_of(const CaseSpec& spec, const Family& family);

/// The chosen blocks of a family, rising, as few cuts: attention's rows are one for each head.
/// `call`: of the case, on host memory, with the outputs that it gave.
std::vector<Cut> cuts_of(const CaseSpec& spec, const Call& call, const Family& family,
                         const std::vector<std::int64_t>& blocks);

/// Of all tensors only the chosen places, whatever the op makes of that.
Cut cut_at(const CaseSpec& spec, const Call& call, const Choice& choice);

/// One element of d = a b, of two axes each, as a case of the op matmul in its forward direction:
/// a row of a times a column of b, and the bias of that column where there is one.
Cut product_element(const CaseSpec& spec, const Call& call, const TensorView& a,
                    const TensorView& b, const TensorView& d, const TensorView& bias,
                    std::int64_t element);

/// Blocks so many that the cut means the same as the whole: of a mean over rows, a power of two
/// below all of them. At most `wanted`, unless that cannot be.
std::int64_t allowed_blocks(const CaseSpec& spec, const Family& family, std::int64_t wanted);

/// Place of a dimension, or of a tensor of the pass, by name.
int dim_of(const CaseSpec& spec, std::string_view name);
int tensor_of(const CaseSpec& spec, std::string_view name);

}  // namespace opbound::trace
