// A tape: the calls of ops that make up a model's forward pass, and the backward pass that follows
// from them.
//
// Which gradient goes where is read from the ops' own descriptions: the tensor "dy" of a backward
// pass is the gradient of the forward pass's "y", "x" is what the forward pass read, a saved tensor
// what it wrote. Gradients of a value that several calls read are added by the op `residual`, in
// the reverse order of the calls. Formats and algorithms are the policy's; an input that is stored
// in another format is cast by the op `cast`, whose gradient is cast back.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "distributed/train/policy.hpp"
#include "suites/suite.hpp"

namespace opbound::train {

/// How long something is kept, and by whom.
enum class Life : std::uint8_t {
  temporary,  ///< within a micro-batch; its memory is used again
  input,      ///< tokens, targets, the loss scale: written before each micro-batch
  parameter,
  gradient,  ///< of the parameter with the same place
  result     ///< read after each micro-batch
};

struct Value {
  std::string name;
  Element element = Element::fp32;
  Shape shape;
  Life life = Life::temporary;
  int parameter = -1;  ///< place of the parameter, or of the one whose gradient this is
};

/// A value, or a part of it, with the axes that an op wants. Strides count elements.
struct Ref {
  int value = -1;  ///< -1: there is none
  Shape size;
  Shape stride;
  std::int64_t offset = 0;

  bool exists() const { return value >= 0; }
  std::int64_t count() const;
  bool is_contiguous() const;
  /// The same elements in row-major order; of a contiguous one only.
  Ref reshaped(Shape axes) const;
  /// Axes in another order: axis a of the result is axis order[a].
  Ref permuted(std::initializer_list<int> order) const;
  /// Elements first ... first + count - 1 of an axis.
  Ref part(int axis, std::int64_t first, std::int64_t count) const;
};

/// One call. `spec` says what a suite would: op, direction, precision, variant, sizes.
struct Step {
  CaseSpec spec;
  std::vector<Ref> tensors;  ///< in the order of the pass's tensor list
  std::string part;          ///< "matmul", "head", "mlp:gelu", ...: what the policy's rule is for
  std::string provider;      ///< empty: own
  int layer = -1;
  int site = -1;  ///< place among the calls that draw random numbers; -1: this one draws none
};

class Tape {
 public:
  /// Which of the policy's rules holds for a call.
  struct Place {
    std::string part;
    int layer = -1;
    std::optional<Precision> precision{};  ///< in place of the rule's
  };
  using Extents = std::initializer_list<std::pair<std::string_view, std::int64_t>>;
  using Named = std::initializer_list<std::pair<std::string_view, Ref>>;
  using Attributes = std::initializer_list<std::pair<std::string_view, AttributeValue>>;
  using Outputs = std::map<std::string_view, Ref>;

  /// The policy has to outlive the tape.
  explicit Tape(const Policy& policy) : policy_(&policy) {}

  const Policy& policy() const { return *policy_; }
  const std::vector<Value>& values() const { return values_; }
  const Value& value_of(const Ref& r) const { return values_[static_cast<std::size_t>(r.value)]; }
  const std::vector<Step>& steps() const { return steps_; }

  Ref hold(Value value);

  /// One call of an op in the forward pass: the outputs by name.
  Outputs call(const Place& place, std::string_view op, Extents sizes, Named inputs,
               Attributes attributes = {});
  /// The same elements, contiguous and in this format: by the op `cast`, or as they are.
  Ref stored(const Ref& x, const Format& format, int layer);
  /// x + r, stored in x's format.
  Ref sum(int layer, const Ref& x, const Ref& r);
  /// A contiguous output is written there, to a contiguous part of a value of the same element.
  void keep(const Ref& output, const Ref& there);

  /// What is called between the two is computed again by the backward pass, from its inputs stored
  /// in `stored` where that is narrower.
  void begin_segment(const Format& stored);
  void end_segment();

  /// Appends the backward pass. `upstream`: the gradients of outputs. Gradients of parameters go to
  /// the values of Life::gradient. Calls whose results nobody reads are dropped.
  void differentiate(const std::vector<std::pair<Ref, Ref>>& upstream);

 private:
  struct Segment {
    std::size_t first = 0, last = 0;
    std::map<int, Ref> stored;  ///< by input value: what stands for it
  };
  struct Gradients;  // of a differentiation: tape_backward.cpp

  Ref new_value(std::string name, Element element, Shape shape);
  CaseSpec spec_of(const Place& place, std::string_view op, Extents sizes,
                   Attributes attributes) const;
  Ref operand(const CaseSpec& spec, const TensorSpec& tensor, const Ref& given, int layer);
  Ref cast(const Ref& x, const Ref& y, int layer);
  void store_inputs(Segment& segment);
  void recompute(const Segment& segment, Gradients& gradients);
  void differentiate_step(const Step& step, Gradients& gradients);
  void drop_unread();

  const Policy* policy_;
  std::vector<Value> values_;
  std::vector<Step> steps_;
  std::vector<Segment> segments_;
  Format segment_format_ = fp32;
  std::map<std::pair<int, Kind>, Ref> stored_;  ///< parameters that were cast
  int sites_ = 0;
  bool in_segment_ = false;
};

}  // namespace opbound::train
