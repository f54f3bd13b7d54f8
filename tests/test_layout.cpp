// Layouts of inputs: the same values through other strides.
#include <gtest/gtest.h>

#include "reports/error.hpp"
#include "suites/input.hpp"
#include "suites/run.hpp"

namespace opbound {
namespace {

CaseSpec product(const char* a) {
  CaseSpec spec;
  spec.op = find_op("matmul");
  spec.attributes = spec.op->default_attributes;
  spec.sizes = {3, 4, 5};
  spec.inputs = {{"a", parse_input(a)}};
  return spec;
}

TEST(Layout, TransposedHoldsTheSameMatrix) {
  const Prepared plain = prepare(product("normal")), other = prepare(product("normal @transposed"));
  const TensorView& a = other.call.forward[0];
  EXPECT_EQ(a.stride[0], 1);
  EXPECT_EQ(a.stride[1], 3);
  for (std::int64_t i = 0; i < a.count(); ++i) EXPECT_EQ(a.at(i), plain.call.forward[0].at(i));
}

TEST(Layout, BroadcastRepeatsTheFirstRow) {
  const Prepared p = prepare(product("normal @broadcast"));
  const TensorView& a = p.call.forward[0];
  EXPECT_EQ(a.stride[0], 0);
  for (std::int64_t i = 0; i < a.count(); ++i) {
    EXPECT_EQ(a.at(i), a.at(i % 5));
    EXPECT_EQ(a.at(i), p.tensors.find("a")->second.at(i)) << "records show these values";
  }
}

TEST(Layout, UnalignedStandsBehindAnAlignedAddress) {
  const Prepared plain = prepare(product("normal")), p = prepare(product("normal @unaligned"));
  const TensorView& a = p.call.forward[0];
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data) % 8, 4U);
  for (std::int64_t i = 0; i < a.count(); ++i) EXPECT_EQ(a.at(i), plain.call.forward[0].at(i));
}

TEST(Layout, IsWrittenAsItIsRead) {
  EXPECT_EQ(to_string(parse_input("normal(sigma=5) @transposed")), "normal(sigma=5) @transposed");
  EXPECT_THROW(parse_input("normal @sideways"), InputError);
}

TEST(Layout, GivesTheSameBits) {
  const auto own = own_host_provider();
  std::vector<std::string> hashes;
  for (const char* a : {"normal", "normal @transposed", "normal @unaligned"})
    for (const Record& r : run_case(product(a), *own)) hashes.push_back(r.output_hash);
  EXPECT_EQ(hashes, std::vector<std::string>(3, hashes.front()));
}

}  // namespace
}  // namespace opbound
