// Tensors: a strided view that host and device share, and the host's owner of the bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/format.hpp"
#include "ops/portable.hpp"

namespace opbound {

/// What a tensor is made of: the formats, in the order of Kind, then what indices and masks need.
enum class Element : std::uint8_t {
  fp64,
  fp32,
  tf32,
  bf16,
  fp16,
  e4m3,
  e5m2,
  int32,
  int64,
  boolean
};

OPBOUND_HD constexpr Element element_of(Kind kind) { return static_cast<Element>(kind); }
OPBOUND_HD constexpr Element element_of(const Format& f) { return element_of(f.kind); }
OPBOUND_HD constexpr bool is_float(Element e) { return e <= Element::e5m2; }

/// The format of a floating-point element.
OPBOUND_HD constexpr Format format_of(Element e) {
  constexpr Format formats[] = {fp64, fp32, tf32, bf16, fp16, e4m3, e5m2};  // in device memory too
  return formats[static_cast<int>(e)];
}

OPBOUND_HD constexpr int bytes_of(Element e) {
  switch (e) {
    case Element::fp64:
    case Element::int64:
      return 8;
    case Element::fp32:
    case Element::tf32:
    case Element::int32:
      return 4;
    case Element::bf16:
    case Element::fp16:
      return 2;
    default:
      return 1;
  }
}

constexpr std::string_view name_of(Element e) {
  if (is_float(e)) return name_of(format_of(e));
  return e == Element::int32 ? "int32" : e == Element::int64 ? "int64" : "boolean";
}

namespace detail {

/// Element i of an array; on the host the array may stand at any address.
template <class T>
OPBOUND_HD T read_element(const void* data, std::int64_t i) {
#ifdef __CUDA_ARCH__
  return static_cast<const T*>(data)[i];
#else
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + i * std::int64_t{sizeof(T)}, sizeof(T));
  return value;
#endif
}

template <class T>
OPBOUND_HD void write_element(void* data, std::int64_t i, T value) {
#ifdef __CUDA_ARCH__
  static_cast<T*>(data)[i] = value;
#else
  std::memcpy(static_cast<std::byte*>(data) + i * std::int64_t{sizeof(T)}, &value, sizeof(T));
#endif
}

template <Format F, class Bits>
OPBOUND_HD double load_as(const void* data, std::int64_t i) {
  return decode(F, read_element<Bits>(data, i));
}

template <Format F, class Bits>
OPBOUND_HD void store_as(void* data, std::int64_t i, double value) {
  write_element(data, i, static_cast<Bits>(encode(F, value)));
}

/// A broken promise of the program itself; bad user input throws InputError instead.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "opbound: internal error: %s\n", what);
  std::abort();
}

}  // namespace detail

/// Element i, exact (an int64 beyond 2^53: rounded; see load_index).
OPBOUND_HD inline double load(Element e, const void* data, std::int64_t i) {
  switch (e) {
    case Element::fp64:
      return detail::read_element<double>(data, i);
    case Element::fp32:
    case Element::tf32:
      return detail::read_element<float>(data, i);
    case Element::bf16:
      return detail::load_as<bf16, std::uint16_t>(data, i);
    case Element::fp16:
      return detail::load_as<fp16, std::uint16_t>(data, i);
    case Element::e4m3:
      return detail::load_as<e4m3, std::uint8_t>(data, i);
    case Element::e5m2:
      return detail::load_as<e5m2, std::uint8_t>(data, i);
    case Element::int32:
      return detail::read_element<std::int32_t>(data, i);
    case Element::int64:
      return static_cast<double>(detail::read_element<std::int64_t>(data, i));
    case Element::boolean:
      return detail::read_element<std::uint8_t>(data, i) != 0 ? 1 : 0;
  }
  return 0;
}

/// Stores a value that the element holds exactly: round first. NaN becomes the canonical NaN.
OPBOUND_HD inline void store(Element e, void* data, std::int64_t i, double value) {
  switch (e) {
    case Element::fp64:
      return detail::store_as<fp64, std::uint64_t>(data, i, value);
    case Element::fp32:
    case Element::tf32:
      return detail::write_element(
          data, i, value == value ? static_cast<float>(value) : std::bit_cast<float>(0x7fc00000U));
    case Element::bf16:
      return detail::store_as<bf16, std::uint16_t>(data, i, value);
    case Element::fp16:
      return detail::store_as<fp16, std::uint16_t>(data, i, value);
    case Element::e4m3:
      return detail::store_as<e4m3, std::uint8_t>(data, i, value);
    case Element::e5m2:
      return detail::store_as<e5m2, std::uint8_t>(data, i, value);
    case Element::int32:
      return detail::write_element(data, i, static_cast<std::int32_t>(value));
    case Element::int64:
      return detail::write_element(data, i, static_cast<std::int64_t>(value));
    case Element::boolean:
      return detail::write_element(data, i, static_cast<std::uint8_t>(value != 0));
  }
}

OPBOUND_HD inline double load(Kind k, const void* data, std::int64_t i) {
  return load(element_of(k), data, i);
}
OPBOUND_HD inline void store(Kind k, void* data, std::int64_t i, double value) {
  store(element_of(k), data, i, value);
}

/// Element i of an int32, int64 or boolean array, exact.
OPBOUND_HD inline std::int64_t load_index(Element e, const void* data, std::int64_t i) {
  switch (e) {
    case Element::int32:
      return detail::read_element<std::int32_t>(data, i);
    case Element::int64:
      return detail::read_element<std::int64_t>(data, i);
    default:
      return detail::read_element<std::uint8_t>(data, i) != 0 ? 1 : 0;
  }
}

/// Stores an integer, exact; a boolean is whether it is not 0.
OPBOUND_HD inline void store_index(Element e, void* data, std::int64_t i, std::int64_t value) {
  switch (e) {
    case Element::int32:
      return detail::write_element(data, i, static_cast<std::int32_t>(value));
    case Element::int64:
      return detail::write_element(data, i, value);
    default:
      return detail::write_element(data, i, static_cast<std::uint8_t>(value != 0));
  }
}

/// Up to four axes over bytes that somebody else owns. Strides count elements; 0 repeats an axis.
struct TensorView {
  static constexpr int max_rank = 4;

  void* data = nullptr;
  Element element = Element::fp32;
  int rank = 0;
  std::int64_t size[max_rank] = {};
  std::int64_t stride[max_rank] = {};

  OPBOUND_HD std::int64_t count() const {
    std::int64_t product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= size[axis];
    return product;
  }

  /// Elements from data to the last one, whatever lies between.
  OPBOUND_HD std::int64_t extent() const {
    std::int64_t last = 0;
    for (int axis = 0; axis < rank; ++axis) {
      if (size[axis] == 0) return 0;
      last += (size[axis] - 1) * stride[axis];
    }
    return last + 1;
  }

  OPBOUND_HD bool is_contiguous() const {
    std::int64_t expected = 1;
    for (int axis = rank - 1; axis >= 0; expected *= size[axis--])
      if (stride[axis] != expected && size[axis] != 1) return false;
    return true;
  }

  /// Where the element with row-major index `flat` stands, in elements from data.
  OPBOUND_HD std::int64_t offset(std::int64_t flat) const {
    if (is_contiguous()) return flat;
    std::int64_t sum = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      sum += flat % size[axis] * stride[axis];
      flat /= size[axis];
    }
    return sum;
  }

  /// The element with row-major index `flat`.
  OPBOUND_HD double at(std::int64_t flat) const { return load(element, data, offset(flat)); }
  OPBOUND_HD void set(std::int64_t flat, double value) const {
    store(element, data, offset(flat), value);
  }
};

using Shape = std::vector<std::int64_t>;

/// A view of contiguous row-major bytes.
inline TensorView contiguous_view(Element e, const Shape& shape, void* data) {
  detail::require(shape.size() <= TensorView::max_rank, "a tensor has at most four axes");
  TensorView view{data, e, static_cast<int>(shape.size()), {}, {}};
  std::int64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) {
    detail::require(shape[axis] >= 0, "an axis has a negative size");
    view.size[axis] = shape[axis];
    view.stride[axis] = stride;
  }
  return view;
}

/// A contiguous row-major tensor in host memory; zero at first.
class Tensor {
 public:
  Tensor() : Tensor(Element::fp32, {0}) {}

  Tensor(Element e, Shape shape) : shape_(std::move(shape)), element_(e) {
    bytes_.resize(static_cast<std::size_t>(count() * bytes_of(e)));
  }
  Tensor(const Format& f, Shape shape) : Tensor(element_of(f), std::move(shape)) {}

  /// Each value rounded to the element's format.
  Tensor(Element e, Shape shape, std::span<const double> values) : Tensor(e, std::move(shape)) {
    detail::require(std::cmp_equal(values.size(), count()), "values do not fill the shape");
    for (std::int64_t i = 0; i < count(); ++i) set(i, values[static_cast<std::size_t>(i)]);
  }
  Tensor(const Format& f, Shape shape, std::span<const double> values)
      : Tensor(element_of(f), std::move(shape), values) {}

  Element element() const { return element_; }
  const Shape& shape() const { return shape_; }
  std::int64_t count() const { return contiguous_view(element_, shape_, nullptr).count(); }

  /// A view is a handle: it may write, whoever holds it.
  TensorView view() { return contiguous_view(element_, shape_, bytes_.data()); }
  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  double at(std::int64_t flat) const { return load(element_, bytes_.data(), flat); }
  std::int64_t index_at(std::int64_t flat) const {
    return load_index(element_, bytes_.data(), flat);
  }

  /// Stores value rounded to nearest even in the element's format; an integer is truncated.
  void set(std::int64_t flat, double value) {
    store(element_, bytes_.data(), flat,
          is_float(element_) ? round_to(format_of(element_), value) : value);
  }

  void fill(double value) {
    for (std::int64_t i = 0, n = count(); i < n; ++i) set(i, value);
  }

  std::vector<double> values() const {
    std::vector<double> all(static_cast<std::size_t>(count()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = at(static_cast<std::int64_t>(i));
    return all;
  }

 private:
  std::vector<std::byte> bytes_;
  Shape shape_;
  Element element_;
};

}  // namespace opbound
