// Emulated matrix units against a Hopper's own, bit by bit; skipped without one.
//
//   OPBOUND_UNITS_OUT=units.jsonl test_matrix_unit_device --gtest_filter='Full*'
//
// keeps what was compared, a line for each instruction (reports/baseline).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "generated/version.hpp"
#include "ops/precision.hpp"
#include "ops/provider.hpp"
#include "tests/device/unit_products.hpp"

namespace opbound {

#ifndef OPBOUND_WITH_CUDA
unit_products::Compared unit_products::compare(const Operation&, const MatrixUnit&, std::uint64_t) {
  throw Unavailable("this build has no CUDA");
}
#endif

namespace {

using unit_products::Compared;
using unit_products::Difference;
using unit_products::Operation;

std::string name_of(const Operation& o) {
  return std::string(unit_products::instruction_names[static_cast<std::size_t>(o.instruction)]) +
         " " + std::string(name_of(o.a)) + " " + std::string(name_of(o.b));
}

/// The first difference of each kind of tile.
std::string text_of(const Compared& c) {
  std::string text;
  char line[160];
  for (std::size_t k = 0; k < c.differing.size(); ++k) {
    if (c.differing[k] == 0) continue;
    const Difference& d = c.first[k];
    std::snprintf(line, sizeof line, "\n  %llu, such as tile %llu row %d column %d: %a, not %a",
                  static_cast<unsigned long long>(c.differing[k]),
                  static_cast<unsigned long long>(d.tile), d.row, d.column,
                  static_cast<double>(d.got), static_cast<double>(d.expected));
    text += line;
  }
  return text;
}

class MatrixUnitDevice : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device = own_device_provider(0);
    } catch (const Unavailable& e) {
      GTEST_SKIP() << e.what();
    }
    for (const auto& [name, value] : device->environment())
      if (name == "compute_capability" && value != "9.0")
        GTEST_SKIP() << "its units are of compute capability " << value << ", not of 9.0";
    device->select_device();
  }

  void compare_all(std::uint64_t tiles) {
    for (const Operation& o : unit_products::operations) {
      const Compared c = compare(o, unit_of(o), tiles);
      EXPECT_EQ(c.all_differing(), 0) << name_of(o) << " of " << c.sums << text_of(c);
      record(o, c);
    }
  }

  std::unique_ptr<Provider> device;

 private:
  void record(const Operation& o, const Compared& c) const {
    const char* path = std::getenv("OPBOUND_UNITS_OUT");
    if (path == nullptr) return;
    const MatrixUnit u = unit_of(o);
    nlohmann::ordered_json json{{"schema", 1},
                                {"kind", "unit"},
                                {"instruction", name_of(o)},
                                {"terms", o.terms},
                                {"block", u.block},
                                {"fraction", u.fraction},
                                {"digits", u.digits},
                                {"apart", u.apart},
                                {"sums", c.sums},
                                {"differing", c.all_differing()},
                                {"device", device->device()}};
    for (const auto& [name, value] : device->environment()) json["environment"][name] = value;
    json["commit"] = commit;
    std::ofstream file(path, std::ios::app);
    file << json.dump() << '\n';
    file.close();
    ASSERT_TRUE(file.good()) << path;
  }
};
using FullMatrixUnitDevice = MatrixUnitDevice;

TEST_F(MatrixUnitDevice, HasTheBitsOfTheEmulation) { compare_all(1 << 12); }
TEST_F(FullMatrixUnitDevice, HasTheBitsOfTheEmulation) { compare_all(1 << 18); }

/// Every figure of a unit decides bits that are looked at.
TEST_F(MatrixUnitDevice, HasNoOthersBits) {
  for (const Operation& o : unit_products::operations) {
    const MatrixUnit u = unit_of(o);
    std::vector<MatrixUnit> others{{u.block / 2, u.fraction, u.digits, u.apart / 2},
                                   {u.block, u.fraction - 1, u.digits, u.apart},
                                   {u.block, u.fraction + 1, u.digits, u.apart},
                                   {u.block, u.fraction, u.digits - 1, u.apart}};
    if (u.apart > 0) others.push_back({u.block, u.fraction, u.digits, 0});
    for (const MatrixUnit& other : others)
      EXPECT_GT(compare(o, other, 1 << 10).all_differing(), 0)
          << name_of(o) << " " << other.block << " " << other.fraction << " " << other.digits;
  }
}

}  // namespace
}  // namespace opbound
