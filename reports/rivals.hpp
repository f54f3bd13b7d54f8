// The rules by which others test such kernels today, each applied to one output of a kernel beside
// what is right. Every figure is somebody's, from a file that is named with its commit: `sources`
// of each rule, and the comment above each table of figures.
//
// A rule gets the best reference that there is: the exact value rounded once to the output's own
// format where its authors compare tensors of one format, the exact value itself where they compare
// with a wider one. What the rule does not speak of (another operator, format or output) is told as
// such: it neither accepts nor refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.hpp"
#include "ops/precision.hpp"

namespace opbound {

/// What a kernel was asked to compute: its inputs are the tensors of the judged pass.
struct RivalCase {
  const Op* op = nullptr;
  const Call* call = nullptr;
  Precision precision;

  /// A tensor of the judged pass by name; one that the case does not have is empty.
  TensorView tensor(std::string_view name) const;
  /// An attribute of the op; the op has it.
  AttributeValue attribute(std::string_view name) const;
  bool is_forward() const { return call->direction == Direction::forward; }
};

/// One of its outputs, row-major.
struct RivalOutput {
  std::string_view tensor;
  Element element = Element::fp32;
  std::int64_t columns = 1;      ///< of the last axis
  std::vector<double> got;       ///< the stored values
  std::vector<double> exact;     ///< the exact values rounded to double
  std::vector<double> expected;  ///< the exact values rounded once to the output's format
};

/// What a rule says of an output.
struct RivalAnswer {
  std::string_view why_not{};  ///< it says nothing of such an output; empty: it does
  bool accepts = true;
  std::uint64_t flagged = 0;  ///< elements it refuses; all of them where it judges a whole tensor

  bool applies() const { return why_not.empty(); }
};

struct Rival {
  std::string_view name;     ///< in records and tables: "assert_close"
  std::string_view what;     ///< the rule in a line
  std::string_view sources;  ///< repository, file and commit of its figures
  RivalAnswer (*judge)(const RivalCase&, const RivalOutput&);
};

/// All of them, in the order of the table's columns.
std::span<const Rival> rivals();

namespace detail {

/// Figures of a rule |got - right| <= atol + rtol |right|, or of its relatives.
struct Tolerance {
  double rtol, atol;
};

RivalAnswer not_for(std::string_view why);

// One function for each rule, with what it does and where that is from, in rivals_<name>.cpp.

RivalAnswer by_assert_close(const RivalCase&, const RivalOutput&);
RivalAnswer by_transformer_engine(const RivalCase&, const RivalOutput&);
RivalAnswer by_apex(const RivalCase&, const RivalOutput&);
RivalAnswer by_liger(const RivalCase&, const RivalOutput&);
RivalAnswer by_flash_attention(const RivalCase&, const RivalOutput&);
RivalAnswer by_hipdnn(const RivalCase&, const RivalOutput&);
RivalAnswer by_cosine(const RivalCase&, const RivalOutput&);
RivalAnswer by_divergence(const RivalCase&, const RivalOutput&);

/// torch.testing.assert_close on floating-point tensors: close where equal, or where the difference
/// is finite and at most atol + rtol |right|. NaN is close to NaN, as with equal_nan=True: without
/// it no kernel passes where NaN is right.
RivalAnswer close_as_torch(const std::vector<double>& got, const std::vector<double>& right,
                           const Tolerance& t);
/// assert_close's default figures for a format; nothing for one that it has no figures for, which
/// is then compared for equality.
std::optional<Tolerance> torch_default(Element element);

/// What PyTorch computes of the same attention in 16 bits, as flash-attention's tests have it:
/// output `tensor` (o, dq, dk or dv), row-major.
std::vector<double> attention_in_16_bits(const RivalCase& c, std::string_view tensor);

}  // namespace detail
}  // namespace opbound
