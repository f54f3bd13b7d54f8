// Publicly reported errors, made again: the faulty kernel, to be found by the bound of the right
// one, and the values that the report says are right. cases.toml says what was reported.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/attribute.hpp"
#include "ops/op.hpp"

namespace opbound {

/// How one input is filled: by a generator, or with these values, again and again.
struct CaseInput {
  std::string_view tensor;
  std::string_view generator{};
  std::vector<double> values{};
};

/// The first values of an output as they were published, in decimals: half a unit of the last digit
/// is what they are known to. "=x": exactly x. "": not known.
struct PublishedValues {
  std::string_view tensor;
  std::vector<std::string_view> values;
};

struct PublicCase {
  std::string_view id;    ///< in cases.toml
  std::string_view what;  ///< the line that is wrong, or what the values are of
  std::string_view op;
  Direction direction = Direction::forward;
  std::string_view precision = "fp32";
  std::vector<std::int64_t> shape;
  std::vector<CaseInput> inputs{};
  std::vector<std::pair<std::string_view, AttributeValue>> attributes{};
  std::vector<PublishedValues> published{};
  std::function<void(const Op&, const Call&)> run{};  ///< the faulty kernel, where there is one
  std::string_view variant{};                         ///< the default one if empty
};

/// All of them; the list of files is generated.
std::vector<PublicCase> public_cases();

namespace cases {

/// The tensors of the judged pass, by name.
class Judged {
 public:
  Judged(const Op& op, const Call& call)
      : tensors_(op.pass(call.direction).tensors), views_(call.judged()) {}

  const TensorView& operator()(std::string_view name) const {
    std::size_t t = 0;
    while (tensors_[t].name != name) ++t;
    return views_[t];
  }
  float get(std::string_view name, std::int64_t i) const {
    return static_cast<float>((*this)(name).at(i));
  }
  /// Of integers and booleans.
  std::int64_t index(std::string_view name, std::int64_t i) const {
    return load_index((*this)(name).element, (*this)(name).data, i);
  }
  /// Rounded to nearest, as the tensor is stored.
  void put(std::string_view name, std::int64_t i, double value) const {
    const TensorView& v = (*this)(name);
    v.set(i, round_to(format_of(v.element), value));
  }

 private:
  std::span<const TensorSpec> tensors_;
  std::span<const TensorView> views_;
};

using FaultyKernel = std::function<void(const Op&, const Call&)>;

/// output[i] = f(inputs[i]...) in fp32.
template <class F>
FaultyKernel elementwise(std::string_view output, const std::vector<std::string_view>& inputs,
                         F f) {
  return [=](const Op& op, const Call& call) {
    const Judged t(op, call);
    for (std::int64_t i = 0; i < t(output).count(); ++i) {
      if constexpr (requires { f(0.0F); }) {
        t.put(output, i, f(t.get(inputs[0], i)));
      } else if constexpr (requires { f(0.0F, 0.0F); }) {
        t.put(output, i, f(t.get(inputs[0], i), t.get(inputs[1], i)));
      } else {
        t.put(output, i, f(t.get(inputs[0], i), t.get(inputs[1], i), t.get(inputs[2], i)));
      }
    }
  };
}

/// The right kernel on a call that is not the one asked for.
template <class F>
FaultyKernel with_call(F change) {
  return [change](const Op& op, const Call& call) {
    Call other = call;
    change(op, other);
    op.run(other);
  };
}

/// The right kernel by another algorithm than is declared.
inline FaultyKernel by_variant(std::string_view variant) {
  return with_call([variant](const Op& op, Call& c) { c.variant = op.variant_named(variant); });
}

/// The right kernel with another attribute than is declared.
inline FaultyKernel with_attribute(std::string_view attribute, const AttributeValue& value) {
  return with_call([=](const Op& op, Call& c) {
    for (const AttributeSpec& a : op.attributes)
      if (a.name == attribute) a.set(c.attributes, value);
  });
}

inline float in_bf16(float x) { return static_cast<float>(round_to(bf16, x)); }
inline float in_fp16(float x) { return static_cast<float>(round_to(fp16, x)); }

}  // namespace cases
}  // namespace opbound
