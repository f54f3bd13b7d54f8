// The processor's floating-point mode, which a plug-in has to leave as it is.
#pragma once

#include <cfenv>
#include <cstdint>
#include <string>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace opbound::detail {

/// Of the calling thread; without the flags that operations raise.
struct ProcessorMode {
  std::uint32_t sse = 0;  ///< MXCSR
  std::uint16_t x87 = 0;  ///< control word
  int rounding = 0;       ///< as <cfenv> has it

  bool operator==(const ProcessorMode&) const = default;

#if defined(__x86_64__)
  static constexpr std::uint32_t flags = 0x3f, denormals_are_zero = 0x40, traps = 0x1f80,
                                 rounds = 0x6000, flush_to_zero = 0x8000;

  static ProcessorMode now() {
    ProcessorMode mode{_mm_getcsr() & ~flags, 0, std::fegetround()};
    asm volatile("fnstcw %0" : "=m"(mode.x87));
    return mode;
  }
  void restore() const {
    _mm_setcsr(sse);
    asm volatile("fldcw %0" : : "m"(x87));
  }
#else
  static ProcessorMode now() { return {0, 0, std::fegetround()}; }
  void restore() const { std::fesetround(rounding); }
#endif

  /// In words, what is otherwise in `later`; empty if nothing is.
  std::string changes(const ProcessorMode& later) const {
    std::string text;
    [[maybe_unused]] const auto say = [&](bool changed, const char* what) {
      if (changed) text.append(text.empty() ? "" : ", ").append(what);
    };
#if defined(__x86_64__)
    const std::uint32_t changed = sse ^ later.sse;
    say((changed & flush_to_zero) != 0, "flush to zero (FTZ)");
    say((changed & denormals_are_zero) != 0, "denormals are zero (DAZ)");
    say((changed & traps) != 0, "floating-point traps");
    say((changed & rounds) != 0 || rounding != later.rounding, "the rounding mode");
    say(x87 != later.x87, "the x87 control word");
#else
    say(rounding != later.rounding, "the rounding mode");
#endif
    return text;
  }
};

}  // namespace opbound::detail
