// Inputs from files: lists of worst cases, and tensors.
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "suites/generator.hpp"
#include "suites/input_file.hpp"
#include "suites/tensor_file.hpp"

namespace opbound {
namespace {

using namespace detail;

std::string_view trimmed(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

/// The value of "-0x1.8p-3", if it is one that a double holds.
std::optional<double> hexadecimal(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  if (!text.starts_with("0x")) return std::nullopt;
  text.remove_prefix(2);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::hex);
  if (error != std::errc{} || stop != end || text.starts_with('-')) return std::nullopt;
  return is_negative ? -value : value;
}

std::vector<double> read_values(const std::string& path, const Format& format) {
  InputFile file(path);
  const std::string all = file.text(0, file.size());
  std::vector<double> values;
  long line_number = 0;
  for (std::string_view rest = all; !rest.empty();) {
    ++line_number;
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = trimmed(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    const std::optional<double> value = hexadecimal(line);
    if (!value)
      throw InputError(path, line_number, in_quotes(line),
                       "a hexadecimal number such as -0x1.8p-3");
    if (round_to(format, *value) != *value)
      throw InputError(path, line_number, in_quotes(line),
                       "a value that " + std::string(name_of(format)) + " holds");
    values.push_back(*value);
  }
  if (values.empty()) throw InputError(path, "no values", "one hexadecimal number a line");
  return values;
}

void fill_worst(Tensor& tensor, const InputSpec& spec) {
  const std::vector<double> values = read_values(spec.path, format_of(tensor.element()));
  for (std::int64_t i = 0, n = tensor.count(); i < n; ++i)
    tensor.set(i, values[static_cast<std::size_t>(i) % values.size()]);
}

/// Do the shapes agree, when leading axes of the file are merged into the tensor's first?
bool fits(const Shape& file, const Shape& wanted) {
  if (file.empty() && wanted == Shape{1}) return true;  // a scalar
  if (file.size() < wanted.size() || wanted.empty()) return file == wanted;
  const auto inner = static_cast<std::ptrdiff_t>(wanted.size()) - 1;
  std::int64_t first = 1;
  for (auto size = file.begin(); size != file.end() - inner; ++size) first *= *size;
  return first == wanted[0] && std::equal(wanted.begin() + 1, wanted.end(), file.end() - inner);
}

void fill_from_file(Tensor& tensor, const InputSpec& spec) {
  const Tensor read = read_tensor(spec.path, {spec.tensor, tensor.element()});
  if (!fits(read.shape(), tensor.shape()))
    throw InputError(spec.path, "a tensor of shape " + text_of(read.shape()),
                     text_of(tensor.shape()));
  std::memcpy(tensor.bytes().data(), read.bytes().data(), tensor.bytes().size());
}

constexpr std::array table{
    Generator{{"worst", "path", "hexadecimal numbers from a text file, one a line, '#' comments"},
              nullptr,
              nullptr,
              fill_worst},
    Generator{{"file", "path tensor",
               "a .npy or .safetensors file of the tensor's own format; its leading axes may be "
               "merged; tensor names one of several"},
              nullptr,
              nullptr,
              fill_from_file}};

}  // namespace

std::span<const Generator> detail::file_generators() { return table; }

}  // namespace opbound
