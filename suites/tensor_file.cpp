#include "suites/tensor_file.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace opbound {

static_assert(std::endian::native == std::endian::little, "both file formats are read as they are");

namespace detail {

std::optional<std::uint64_t> bytes_of_shape(const Shape& shape, std::uint64_t element_bytes) {
  // An axis of 0 does not excuse the others: their product is a stride.
  std::uint64_t product = element_bytes;
  bool is_empty = false;
  for (const std::int64_t axis : shape) {
    if (axis < 0) return std::nullopt;
    is_empty = is_empty || axis == 0;
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(axis, 1));
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  if (product > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  return is_empty ? 0 : product;
}

std::string text_of(const Shape& shape) {
  std::string text = "(";
  for (const std::int64_t axis : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(axis);
  return text + ")";
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t longest = 60;
  const std::string shown(name.substr(0, longest));
  return "'" + shown + (name.size() > longest ? "...'" : "'");
}

void require_element(const InputFile& file, const TensorChoice& choice, Element found) {
  if (!choice.element || *choice.element == found) return;
  if (*choice.element != Element::int64)
    file.refuse("holds " + std::string(name_of(found)), name_of(*choice.element));
  if (found != Element::int32)
    file.refuse("holds " + std::string(name_of(found)), "int64 or int32");
}

}  // namespace detail

namespace {

Tensor read_as_it_is(const std::filesystem::path& path, const TensorChoice& choice) {
  InputFile file(path);
  const std::string extension = path.extension().string();
  if (extension == ".npy") return detail::read_npy(file, choice);
  if (extension == ".safetensors") return detail::read_safetensors(path, choice);
  file.refuse("the name ends in " + detail::in_quotes(extension), ".npy or .safetensors");
}

}  // namespace

Tensor read_tensor(const std::filesystem::path& path, const TensorChoice& choice) {
  Tensor read = read_as_it_is(path, choice);
  if (choice.element != Element::int64 || read.element() == Element::int64) return read;
  Tensor wide(Element::int64, read.shape());
  for (std::int64_t i = 0, n = read.count(); i < n; ++i) wide.set(i, read.at(i));
  return wide;
}

}  // namespace opbound
