// A .safetensors file as a whole: for one tensor, read_tensor of suites/tensor_file.hpp is enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ops/tensor.hpp"
#include "suites/input_file.hpp"

namespace opbound {

/// Where a tensor lies; begin and end count from the end of the header.
struct SafetensorsEntry {
  std::string name;
  std::string type;  ///< the format's word: "F32"
  Shape shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// An open file whose header has been checked: every byte belongs to one tensor.
class SafetensorsFile {
 public:
  /// Throws InputError, one line, for whatever is wrong with the header.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  ///< by name
  /// The texts of `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The bytes before the elements: eight of length, and the JSON.
  const std::string& head() const { return head_; }
  InputFile& file() { return file_; }

  /// InputError for an element that no Tensor has, or more than four axes.
  Tensor read(const SafetensorsEntry& entry);

 private:
  InputFile file_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
  std::string head_;
};

/// The bytes of a file as parts that lie one behind the other: the head, and the elements of every
/// tensor. The tensors must outlive it.
struct SafetensorsParts {
  SafetensorsParts(const std::map<std::string, Tensor>& tensors,
                   const std::map<std::string, std::string>& metadata);

  std::string head;
  std::vector<std::span<const std::byte>> elements;
};

}  // namespace opbound
