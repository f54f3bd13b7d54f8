// Made by tools/python/fit_elementary.py (which says how); not edited.
#pragma once

#include <cstdint>

#include "ops/elementary/arithmetic.hpp"

namespace opbound::detail {

/// ln 2 = high + low, where high has 42 bits: k high is exact for |k| < 2^11.
inline constexpr DoubleWord ln2_split{0x1.62e42fefa3800p-1, 0x1.ef35793c76730p-45};

/// 1/3.
inline constexpr DoubleWord one_third{0x1.5555555555555p-2, 0x1.5555555555555p-56};

/// 2/pi.
inline constexpr double two_over_pi = 0x1.45f306dc9c883p-1;

/// pi/2.
inline constexpr TripleWord half_pi{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                                    -0x1.f1976b7ed8fbcp-110};

/// g(0) = 6 e^9 erfc(3).
inline constexpr DoubleWord erfc_factor_at_zero{0x1.12f21ddd9f5e2p+0, -0x1.962bf736a7417p-54};

/// (e^r - 1 - r - r^2 / 2) / r^3 for r in [-0.34657, 0.34657];
/// |r^3 error / (e^r - 1)| <= 2^-61.5; roundings: 0.14 u.
OPBOUND_HD inline double exp_tail(double r) {
  return horner(r, 0x1.5555555555559p-3, 0x1.555555555554cp-5, 0x1.111111110f65bp-7,
                0x1.6c16c16c1b325p-10, 0x1.a01a01afff406p-13, 0x1.a01a018b42992p-16,
                0x1.71ddf81dc16b9p-19, 0x1.27e5198d2f14fp-22, 0x1.af5f0deddf70ap-26,
                0x1.1f1017eaf15dcp-29);
}

/// (e^r - 1 - r - r^2 / 2) / r^3 for r in [-0.34657, 0.34657];
/// |r^3 error / (e^r - 1)| <= 2^-54.9; roundings: 0.14 u.
OPBOUND_HD inline double exp_tail_float(double r) {
  return horner(r, 0x1.555555555552ap-3, 0x1.5555555553a32p-5, 0x1.111111111e1b1p-7,
                0x1.6c16c17a40babp-10, 0x1.a01a0154024fep-13, 0x1.a019b2d707834p-16,
                0x1.71dedb4bb4f3bp-19, 0x1.289821fa61e80p-22, 0x1.addbd73ed6f98p-26);
}

/// (2 atanh(s) / s - 2) / s^2 where z = s^2, for z in [0.0, 0.029437];
/// z |error| <= 2^-58.4; roundings: 0.51 u.
OPBOUND_HD inline double log_tail(double z) {
  return horner(z, 0x1.5555555555594p-1, 0x1.999999997f73fp-2, 0x1.249249423ac79p-2,
                0x1.c71c51d6d7e74p-3, 0x1.746647f14b271p-3, 0x1.39a0eaea4d145p-3,
                0x1.2f0ccd1a29242p-3);
}

/// (2 atanh(s) / s - 2 - 2 s^2 / 3) / s^4 where z = s^2, for z in [0.0, 0.029437];
/// z^2 |error| <= 2^-75.5; roundings: 0.26 u.
OPBOUND_HD inline double log_tail_long(double z) {
  return horner(z, 0x1.999999999999ap-2, 0x1.2492492492387p-2, 0x1.c71c71c73f7f7p-3,
                0x1.745d173212c9ap-3, 0x1.3b13b7e341cefp-3, 0x1.110fa9da08a39p-3,
                0x1.e240dcfbf9c5dp-4, 0x1.a793dd4d8915fp-4, 0x1.d9d5df998f260p-4);
}

/// (sin(r) - r) / r^3 where z = r^2, for z in [0.0, 0.61685];
/// z |error| <= 2^-57.8; roundings: 0.13 u.
OPBOUND_HD inline double sin_tail(double z) {
  return horner(z, -0x1.5555555555548p-3, 0x1.111111110f77ep-7, -0x1.a01a019bf8228p-13,
                0x1.71de35650a32ap-19, -0x1.ae5e597db57b9p-26, 0x1.5d8fb827e34aap-33);
}

/// (cos(r) - 1 + r^2 / 2) / r^4 where z = r^2, for z in [0.0, 0.61685];
/// z^2 |error| <= 2^-64.0; roundings: 0.04 u.
OPBOUND_HD inline double cos_tail(double z) {
  return horner(z, 0x1.555555555554bp-5, -0x1.6c16c16c1504cp-10, 0x1.a01a019c97a13p-16,
                -0x1.27e4f7f911e6ap-22, 0x1.1ee9e17e6b4cap-29, -0x1.8fa9a7413e4bap-37);
}

/// erf(x) / x - 1 where z = x^2, for z in [0.0, 0.5625];
/// |error| <= 2^-56.1; roundings: 0.20 u.
OPBOUND_HD inline double erf_tail(double z) {
  return horner(z, 0x1.06eba8214db69p-3, -0x1.812746b037a0ap-2, 0x1.ce2f21a044560p-4,
                -0x1.b82ce313109ddp-6, 0x1.565bcd278a47ep-8, -0x1.c02db9ab34720p-11,
                0x1.f9a3f8d5c1580p-14, -0x1.f4e63580589cfp-17, 0x1.bb1ed7d2cef83p-20,
                -0x1.6b630fda0d4e0p-23, 0x1.3f8479a3974bep-26, -0x1.3474bd25967fbp-29);
}

/// g(t) = exp(x^2) erfc(x) (x + 3), t = (x - 3) / (x + 3), for t in [-0.6, 0.54198];
/// that is x in [0.75, 10.1]; |error| / g <= 2^-53.4; roundings: 1.86 u.
OPBOUND_HD inline double erfc_factor_float(double t) {
  return horner(t, 0x1.12f21ddd9f5e2p+0, -0x1.c44c471baa377p-1, 0x1.2e326945de223p-1,
                -0x1.3deb21415dbf1p-2, 0x1.e995f11b27020p-4, -0x1.b78993d6c694fp-6,
                -0x1.3dd3e775d5860p-10, 0x1.8dae3a297ce60p-9, -0x1.1f78d64415f6ap-11,
                -0x1.2238f9f69fb72p-12, 0x1.c322636e72284p-14, 0x1.fdfb4723a1bbap-16,
                -0x1.24e25b693dd07p-16, -0x1.3e4028d961316p-18, 0x1.6dda869f343d5p-19,
                0x1.04c8034e60b86p-20, -0x1.703433ff4ddd6p-22, -0x1.7c9b6f1caf90ap-23);
}

/// (g(t) - g(0)) / t with g of erfc_factor_float, for t in [-0.6, 0.80198];
/// that is x in [0.75, 27.3]; |t error| / g <= 2^-58.7; roundings: 1.42 u.
OPBOUND_HD inline double erfc_factor_tail(double t) {
  return horner(t, -0x1.c44c471baa376p-1, 0x1.2e326945de2b9p-1, -0x1.3deb21415dc9fp-2,
                0x1.e995f11b16ac8p-4, -0x1.b78993d6b89a1p-6, -0x1.3dd3e70dbde2ep-10,
                0x1.8dae3a2bc0890p-9, -0x1.1f78e1923346ap-11, -0x1.2238ff941bce4p-12,
                0x1.c3254bbf96770p-14, 0x1.fe002db883c65p-16, -0x1.251cbe68b2f20p-16,
                -0x1.3ec5adac41731p-18, 0x1.735d98f9bf9e5p-19, 0x1.0c893226f1086p-20,
                -0x1.baad0c883ef15p-22, -0x1.f66744ebe3ff3p-23, 0x1.c52444fc595bbp-25,
                0x1.9c534537d3e3ap-25, -0x1.8f9d6381ef2a2p-28, -0x1.586ed8e0ba821p-28);
}

/// Digit i of 2/pi = sum of digit(i) 2^(-64 i), digit(0) = 0; i in [0, 19].
OPBOUND_HD inline std::uint64_t two_over_pi_digit(int i) {
  constexpr std::uint64_t digits[] = {
      0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
      0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
      0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
      0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
      0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
  return digits[i];
}
}  // namespace opbound::detail
