// An op without its type: what the runner, the judge and the program see.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bounds/any_order.hpp"
#include "ops/attribute.hpp"
#include "ops/describe.hpp"
#include "ops/format.hpp"
#include "ops/tensor.hpp"
#include "reference/exact.hpp"

namespace opbound {

/// backward_local: given the saved tensors. backward_full: end to end from the forward pass's
/// inputs.
enum class Direction : std::uint8_t { forward, backward_local, backward_full };

inline constexpr std::array<std::string_view, 3> direction_names{"forward", "backward_local",
                                                                 "backward_full"};
constexpr std::string_view name_of(Direction d) {
  return direction_names[static_cast<std::size_t>(d)];
}

/// Everything that fixes what a kernel computes: which pass, how, on which tensors.
struct Call {
  Direction direction = Direction::forward;
  AttributeBytes attributes{};
  int variant = 0;
  Sizes sizes{};
  Format compute = fp32;
  /// In the order of the pass's tensor list. Empty where the direction does not run that pass; in
  /// backward_full both share the memory of the saved tensors.
  std::vector<TensorView> forward, backward;

  /// The tensors of the pass whose outputs are judged.
  std::span<const TensorView> judged() const {
    return direction == Direction::forward ? forward : backward;
  }
};

/// What a provider declares of its kernel: the bound holds for any kernel that keeps to it.
struct Contract {
  enum class Order : std::uint8_t { own, any, tree };

  std::vector<int> variants{0};  ///< several: it is one of them, which one is not known
  Order order = Order::own;      ///< own: this project's kernel, bit for bit
  FunctionErrors functions{};    ///< of any other kernel
  SumTree tree{};                ///< for Order::tree
  bool theorems = true;  ///< may an op's theorem replace a running bound that it is sharper than?
};

/// What the bound says of one tensor, row-major: |got - exact| <= radius before the store rounding.
/// Empty for tensors that are not computed.
struct BoundArray {
  std::vector<double> value, radius, spread;
  std::uint64_t by_theorem = 0;  ///< radii that come from a theorem because it is sharper
};
using BoundArrays = std::vector<BoundArray>;

/// What the reference says of one tensor, row-major. The gauge is the last sum with its terms'
/// magnitudes.
struct ReferenceArray {
  std::vector<Exact> exact;
  std::vector<double> gauge;
};
using ReferenceArrays = std::vector<ReferenceArray>;

/// Where the device leaves one tensor's bound, or its reference: device addresses, null for tensors
/// that are not asked for.
struct DeviceBound {
  double* value = nullptr;
  double* radius = nullptr;
  std::uint64_t* by_theorem = nullptr;
};
struct DeviceReference {
  Exact* exact = nullptr;
  double* gauge = nullptr;
};

/// A family of independent blocks of a pass.
struct PartInfo {
  std::vector<int> outputs;  ///< places in the pass's tensor list
  std::int64_t (*blocks)(const Sizes&);
  std::int64_t (*block_of)(const Sizes&, int tensor, std::int64_t element);
  std::int64_t (*longest_sum)(const Sizes&);  ///< terms in the longest reduction
};

struct PassInfo {
  std::span<const TensorSpec> tensors;
  std::vector<PartInfo> parts;
};

/// Blocks of each part that a reference run shall compute; an empty optional means all.
using BlockChoice = std::vector<std::optional<std::vector<std::int64_t>>>;

/// A quick check's vectors: what is wrong enough is missed with probability 2^-vectors.
inline constexpr int quick_check_vectors = 8;

/// Rows that a quick check looked at and found wrong.
struct QuickCheck {
  std::int64_t rows = 0;
  std::int64_t failing = 0;
};

struct Sweep;        // ops/sweep.hpp
struct TallyResult;  // bounds/tally.hpp

struct Op {
  std::string_view name;
  std::string_view math;
  std::span<const std::string_view> dims;
  std::span<const Variant> variants;
  std::vector<AttributeSpec> attributes;
  AttributeBytes default_attributes;
  bool (*allows)(const AttributeBytes&, int variant);
  /// Is there a kernel of this algorithm in this precision?
  bool (*fits)(const Precision&, int variant);
  /// And may one that names no algorithm be it?
  bool (*is_assumed)(const Precision&, int variant);
  /// Does this tensor take part? One that does not is empty.
  bool (*has_tensor)(const AttributeBytes&, std::string_view tensor);
  /// What these sizes would have to be, where they do not fit; else empty.
  std::string_view (*refuses)(const AttributeBytes&, const Sizes&);
  /// The storage formats it is for, where this is none of them; else empty.
  std::string_view (*refuses_storage)(const Format&);
  PassInfo forward;
  std::optional<PassInfo> backward;

  /// Runs the own kernel on the host.
  void (*run)(const Call&);
  /// Its algorithm on the host, every sum of that many terms along the tree. Was there such a sum?
  bool (*run_along)(const Call&, const SumTree&, Products);
  // On the device: the views hold device addresses, the work is started and not waited for. Null in
  // a build without CUDA.
  void (*run_on_device)(const Call&);
  /// Bounds for the own contract, of the tensors asked for.
  void (*bound_on_device)(const Call&, std::span<const DeviceBound>);
  /// The definition in double-double with a running bound.
  void (*reference_on_device)(const Call&, std::span<const DeviceReference>);
  /// Both at once, for large problems: bounds for kernels of every order, references in fp64.
  /// False, and nothing done, where the op has no such way.
  bool (*prove_on_device)(const Call&, std::span<const DeviceBound>,
                          std::span<const DeviceReference>);

  /// Bounds of the judged outputs for any kernel of this variant that keeps the contract.
  BoundArrays (*bound)(const Call&, const Contract&, int variant);
  /// The definition in double-double with a running bound.
  void (*reference_dd)(const Call&, ReferenceArrays&);
  /// The definition in intervals of `bits` bits, for the chosen blocks.
  void (*reference_mpfr)(const Call&, int bits, const BlockChoice&, ReferenceArrays&);
  /// The kernel's algorithm without rounding, at `bits` bits, for the chosen blocks; values only.
  void (*without_rounding)(const Call&, int bits, const BlockChoice&, ReferenceArrays&);

  /// A probabilistic check of a large problem's outputs in about the time that reading them takes;
  /// waits for the result. Nothing where the op has none.
  std::optional<QuickCheck> (*quick_check_on_device)(const Call&, std::uint64_t seed);

  /// Runs [first, last) of elements of a sweep over one output (ops/sweep.hpp); false where that
  /// output is not elementwise. On the device: started, not waited for; null without CUDA.
  bool (*sweep)(const Sweep&, int output, std::int64_t count, std::int64_t first, std::int64_t last,
                const TallyResult&);
  bool (*sweep_on_device)(const Sweep&, int output, std::int64_t count, std::int64_t first,
                          std::int64_t last, const TallyResult&);

  const PassInfo& pass(Direction d) const {
    return d == Direction::forward ? forward : backward.value();
  }
  /// The first variant that these attributes allow.
  int default_variant(const AttributeBytes& a) const;
  /// Place in a list, or -1.
  int variant_named(std::string_view variant) const;
};

/// Every op that has a header and a suite; the list is generated.
std::span<const Op> all_ops();

/// The op with this name, or null.
const Op* find_op(std::string_view name);

}  // namespace opbound
