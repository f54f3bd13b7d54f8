#include "distributed/trace/product_check.hpp"

#include <array>
#include <cmath>

#include "ops/hash.hpp"
#include "ops/parallel.hpp"

namespace opbound::trace {
namespace {

constexpr int vectors = quick_check_vectors;
constexpr int width = vectors + 1;  // sums, then a magnitude

/// For each column its weight in every sum, and in the sum of magnitudes.
using Weights = std::vector<std::array<double, width>>;

/// What a narrow format's patterns mean; empty for others.
std::vector<double> decoded(Element e) {
  if (!is_float(e) || bytes_of(e) > 2) return {};
  std::vector<double> values(std::size_t{1} << (8 * bytes_of(e)));
  for (std::size_t bits = 0; bits < values.size(); ++bits)
    values[bits] = decode(format_of(e), bits);
  return values;
}

const std::vector<double>& table_of(Element e) {
  static const std::array<std::vector<double>, 7> tables = [] {
    std::array<std::vector<double>, 7> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = decoded(static_cast<Element>(i));
    return all;
  }();
  return tables[static_cast<std::size_t>(e)];
}

/// action(i, element i) of `count` elements that stand `stride` apart.
template <class F>
void each_of(const TensorView& x, std::int64_t first, std::int64_t stride, std::int64_t count,
             F action) {
  const auto loop = [&]<class Bits>(Bits, auto value_of) {
    for (std::int64_t i = 0; i < count; ++i)
      action(i, value_of(detail::read_element<Bits>(x.data, first + i * stride)));
  };
  const std::vector<double>& table = table_of(x.element);
  if (x.element == Element::fp64)
    loop(double{}, [](double v) { return v; });
  else if (bytes_of(x.element) == 4)
    loop(float{}, [](float v) { return static_cast<double>(v); });
  else if (bytes_of(x.element) == 2)
    loop(std::uint16_t{}, [&](std::uint16_t bits) { return table[bits]; });
  else
    loop(std::uint8_t{}, [&](std::uint8_t bits) { return table[bits]; });
}

void add(std::array<double, width>& to, double x, const std::array<double, width>& weight) {
  for (int v = 0; v < vectors; ++v)
    to[static_cast<std::size_t>(v)] += x * weight[static_cast<std::size_t>(v)];
  to[vectors] += std::fabs(x) * weight[vectors];
}

/// Every row's sums with the weights, in fp64.
Weights row_sums(const TensorView& x, const Weights& weights) {
  const std::int64_t rows = x.size[0], columns = x.size[1];
  Weights sums(static_cast<std::size_t>(rows), std::array<double, width>{});
  // along memory: a column of a transposed view stands together
  const bool by_columns = x.stride[0] < x.stride[1] && x.stride[0] != 0;
  constexpr std::int64_t together = 32;
  parallel_for((rows + together - 1) / together, together * columns, [&](std::int64_t part) {
    const std::int64_t first = part * together, count = std::min(together, rows - first);
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    if (by_columns) {
      for (std::int64_t c = 0; c < columns; ++c)
        each_of(x, first * x.stride[0] + c * x.stride[1], x.stride[0], count,
                [&](std::int64_t r, double v) { add(sums[at(first + r)], v, weights[at(c)]); });
    } else {
      for (std::int64_t r = first; r < first + count; ++r) {
        std::array<double, width> sum{};
        each_of(x, r * x.stride[0], x.stride[1], columns,
                [&](std::int64_t c, double v) { add(sum, v, weights[at(c)]); });
        sums[at(r)] = sum;
      }
    }
  });
  return sums;
}

Weights random_signs(std::int64_t count, std::uint64_t seed) {
  Weights signs(static_cast<std::size_t>(count));
  for (std::size_t j = 0; j < signs.size(); ++j) {
    const std::uint64_t bits = element_hash(static_cast<std::int64_t>(j), seed);
    for (std::size_t v = 0; v < vectors; ++v) signs[j][v] = (bits >> v & 1) != 0 ? -1 : 1;
    signs[j][vectors] = 1;
  }
  return signs;
}

TensorView matrix(const TensorView& of, std::array<std::int64_t, 2> size,
                  std::array<std::int64_t, 2> stride) {
  TensorView view{of.data, of.element, 2, {size[0], size[1]}, {stride[0], stride[1]}};
  return view;
}

TensorView transposed(const TensorView& x) {
  return matrix(x, {x.size[1], x.size[0]}, {x.stride[1], x.stride[0]});
}

template <class T>
T attribute(const Op& op, const AttributeBytes& bytes, std::string_view name) {
  for (const AttributeSpec& a : op.attributes)
    if (a.name == name) return std::get<T>(a.get(bytes));
  detail::require(false, "a product has its attributes");
  return {};
}

}  // namespace

std::vector<NamedProduct> products_of(const Op& op, const Call& call) {
  const auto& a = call.attributes;
  const bool is_plain = attribute<double>(op, a, "alpha") == 1 &&
                        attribute<double>(op, a, "beta") == 0 && !attribute<bool>(op, a, "scaled");
  const bool sums_in_compute = call.variant <= op.variant_named("scales_first");
  if (!is_plain || !sums_in_compute) return {};
  const PassInfo& pass = op.pass(call.direction);
  const auto view = [&](std::string_view name) {
    for (std::size_t t = 0; t < pass.tensors.size(); ++t)
      if (pass.tensors[t].name == name) return call.judged()[t];
    detail::require(false, "a product has its tensors");
    return TensorView{};
  };
  const bool has_bias = attribute<bool>(op, a, "bias");
  if (call.direction == Direction::forward)
    return {
        {"d",
         {view("a"), view("b"), view("d"), has_bias ? view("bias") : TensorView{}, call.compute}}};
  const TensorView dd = view("dd");
  std::vector<NamedProduct> products{
      {"da", {dd, transposed(view("b")), view("da"), {}, call.compute}},
      {"db", {transposed(view("a")), dd, view("db"), {}, call.compute}}};
  if (!has_bias) return products;
  static float one = 1;
  const TensorView of_one{&one, Element::fp32, 1, {1}, {1}}, dbias = view("dbias");
  products.push_back({"dbias",
                      {matrix(of_one, {1, dd.size[0]}, {0, 0}),
                       dd,
                       matrix(dbias, {1, dbias.size[0]}, {0, dbias.stride[0]}),
                       {},
                       call.compute}});
  return products;
}

ProductRows check_product(const Product& p, std::uint64_t seed) {
  const std::int64_t m = p.a.size[0], n = p.b.size[1], k = p.b.size[0];
  const bool has_bias = p.bias.data != nullptr;
  const Weights signs = random_signs(n, seed);
  const Weights of_d = row_sums(p.d, signs);
  Weights of_a = row_sums(p.a, row_sums(p.b, signs));
  if (has_bias) {  // one term more: 1 times the bias
    const Weights of_bias = row_sums(matrix(p.bias, {1, n}, {0, p.bias.stride[0]}), signs);
    for (auto& row : of_a)
      for (std::size_t v = 0; v < width; ++v) row[v] += of_bias[0][v];
  }
  ProductRows rows;
  for (std::int64_t i = 0; i < m; ++i) {
    const auto& a = of_a[static_cast<std::size_t>(i)];
    const auto& d = of_d[static_cast<std::size_t>(i)];
    const ProductRow row(static_cast<double>(k + (has_bias ? 1 : 0)), static_cast<double>(n),
                         a[vectors], d[vectors], p.compute, format_of(p.d.element));
    RowVerdict all = RowVerdict::passes;
    for (std::size_t v = 0; v < vectors; ++v)
      if (const RowVerdict one = row.of(d[v], a[v]); one != RowVerdict::passes) all = one;
    if (all != RowVerdict::unjudged) ++rows.judged;
    if (all == RowVerdict::fails) rows.failing.push_back(i);
  }
  return rows;
}

}  // namespace opbound::trace
