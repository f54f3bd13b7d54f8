// Bodies for speed on the host give the bits of the declared order.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "ops/matmul.hpp"
#include "ops/op.hpp"

namespace opbound {
namespace {

struct Product {
  Format storage, compute;
  std::int64_t m, n, k;
  bool scaled = false, transposed = false;
};

std::string name_of(const Product& p) {
  return std::string(opbound::name_of(p.storage)) + " " + std::to_string(p.m) + "x" +
         std::to_string(p.n) + "x" + std::to_string(p.k) + (p.scaled ? " scaled" : "") +
         (p.transposed ? " transposed" : "");
}

/// Numbers whose sums round, with zeros of both signs, infinities and NaN among them.
Tensor random(const Format& f, Shape shape, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  Tensor t(f, std::move(shape));
  for (std::int64_t i = 0; i < t.count(); ++i) {
    const std::uint64_t word = bits();
    const double x = std::ldexp(static_cast<double>(word >> 11), -52) - 1;
    const auto special = word % 4096;
    t.set(i, special < 40    ? -0.0
             : special == 50 ? std::numeric_limits<double>::infinity()
             : special == 51 ? std::numeric_limits<double>::quiet_NaN()
                             : x);
  }
  return t;
}

/// The same elements seen from an array that holds the transposed matrix.
TensorView view_of(Tensor& t, bool transposed) {
  TensorView v = t.view();
  if (!transposed) return v;
  v.stride[0] = 1;
  v.stride[1] = v.size[0];
  return v;
}

std::vector<Tensor> outputs_of(const Product& p, int variant, Direction direction) {
  const Op& op = *find_op("matmul");
  matmul::Attributes attributes;
  attributes.alpha = 0.75;
  attributes.scaled = p.scaled;
  attributes.splits = 1;
  Call call;
  call.direction = direction;
  call.attributes = to_bytes(attributes);
  call.variant = variant;
  call.compute = p.compute;
  call.sizes = {p.m, p.n, p.k};
  Tensor a = random(p.storage, {p.m, p.k}, 1), b = random(p.storage, {p.k, p.n}, 2);
  Tensor dd = random(p.storage, {p.m, p.n}, 3), none(p.storage, {0});
  Tensor row = random(fp32, {p.m}, 4), column = random(fp32, {p.n}, 5);
  const TensorView va = view_of(a, p.transposed), vb = view_of(b, p.transposed);
  const TensorView sa = p.scaled ? row.view() : none.view(),
                   sb = p.scaled ? column.view() : none.view();
  std::vector<Tensor> outputs;
  if (direction == Direction::forward) {
    outputs.emplace_back(p.storage, Shape{p.m, p.n});
    call.forward = {va, vb, none.view(), none.view(), sa, sb, outputs[0].view()};
  } else {
    outputs.emplace_back(p.storage, Shape{p.m, p.k});
    outputs.emplace_back(p.storage, Shape{p.k, p.n});
    call.backward = {
        va, vb, sa, sb, dd.view(), outputs[0].view(), outputs[1].view(), none.view(), none.view()};
  }
  op.run(call);
  return outputs;
}

class HostTile : public testing::TestWithParam<Product> {};

// split_k with one part is the same sum, and has no second body.
TEST_P(HostTile, HasTheBitsOfOneSum) {
  for (const Direction d : {Direction::forward, Direction::backward_local}) {
    const auto tiled = outputs_of(GetParam(), matmul::sequential, d);
    const auto plain = outputs_of(GetParam(), matmul::split_k, d);
    for (std::size_t t = 0; t < tiled.size(); ++t)
      EXPECT_EQ(
          std::memcmp(tiled[t].bytes().data(), plain[t].bytes().data(), tiled[t].bytes().size()), 0)
          << name_of(d) << " " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, HostTile,
    testing::Values(Product{fp32, fp32, 1, 1, 1}, Product{fp32, fp32, 6, 16, 5},
                    Product{fp32, fp32, 7, 17, 33}, Product{fp32, fp32, 64, 50, 129},
                    Product{fp64, fp64, 13, 9, 21}, Product{fp64, fp64, 6, 8, 64},
                    Product{bf16, fp32, 19, 35, 40}, Product{fp16, fp32, 5, 31, 7},
                    Product{fp32, fp32, 11, 18, 25, true}, Product{bf16, fp32, 12, 16, 8, true},
                    Product{fp32, fp32, 10, 21, 15, false, true},
                    Product{fp64, fp64, 10, 21, 15, true, true}),
    [](const auto& choice) {
      std::string name = name_of(choice.param);
      for (char& c : name)
        if (c == ' ') c = '_';
      return name;
    });

}  // namespace
}  // namespace opbound
