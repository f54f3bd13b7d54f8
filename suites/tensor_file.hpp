// Tensors from and to .npy (format 1.0 to 3.0) and .safetensors files.
//
// Files are not trusted: sizes are compared with the file before memory is allocated, and whatever
// is wrong becomes one InputError that names the file. Bytes are kept as they are, NaN payloads
// included. A tf32 tensor is written as fp32.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/tensor.hpp"
#include "suites/input_file.hpp"

namespace opbound {

struct TensorChoice {
  /// The tensor of a .safetensors file; may be empty if the file has only one.
  std::string name;
  /// How to read raw bits: .npy '<u2' or '|V1' say nothing of bf16 or e4m3. Where the file names a
  /// type itself, it must be this one, or int32 where this is int64.
  std::optional<Element> element;
};

/// The tensor of a .npy file, or the chosen one of a .safetensors file, in row-major order.
Tensor read_tensor(const std::filesystem::path& path, const TensorChoice& choice = {});

/// Names of the tensors of a .safetensors file, in alphabetical order.
std::vector<std::string> tensor_names(const std::filesystem::path& path);

/// Version 1.0; bf16, e4m3, e5m2 as '<V2', '|V1' (as ml_dtypes does), which read_tensor must be
/// told for the 8-bit ones.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, Tensor>& tensors);

namespace detail {

Tensor read_npy(InputFile& file, const TensorChoice& choice);
Tensor read_safetensors(const std::filesystem::path& path, const TensorChoice& choice);

/// Bytes of `shape`, or nothing where the product does not fit 63 bits or an axis is negative.
std::optional<std::uint64_t> bytes_of_shape(const Shape& shape, std::uint64_t element_bytes);

/// "(2, 3)"
std::string text_of(const Shape& shape);

/// A name from a file, quoted, and cut where it is long.
std::string in_quotes(std::string_view name);

/// InputError unless the tensor is of the element asked for, if any, or is widened to it.
void require_element(const InputFile& file, const TensorChoice& choice, Element found);

}  // namespace detail
}  // namespace opbound
