// Real constants to 106 bits, for kernels; definitions compute theirs to the precision they work
// in.
#pragma once

namespace opbound {

/// A real number as an unevaluated sum: |high + low - exact| <= 2^-106 |exact|.
struct Real {
  double high;
  double low;
};

inline constexpr Real ln2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr Real log2_e{0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
inline constexpr Real sqrt_half{0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55};
inline constexpr Real sqrt_two_over_pi{0x1.9884533d43651p-1, -0x1.cbc0d30ebfd15p-55};
inline constexpr Real one_over_sqrt_two_pi{0x1.9884533d43651p-2, -0x1.cbc0d30ebfd15p-56};
inline constexpr Real two_over_sqrt_pi{0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56};

/// The cubic coefficient of the tanh form of GELU, the decimal 0.044715 (Hendrycks and Gimpel
/// 2016).
inline constexpr Real gelu_cubic{0x1.6e4e26d4801f7p-5, 0x1.441355475a31ap-59};

}  // namespace opbound
