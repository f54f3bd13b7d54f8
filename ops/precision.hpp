// Storage, compute and output formats: "bf16:fp32:bf16"; one name when all agree.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "ops/format.hpp"

namespace opbound {

struct Precision {
  Format storage = fp32;
  Format compute = fp32;  ///< arithmetic and accumulation
  Format output = fp32;

  constexpr bool operator==(const Precision&) const = default;
};

namespace detail {

/// Formats that kernels compute in.
inline constexpr std::array compute_formats{fp64, fp32, bf16, fp16};

constexpr bool has_kernel(const Format& compute) {
  for (const Format& f : compute_formats)
    if (f == compute) return true;
  return false;
}

}  // namespace detail

/// Is storing a value of format `from` in `to` a further rounding?
OPBOUND_HD constexpr bool store_rounds(const Format& from, const Format& to) {
  return to.digits < from.digits || to.exponent_min - to.digits > from.exponent_min - from.digits ||
         to.exponent_max < from.exponent_max;
}

constexpr std::optional<Format> format_named(std::string_view name) {
  for (const Format& f : all_formats)
    if (name_of(f) == name) return f;
  return std::nullopt;
}

/// "bf16:fp32:bf16" or "fp32"; nothing for anything else.
constexpr std::optional<Precision> precision_named(std::string_view text) {
  const auto first = text.find(':');
  if (first == std::string_view::npos) {
    const auto f = format_named(text);
    return f ? std::optional(Precision{*f, *f, *f}) : std::nullopt;
  }
  const auto second = text.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto storage = format_named(text.substr(0, first));
  const auto compute = format_named(text.substr(first + 1, second - first - 1));
  const auto output = format_named(text.substr(second + 1));
  if (!storage || !compute || !output) return std::nullopt;
  return Precision{*storage, *compute, *output};
}

inline std::string name_of(const Precision& p) {
  if (p.storage == p.compute && p.compute == p.output) return std::string(name_of(p.storage));
  std::string text(name_of(p.storage));
  text.append(":").append(name_of(p.compute));
  text.append(":").append(name_of(p.output));
  return text;
}

}  // namespace opbound
