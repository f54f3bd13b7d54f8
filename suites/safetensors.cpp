// The safetensors format: eight bytes of header length, a JSON header, and the elements.
#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "suites/safetensors.hpp"
#include "suites/tensor_file.hpp"

namespace opbound {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t length_bytes = 8;
/// About 10^5 tensors; parsed JSON takes up to 16 times the memory of its text.
constexpr std::uint64_t longest_header = std::uint64_t{16} << 20;
/// { name: { shape: [ ... ] } }
constexpr int deepest_header = 3;

struct Type {
  std::string_view text;
  Element element;
};
constexpr std::array types{
    Type{"F64", Element::fp64},  Type{"F32", Element::fp32},     Type{"BF16", Element::bf16},
    Type{"F16", Element::fp16},  Type{"F8_E4M3", Element::e4m3}, Type{"F8_E5M2", Element::e5m2},
    Type{"I32", Element::int32}, Type{"I64", Element::int64},    Type{"BOOL", Element::boolean}};

std::optional<Element> element_of_type(std::string_view type) {
  for (const Type& t : types)
    if (t.text == type) return t.element;
  return std::nullopt;
}

std::string_view type_of(Element e) {
  if (e == Element::tf32) return "F32";
  return std::find_if(types.begin(), types.end(), [e](const Type& t) { return t.element == e; })
      ->text;
}

using Entry = SafetensorsEntry;

/// Parsed JSON whose names are unique and whose nesting is no deeper than the format's.
Json parse_header(InputFile& file, const std::string& text) {
  std::set<std::string> names;
  bool is_too_deep = false, has_duplicate = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    is_too_deep = is_too_deep || depth > deepest_header;
    if (depth == 1 && event == Json::parse_event_t::key)
      has_duplicate = !names.insert(value.get<std::string>()).second || has_duplicate;
    return !is_too_deep;
  };
  Json header = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (is_too_deep) file.refuse("header: nested too deep", "{name: {shape: [...]}}");
  if (header.is_discarded() || !header.is_object()) file.refuse("header: not JSON", "an object");
  if (has_duplicate) file.refuse("header: a name twice", "each name once");
  return header;
}

/// A list of sizes, at most 2^63 - 1 each.
std::optional<Shape> sizes_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  Shape sizes;
  for (const Json& size : *found) {
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() >> 63 != 0) return std::nullopt;
    sizes.push_back(size.get<std::int64_t>());
  }
  return sizes;
}

Entry parse_entry(const InputFile& file, const std::string& name, const Json& object,
                  std::uint64_t data_bytes) {
  const std::string where = "tensor " + detail::in_quotes(name) + ": ";
  if (!object.is_object()) file.refuse(where + "not an object", "dtype, shape and data_offsets");
  const auto type = object.find("dtype");
  if (type == object.end() || !type->is_string()) file.refuse(where + "no dtype", "a string");
  const auto shape = sizes_of(object, "shape");
  if (!shape) file.refuse(where + "bad shape", "a list of sizes from 0 to 2^63 - 1");
  const auto offsets = sizes_of(object, "data_offsets");
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1])
    file.refuse(where + "bad data_offsets", "[begin, end]");
  Entry entry{name, type->get<std::string>(), *shape, static_cast<std::uint64_t>((*offsets)[0]),
              static_cast<std::uint64_t>((*offsets)[1])};
  if (entry.end > data_bytes)
    file.refuse(where + "ends at byte " + std::to_string(entry.end) + " of the data",
                "at most " + std::to_string(data_bytes));
  if (const auto element = element_of_type(entry.type)) {
    const auto bytes =
        detail::bytes_of_shape(entry.shape, static_cast<std::uint64_t>(bytes_of(*element)));
    if (!bytes || *bytes != entry.end - entry.begin)
      file.refuse(where + std::to_string(entry.end - entry.begin) + " bytes",
                  (bytes ? std::to_string(*bytes) : "more than 2^63") + " for shape " +
                      detail::text_of(entry.shape));
  }
  return entry;
}

/// Every byte of the data belongs to exactly one tensor, as the format demands.
void require_tiling(const InputFile& file, std::vector<Entry> entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t next = 0;
  for (const Entry& e : entries) {
    if (e.begin != next)
      file.refuse("tensor " + detail::in_quotes(e.name) + ": begins at byte " +
                      std::to_string(e.begin) + " of the data",
                  std::to_string(next) + ": no overlap and no hole");
    next = e.end;
  }
  if (next != data_bytes)
    file.refuse(std::to_string(data_bytes) + " bytes of data", std::to_string(next));
}

std::string read_head(InputFile& file) {
  if (file.size() < length_bytes)
    file.refuse("ends at byte " + std::to_string(file.size()), "eight bytes of header length");
  std::uint64_t header_bytes = 0;
  file.read(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  const std::uint64_t most = std::min(longest_header, file.size() - length_bytes);
  if (header_bytes > most)
    file.refuse("a header of " + std::to_string(header_bytes) + " bytes",
                "at most " + std::to_string(most));
  return file.text(0, length_bytes + header_bytes);
}

std::string names_of(const std::vector<Entry>& entries) {
  constexpr std::size_t most = 8;
  if (entries.empty()) return "a file with tensors";
  std::string text = "one of";
  for (std::size_t i = 0; i < std::min(most, entries.size()); ++i)
    text += " " + detail::in_quotes(entries[i].name);
  return entries.size() > most ? text + " ... (" + std::to_string(entries.size()) + " tensors)"
                               : text;
}

const Entry& choose(SafetensorsFile& file, const std::string& name) {
  const std::vector<Entry>& entries = file.entries();
  if (name.empty() && entries.size() == 1) return entries.front();
  for (const Entry& e : entries)
    if (e.name == name) return e;
  file.file().refuse(name.empty() ? "no tensor chosen" : "no tensor " + detail::in_quotes(name),
                     names_of(entries));
}

Element known_element(const InputFile& file, const Entry& entry) {
  const auto element = element_of_type(entry.type);
  if (!element)
    file.refuse(
        "tensor " + detail::in_quotes(entry.name) + ": dtype " + detail::in_quotes(entry.type),
        "F64 F32 BF16 F16 F8_E4M3 F8_E5M2 I32 I64 or BOOL");
  return *element;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), head_(read_head(file_)) {
  const Json header = parse_header(file_, head_.substr(length_bytes));
  const std::uint64_t data_bytes = file_.size() - head_.size();
  for (const auto& [name, object] : header.items()) {
    if (name != "__metadata__") {
      entries_.push_back(parse_entry(file_, name, object, data_bytes));
    } else if (object.is_object()) {
      for (const auto& [key, text] : object.items())
        if (text.is_string()) metadata_[key] = text.get<std::string>();
    }
  }
  require_tiling(file_, entries_, data_bytes);
}

Tensor SafetensorsFile::read(const Entry& entry) {
  const Element element = known_element(file_, entry);
  if (entry.shape.size() > TensorView::max_rank)
    file_.refuse("tensor " + detail::in_quotes(entry.name) + ": " +
                     std::to_string(entry.shape.size()) + " axes",
                 "at most four");
  Tensor tensor(element, entry.shape);
  file_.read(head_.size() + entry.begin, tensor.bytes());
  return tensor;
}

SafetensorsParts::SafetensorsParts(const std::map<std::string, Tensor>& tensors,
                                   const std::map<std::string, std::string>& metadata) {
  // Wide elements first, so that every tensor is aligned to its elements.
  std::vector<std::pair<std::string, const Tensor*>> order;
  order.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) order.emplace_back(name, &tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return bytes_of(a.second->element()) > bytes_of(b.second->element());
  });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : order) {
    const std::uint64_t end = at + tensor->bytes().size();
    header[name] = {{"dtype", type_of(tensor->element())},
                    {"shape", tensor->shape()},
                    {"data_offsets", {at, end}}};
    elements.push_back(tensor->bytes());
    at = end;
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  head.assign(reinterpret_cast<const char*>(&length), sizeof length);
  head += text;
}

Tensor detail::read_safetensors(const std::filesystem::path& path, const TensorChoice& choice) {
  SafetensorsFile file(path);
  const Entry& entry = choose(file, choice.name);
  require_element(file.file(), choice, known_element(file.file(), entry));
  return file.read(entry);
}

std::vector<std::string> tensor_names(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::vector<std::string> names;
  for (const Entry& e : file.entries()) names.push_back(e.name);
  return names;
}

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, Tensor>& tensors) {
  const SafetensorsParts parts(tensors, {});
  std::vector<std::span<const std::byte>> all{std::as_bytes(std::span(parts.head))};
  all.insert(all.end(), parts.elements.begin(), parts.elements.end());
  write_atomically(path, all);
}

}  // namespace opbound
