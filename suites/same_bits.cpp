#include "suites/same_bits.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "ops/hash.hpp"
#include "suites/prepare.hpp"

namespace opbound {
namespace {

constexpr int repetitions = 8;

Answer answer(bool is_yes) { return is_yes ? Answer::yes : Answer::no; }

/// Inputs that the case names begin elsewhere, unless they lie in another layout.
CaseSpec unaligned(CaseSpec spec) {
  for (auto& input : spec.inputs)
    if (input.second.layout == Layout::contiguous) input.second.layout = Layout::unaligned;
  return spec;
}

/// A kernel need not take what should not matter: then nothing was asked.
template <class F>
Answer answer_if_taken(F is_same) {
  try {
    return answer(is_same());
  } catch (const Unavailable&) {
    return Answer::not_asked;
  }
}

int axis_of(const TensorSpec& t, std::string_view dim) {
  const auto place = std::find(t.dims.begin(), t.dims.end(), dim);
  return place == t.dims.end() ? -1 : static_cast<int>(place - t.dims.begin());
}

/// The first of the slices along an axis.
Tensor first_slice(Tensor& whole, int axis) {
  Shape shape = whole.shape();
  shape[static_cast<std::size_t>(axis)] = 1;
  Tensor slice(whole.element(), shape);
  TensorView from = whole.view(), to = slice.view();
  from.size[axis] = 1;
  const std::int64_t width = bytes_of(whole.element());
  for (std::int64_t i = 0; i < to.count(); ++i)
    std::copy_n(whole.bytes().begin() + from.offset(i) * width, width,
                slice.bytes().begin() + to.offset(i) * width);
  return slice;
}

/// Every tensor that the pass reads, of a batch's first row alone.
Tensors first_row(const CaseSpec& spec, Prepared& batch, std::string_view dim) {
  Tensors row;
  for (const TensorSpec& t : spec.op->pass(spec.direction).tensors) {
    if (t.is_written()) continue;
    Tensor& whole = batch.tensors.find(t.name)->second;
    const int axis = whole.count() > 0 ? axis_of(t, dim) : -1;
    row.emplace(t.name, axis < 0 ? whole : first_slice(whole, axis));
  }
  return row;
}

bool has_same_bits_alone(const CaseSpec& spec, std::size_t output, std::size_t dim,
                         const Provider& provider) {
  const std::string_view name = spec.op->dims[dim];
  Prepared batch = prepare(spec);
  provider.run(*spec.op, batch.call);
  CaseSpec alone = spec;
  alone.sizes[dim] = 1;
  Prepared row = prepare(alone, first_row(spec, batch, name));
  provider.run(*spec.op, row.call);
  TensorView expected = batch.call.judged()[output];
  expected.size[axis_of(spec.op->pass(spec.direction).tensors[output], name)] = 1;
  return bits_of(expected) == bits_of(row.call.judged()[output]);
}

/// The place of the dimension whose rows can be taken alone, or none.
std::optional<std::size_t> batch_dimension(const CaseSpec& spec, std::size_t output, int summed) {
  const auto tensors = spec.op->pass(spec.direction).tensors;
  for (std::size_t d = 0; d < spec.op->dims.size(); ++d) {
    const std::string_view name = spec.op->dims[d];
    const bool bounds_integers = std::any_of(tensors.begin(), tensors.end(), [&](const auto& t) {
      return t.below == name;  // they would name rows that are gone
    });
    if (std::cmp_not_equal(d, summed) && spec.sizes[d] > 1 && !bounds_integers &&
        axis_of(tensors[output], name) >= 0)
      return d;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::uint64_t> bits_of(const TensorView& view) {
  std::vector<std::uint64_t> bits;
  for (std::int64_t i = 0; i < view.count(); ++i) bits.push_back(canonical_bits(view, i));
  return bits;
}

std::vector<std::uint64_t> output_bits(const CaseSpec& spec, std::size_t output,
                                       const Provider& provider) {
  const Prepared p = prepare(spec);
  provider.run(*spec.op, p.call);
  return bits_of(p.call.judged()[output]);
}

SameBits ask_same_bits(const CaseSpec& spec, std::size_t output, int summed,
                       const Provider& provider) {
  const auto first = output_bits(spec, output, provider);
  bool is_same = true;
  for (int k = 1; k < repetitions; ++k)
    is_same = is_same && output_bits(spec, output, provider) == first;
  SameBits found;
  found.again = answer(is_same);
  if (!spec.inputs.empty())
    found.unaligned =
        answer_if_taken([&] { return output_bits(unaligned(spec), output, provider) == first; });
  if (const auto dim = batch_dimension(spec, output, summed))
    found.alone =
        answer_if_taken([&] { return has_same_bits_alone(spec, output, *dim, provider); });
  return found;
}

}  // namespace opbound
