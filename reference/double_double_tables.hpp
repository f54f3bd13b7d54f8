// Written by tools/python/fit_double_double.py: constants, tables and series.
//
// A table is a static array inside a function, since that is what device code can index. A
// polynomial's leading coefficients are pairs high, low; the others are one double each.
#pragma once

#include "ops/portable.hpp"

namespace opbound::double_double {

// clang-format off
/// ln 2 / 64; 36 digits in the first.
inline constexpr double ln2_over_64_first = 0x1.62e42fefap-7;
inline constexpr double ln2_over_64_second = 0x1.cf79abc9e3b3ap-46;
inline constexpr double ln2_over_64_third = -0x1.ff0342542fc33p-100;

/// pi / 2; 32 digits in the first.
inline constexpr double half_pi_first = 0x1.921fb544p+0;
inline constexpr double half_pi_second = 0x1.0b4611a626331p-34;
inline constexpr double half_pi_third = 0x1.1701b839a252p-88;

/// ln 2.
inline constexpr double ln2_pair_first = 0x1.62e42fefa39efp-1;
inline constexpr double ln2_pair_second = 0x1.abc9e3b39803fp-56;

/// pi.
inline constexpr double pi_pair_first = 0x1.921fb54442d18p+1;
inline constexpr double pi_pair_second = 0x1.1a62633145c07p-53;

/// 64 / ln 2 and 2 / pi, for the choice of a multiple only.
inline constexpr double sixty_four_over_ln2 = 0x1.71547652b82fep+6;
inline constexpr double two_over_pi = 0x1.45f306dc9c883p-1;

/// 2^((i - 32) / 64) - 1, i in [0, 64).
// NOLINTNEXTLINE(readability-function-size): long, and nothing but numbers
OPBOUND_HD inline const double* power_minus_one(int i) {
  static constexpr double table[128] = {
    -0x1.2bec333018867p-2, 0x1.08b2fb1366ea9p-57, -0x1.2409b8735cba2p-2, -0x1.bbe3a683c88abp-58,
    -0x1.1c1142e274118p-2, -0x1.16e4786887a99p-56, -0x1.14029537b306fp-2, 0x1.fb74d519d2459p-56,
    -0x1.0bdd71829fcf2p-2, -0x1.41577ee04992fp-56, -0x1.03a199261633cp-2, 0x1.05d02ba15797ep-57,
    -0x1.f69d99accc7b6p-3, 0x1.59f115f56694p-58, -0x1.e5c9992edb44ep-3, 0x1.c83b21584a2e1p-62,
    -0x1.d4c6af7557c93p-3, 0x1.ba7c55a192c9cp-57, -0x1.c39459baa2327p-3, -0x1.467d8ba38d128p-57,
    -0x1.b23213cc8e86cp-3, -0x1.75fc781b57ebcp-58, -0x1.a09f58086c6c2p-3, 0x1.73d241f23d17bp-58,
    -0x1.8edb9f5703dcp-3, 0x1.c7c46b071f2bep-57, -0x1.7ce6612886a6dp-3, -0x1.aca4ae8e6a997p-58,
    -0x1.6abf137076a8ep-3, 0x1.684892395f0f8p-58, -0x1.58652aa180903p-3, 0x1.f5921deffa626p-60,
    -0x1.45d819a94b14bp-3, 0x1.e8734d1773206p-57, -0x1.331751ec3a814p-3, -0x1.2805e3084d708p-58,
    -0x1.20224341286e4p-3, -0x1.5584f7e54ac3bp-57, -0x1.0cf85bed0f8b7p-3, -0x1.b845f0ba4c2f7p-57,
    -0x1.f332113d56b1fp-4, 0x1.1065895048dd3p-60, -0x1.cc0768d4175a6p-4, 0x1.4426ffa41e566p-58,
    -0x1.a46f918837cb7p-4, -0x1.5f8685c2d6c49p-58, -0x1.7c695afc3b424p-4, 0x1.a1e45e4342b1cp-58,
    -0x1.53f391822dbc7p-4, 0x1.76816bad9b837p-59, -0x1.2b0cfe1266bd4p-4, -0x1.ee7fcb492566dp-58,
    -0x1.01b466423250ap-4, -0x1.a5cd4f184b5b9p-59, -0x1.afd11874c009ep-5, 0x1.cf44c054e647ap-59,
    -0x1.5b505d5b6f268p-5, 0x1.63dce863d76ccp-59, -0x1.05e4119ea5d89p-5, 0x1.c7f486a4b6b08p-59,
    -0x1.5f134923757f3p-6, -0x1.60f6913af3a8ap-62, -0x1.60f9f985bc9f4p-7, -0x1.6f5818b4d9c3ep-61,
    0x0p+0, 0x0p+0, 0x1.64d1f3bc03077p-7, 0x1.bdf2b293de8a7p-62, 0x1.66c34c5615d0fp-6,
    -0x1.183ab7149735cp-60, 0x1.0e8a30eb37901p-5, 0x1.86be4bb284ff4p-61, 0x1.6ab0d9f3121ecp-5,
    0x1.4c5c95b8c2155p-59, 0x1.c7d865a7a344p-5, 0x1.03a1727c57b53p-59, 0x1.1301d0125b50ap-4,
    0x1.3aefc6bb64c63p-58, 0x1.429aaea92ddfbp-4, 0x1.a080ca1d92c37p-59, 0x1.72b83c7d517aep-4,
    -0x1.9041b9d78a75bp-59, 0x1.a35beb6fcb754p-4, -0x1.a4b384b6971bep-59, 0x1.d4873168b9aa8p-4,
    -0x1.fe91ff5d9bc3ep-58, 0x1.031dc431466b2p-3, -0x1.1c453f5abdb59p-58, 0x1.1c3d373ab11c3p-3,
    0x1.b07eb6c70572dp-58, 0x1.35a2b2f13e6e9p-3, 0x1.5e99cca074ec9p-58, 0x1.4f4efa8fef709p-3,
    0x1.84ba2beb44954p-57, 0x1.6942d3720185ap-3, 0x1.23aa6da0ea709p-65, 0x1.837f0518db8a9p-3,
    0x1.bd1ab48c60b91p-57, 0x1.9e0459320b7fap-3, 0x1.9390c21b2cd2dp-57, 0x1.b8d39b9d54e55p-3,
    0x1.c51540bd151e6p-58, 0x1.d3ed9a72cffb7p-3, 0x1.43792533c143ap-57, 0x1.ef5326091a112p-3,
    -0x1.497dbb83d8512p-57, 0x1.0582887dcb8a8p-2, -0x1.ef3691c309278p-58, 0x1.13821818624b4p-2,
    0x1.89b7a04ef80dp-59, 0x1.21a8ad704f34p-2, 0x1.3c1a3b69062fp-56, 0x1.2ff6b54d8a89cp-2,
    0x1.d4397afec42e2p-56, 0x1.3e6c9da74b29bp-2, -0x1.2cc2749655f8cp-56, 0x1.4d0ad5a753e07p-2,
    0x1.f0a83c49d86a6p-56, 0x1.5bd1cdad49f6ap-2, -0x1.9134ffb89b14cp-56, 0x1.6ac1f752150a5p-2,
    0x1.8c93015191eb3p-56, 0x1.79dbc56b48522p-2, -0x1.1641b3dfc668ap-56, 0x1.891fac0e95613p-2,
    -0x1.c1e0bf205a4b8p-57, 0x1.988e209548892p-2, 0x1.127d9e29b8f31p-56,
  };
  return table + 2 * i;
}

/// i in [0, 47): r = 64 / (i + 45) rounded to 10 bits, then -log r as a pair.
// NOLINTNEXTLINE(readability-function-size): long, and nothing but numbers
OPBOUND_HD inline const double* reciprocal_and_log(int i) {
  static constexpr double table[141] = {
    0x1.6cp+0, -0x1.686c81e9b14afp-2, 0x1.ddea0f7f58e3dp-57, 0x1.64p+0, -0x1.51aad872df82dp-2,
    -0x1.3927ac19f55e3p-59, 0x1.5c8p+0, -0x1.3bdd24eb14b6ap-2, -0x1.2da3c6449a7dp-58, 0x1.558p+0,
    -0x1.27161913f853dp-2, -0x1.e3ec2ac9676b8p-57, 0x1.4e8p+0, -0x1.11e0e2dad9cb7p-2,
    -0x1.dc0cc6917022bp-63, 0x1.478p+0, -0x1.f871b28955045p-3, -0x1.4ad6c8812d31ap-63, 0x1.418p+0,
    -0x1.d293581b6b3e7p-3, 0x1.c04a2aa97ac8ep-58, 0x1.3bp+0, -0x1.a8becfc882f19p-3,
    0x1.e8c37918c39ebp-58, 0x1.35p+0, -0x1.815c0a14357ebp-3, 0x1.4be48073a0564p-58, 0x1.2f8p+0,
    -0x1.5c940075972b9p-3, -0x1.adccb73379cc5p-58, 0x1.2ap+0, -0x1.371fc201e8f74p-3,
    -0x1.de6cb62af18ap-58, 0x1.248p+0, -0x1.10f8e422539b1p-3, -0x1.8f798d39f1b7dp-58, 0x1.1f8p+0,
    -0x1.db5270187d927p-4, -0x1.e15ab8607d2acp-58, 0x1.1a8p+0, -0x1.9375e55595edep-4,
    0x1.e463f9e4dd92p-59, 0x1.158p+0, -0x1.4a50d3aa1b04p-4, -0x1.ecf768c1dd57bp-61, 0x1.11p+0,
    -0x1.075983598e471p-4, -0x1.80da5333c45b8p-59, 0x1.0c8p+0, -0x1.868a83083f6cfp-5,
    0x1.d09a5634943dbp-61, 0x1.088p+0, -0x1.0b94f7c196176p-5, -0x1.da43f761f4dc4p-59, 0x1.04p+0,
    -0x1.fc0a8b0fc03e4p-7, 0x1.83092c59642a1p-62, 0x1p+0, 0x0p+0, 0x0p+0, 0x1.f8p-1,
    0x1.0205658935847p-6, 0x1.27c8e8416e71fp-60, 0x1.f08p-1, 0x1.f7a9b16782856p-6,
    -0x1.36c720c147756p-60, 0x1.e9p-1, 0x1.788595a3577bap-5, 0x1.e5ef898b67923p-59, 0x1.e2p-1,
    0x1.eea31c006b87cp-5, -0x1.3e4fc93b7b66cp-59, 0x1.dbp-1, 0x1.333d7f8183f4bp-4,
    0x1.a92afc8ef70b1p-58, 0x1.d4p-1, 0x1.700d30aeac0e1p-4, -0x1.72566212cdd05p-61, 0x1.cd8p-1,
    0x1.a956d3ecade63p-4, 0x1.e5300b12bd55ep-58, 0x1.c7p-1, 0x1.e3707ee30487bp-4,
    0x1.09ccecd579d99p-58, 0x1.c1p-1, 0x1.0ce7ecdccc28dp-3, -0x1.692a0055dc959p-57, 0x1.bbp-1,
    0x1.28753bc11aba5p-3, -0x1.6394d9fa33311p-57, 0x1.b5p-1, 0x1.4462b9dc9b3dcp-3,
    -0x1.629c46c186385p-58, 0x1.afp-1, 0x1.60b3100b09476p-3, -0x1.5b2623e05016bp-58, 0x1.a98p-1,
    0x1.7b0091651528cp-3, 0x1.4069f303518c8p-57, 0x1.a4p-1, 0x1.95a5adcf7017fp-3,
    0x1.142c507fb7a3dp-58, 0x1.9fp-1, 0x1.ae2ca6f672bd4p-3, 0x1.ab5ca9eaa088ap-57, 0x1.998p-1,
    0x1.c97f8079d44ecp-3, 0x1.61a8c6e6c4ee7p-57, 0x1.948p-1, 0x1.e2a877a6b2c12p-3,
    -0x1.fa21e3df9943p-58, 0x1.8f8p-1, 0x1.fc218be620a5ep-3, -0x1.6e438c258187fp-58, 0x1.8bp-1,
    0x1.09aa572e6c6d4p-2, 0x1.43c2e68684d53p-57, 0x1.86p-1, 0x1.16b5ccbacfb73p-2,
    0x1.66fbd28b40935p-56, 0x1.818p-1, 0x1.22981fbef797bp-2, -0x1.0b04ac06cebep-59, 0x1.7dp-1,
    0x1.2e9e2bce12286p-2, 0x1.8251a3b83d97ap-62, 0x1.788p-1, 0x1.3ac8ca38e5c5fp-2,
    -0x1.f7de015f253eep-56, 0x1.748p-1, 0x1.45b8c0a17df13p-2, 0x1.dbe305eaf5a2p-56, 0x1.7p-1,
    0x1.522ae0738a3d8p-2, -0x1.8f7e9b38a6979p-57, 0x1.6cp-1, 0x1.5d5bddf595f3p-2,
    -0x1.6541148cbb8a2p-56, 0x1.68p-1, 0x1.68ac83e9c6a14p-2, 0x1.a64eadd740178p-58,
  };
  return table + 3 * i;
}

/// 1 / k!, k = 2 ... 11; 5 pairs.
// NOLINTNEXTLINE(readability-function-size): long, and nothing but numbers
OPBOUND_HD inline const double* exp_series() {
  static constexpr double table[15] = {
    0x1p-1, 0x0p+0, 0x1.5555555555555p-3, 0x1.5555555555555p-57, 0x1.5555555555555p-5,
    0x1.5555555555555p-59, 0x1.1111111111111p-7, 0x1.1111111111111p-63, 0x1.6c16c16c16c17p-10,
    -0x1.f49f49f49f49fp-65, 0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-16, 0x1.71de3a556c734p-19,
    0x1.27e4fb7789f5cp-22, 0x1.ae64567f544e4p-26,
  };
  return table;
}

/// 2 / (2 k + 1), k < 8; 4 pairs.
// NOLINTNEXTLINE(readability-function-size): long, and nothing but numbers
OPBOUND_HD inline const double* log_series() {
  static constexpr double table[12] = {
    0x1p+1, 0x0p+0, 0x1.5555555555555p-1, 0x1.5555555555555p-55, 0x1.999999999999ap-2,
    -0x1.999999999999ap-56, 0x1.2492492492492p-2, 0x1.2492492492492p-56, 0x1.c71c71c71c71cp-3,
    0x1.745d1745d1746p-3, 0x1.3b13b13b13b14p-3, 0x1.1111111111111p-3,
  };
  return table;
}

/// (-1)^k 2 / (sqrt(pi) k! (2 k + 1)), k < 21; 12 pairs.
// NOLINTNEXTLINE(readability-function-size): long, and nothing but numbers
OPBOUND_HD inline const double* erf_series() {
  static constexpr double table[33] = {
    0x1.20dd750429b6dp+0, 0x1.1ae3a914fed8p-56, -0x1.812746b0379e7p-2, 0x1.ee12e49cab7p-57,
    0x1.ce2f21a042be2p-4, -0x1.2871bc5e00766p-58, -0x1.b82ce31288b51p-6, 0x1.1015978e7ac92p-61,
    0x1.565bcd0e6a53fp-8, -0x1.a73e0832f7e39p-64, -0x1.c02db40040b86p-11, 0x1.d9a497a0f8b0ep-65,
    0x1.f9a326f9b89b7p-14, 0x1.e9a2341c71459p-68, -0x1.f4d25c3e0c2ebp-17, -0x1.79b1b9b5c586cp-71,
    0x1.b9e6c9dc651a3p-20, -0x1.fe08d49bd93ddp-74, -0x1.5f742ec43e71ap-23, 0x1.d28f03df991d8p-80,
    0x1.fcc5720624c1cp-27, -0x1.92e82d499b6p-82, -0x1.51d7181c5d36dp-30, 0x1.edfe29582f8a2p-84,
    0x1.9e6ad5e55a73p-34, -0x1.d8453cb0c46eap-38, 0x1.f683ae4a97007p-42, -0x1.f56f071a885cfp-46,
    0x1.d70b3537f4765p-50, -0x1.a2007af3447f6p-54, 0x1.5f7919bc67b8cp-58, -0x1.18cc8a061c479p-62,
    0x1.ab5cc31489f29p-67,
  };
  return table;
}

/// (-1)^k / (2 k + 1)!, k < 15; 8 pairs.
// NOLINTNEXTLINE(readability-function-size): long, and nothing but numbers
OPBOUND_HD inline const double* sin_series() {
  static constexpr double table[23] = {
    0x1p+0, 0x0p+0, -0x1.5555555555555p-3, -0x1.5555555555555p-57, 0x1.1111111111111p-7,
    0x1.1111111111111p-63, -0x1.a01a01a01a01ap-13, -0x1.a01a01a01a01ap-73, 0x1.71de3a556c734p-19,
    -0x1.c154f8ddc6cp-73, -0x1.ae64567f544e4p-26, 0x1.c062e06d1f209p-80, 0x1.6124613a86d09p-33,
    0x1.f28e0cc748ebep-87, -0x1.ae7f3e733b81fp-41, -0x1.1d8656b0ee8cbp-97, 0x1.952c77030ad4ap-49,
    -0x1.2f49b46814157p-57, 0x1.71b8ef6dcf572p-66, -0x1.761b41316381ap-75, 0x1.3f3ccdd165fa9p-84,
    -0x1.d1ab1c2dccea3p-94, 0x1.259f98b4358adp-103,
  };
  return table;
}

/// (-1)^k / (2 k)!, k < 15; 9 pairs.
// NOLINTNEXTLINE(readability-function-size): long, and nothing but numbers
OPBOUND_HD inline const double* cos_series() {
  static constexpr double table[24] = {
    0x1p+0, 0x0p+0, -0x1p-1, 0x0p+0, 0x1.5555555555555p-5, 0x1.5555555555555p-59,
    -0x1.6c16c16c16c17p-10, 0x1.f49f49f49f49fp-65, 0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76,
    -0x1.27e4fb7789f5cp-22, -0x1.cbbc05b4fa99ap-76, 0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83,
    -0x1.93974a8c07c9dp-37, -0x1.05d6f8a2efd1fp-92, 0x1.ae7f3e733b81fp-45, 0x1.1d8656b0ee8cbp-101,
    -0x1.6827863b97d97p-53, 0x1.e542ba4020225p-62, -0x1.0ce396db7f853p-70, 0x1.f2cf01972f578p-80,
    -0x1.88e85fc6a4e5ap-89, 0x1.0a18a2635085dp-98,
  };
  return table;
}

// clang-format on

}  // namespace opbound::double_double
