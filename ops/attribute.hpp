// Attributes of an op without its type: what a suite, a record or a plug-in says, and how it
// reaches the op's own struct.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "ops/describe.hpp"
#include "ops/precision.hpp"

namespace opbound {

/// A flag, a count, a number or a word.
using AttributeValue = std::variant<bool, std::int64_t, double, std::string>;

/// An op's Attributes as bytes; every op's struct is trivially copyable and fits.
struct AttributeBytes {
  alignas(8) std::array<std::byte, 128> bytes{};
};

template <class A>
AttributeBytes to_bytes(const A& attributes) {
  static_assert(std::is_trivially_copyable_v<A> && sizeof(A) <= sizeof(AttributeBytes));
  AttributeBytes b;
  std::memcpy(b.bytes.data(), &attributes, sizeof(A));
  return b;
}

template <class A>
A from_bytes(const AttributeBytes& b) {
  A attributes;
  std::memcpy(&attributes, b.bytes.data(), sizeof(A));
  return attributes;
}

/// How one attribute is set and read by name.
struct AttributeSpec {
  std::string_view name;
  std::string
      expected;  ///< what values it takes, for messages: "true or false", "one of none, tanh"
  bool (*set)(AttributeBytes&, const AttributeValue&);  ///< false: not such a value
  AttributeValue (*get)(const AttributeBytes&);
};

namespace detail {

/// The value as an M, if it is one. A whole number may stand where a real one is wanted.
template <class M>
bool convert(const AttributeValue& value, const std::array<std::string_view, 4>& words, M& to) {
  if constexpr (std::is_enum_v<M>) {
    const auto* word = std::get_if<std::string>(&value);
    for (std::size_t i = 0; word != nullptr && i < words.size() && !words[i].empty(); ++i) {
      if (words[i] != *word) continue;
      to = static_cast<M>(i);
      return true;
    }
    return false;
  } else if constexpr (std::is_same_v<M, Format>) {
    const auto* word = std::get_if<std::string>(&value);
    const auto format = word == nullptr ? std::nullopt : format_named(*word);
    if (format) to = *format;
    return format.has_value();
  } else {
    if constexpr (std::is_same_v<M, double>) {
      if (const auto* whole = std::get_if<std::int64_t>(&value)) {
        to = static_cast<double>(*whole);
        return true;
      }
    }
    const auto* same = std::get_if<M>(&value);
    if (same != nullptr) to = *same;
    return same != nullptr;
  }
}

template <class M>
std::string expected_of(const std::array<std::string_view, 4>& words) {
  if constexpr (std::is_enum_v<M>) {
    std::string text = "one of";
    for (const auto w : words)
      if (!w.empty()) text.append(text.size() > 6 ? ", " : " ").append(w);
    return text;
  }
  return std::is_same_v<M, bool>     ? "true or false"
         : std::is_same_v<M, double> ? "a number"
         : std::is_same_v<M, Format> ? "one of fp64, fp32, tf32, bf16, fp16, e4m3, e5m2"
                                     : "a whole number";
}

template <class Op, std::size_t I>
AttributeSpec attribute_spec() {
  using A = typename Op::Attributes;
  constexpr auto f = std::get<I>(Op::attributes);
  using M = std::remove_cvref_t<decltype(std::declval<A>().*f.member)>;
  const auto set = [](AttributeBytes& bytes, const AttributeValue& value) {
    constexpr auto field = std::get<I>(Op::attributes);
    A a = from_bytes<A>(bytes);
    if (!convert(value, field.words, a.*field.member)) return false;
    bytes = to_bytes(a);
    return true;
  };
  const auto get = [](const AttributeBytes& bytes) -> AttributeValue {
    constexpr auto field = std::get<I>(Op::attributes);
    const M value = from_bytes<A>(bytes).*field.member;
    if constexpr (std::is_enum_v<M>) {
      return std::string(field.words[static_cast<std::size_t>(value)]);
    } else if constexpr (std::is_same_v<M, Format>) {
      return std::string(name_of(value));
    } else {
      return value;
    }
  };
  return {f.name, expected_of<M>(f.words), set, get};
}

}  // namespace detail

/// The attributes of an op, in the order in which it lists them.
template <class Op>
std::vector<AttributeSpec> attribute_specs() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::vector<AttributeSpec>{detail::attribute_spec<Op, I>()...};
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(Op::attributes)>>{});
}

}  // namespace opbound
