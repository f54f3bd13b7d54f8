// NumPy's .npy format, versions 1.0 to 3.0 (numpy.lib.format): a magic string, a header that is a
// Python dictionary, and the elements.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "suites/tensor_file.hpp"

namespace opbound {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
/// A header of four axes takes 128 bytes; NumPy itself refuses headers above 10,000.
constexpr std::uint64_t longest_header = 10000;

struct Header {
  std::string type;
  bool fortran_order = false;
  Shape shape;
};

/// The dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } in any order.
class HeaderParser {
 public:
  HeaderParser(const InputFile& file, std::string_view text) : file_(file), rest_(text) {}

  Header parse() {
    Header header;
    unsigned seen = 0;
    expect('{');
    while (!accept('}')) {
      const unsigned key = parse_entry(header);
      if ((seen & key) != 0) refuse("a key twice", "each key once");
      seen |= key;
      if (!accept(',') && peek() != '}') refuse("no ',' after a value", "',' or '}'");
    }
    if (peek() != '\0') refuse("text after the dictionary", "its end");
    if (seen != 7) refuse("a key is missing", "descr, fortran_order and shape");
    return header;
  }

 private:
  unsigned parse_entry(Header& header) {
    const std::string key = parse_string();
    expect(':');
    if (key == "descr") {
      if (peek() == '[') refuse("a structured type", "one element type");
      header.type = parse_string();
      return 1;
    }
    if (key == "fortran_order") {
      header.fortran_order = accept_word("True");
      if (!header.fortran_order && !accept_word("False"))
        refuse("a bad fortran_order", "True or False");
      return 2;
    }
    if (key != "shape") refuse("key " + detail::in_quotes(key), "descr, fortran_order or shape");
    header.shape = parse_shape();
    return 4;
  }

  Shape parse_shape() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      shape.push_back(parse_size());
      if (shape.size() > TensorView::max_rank) refuse("more than four axes", "at most four");
      if (!accept(',') && peek() != ')') refuse("no ',' after an axis", "',' or ')'");
    }
    return shape;
  }

  std::int64_t parse_size() {
    std::int64_t size = 0;
    skip_space();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
    if (error != std::errc{} || size < 0) refuse("a bad axis", "a size from 0 to 2^63 - 1");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return size;
  }

  std::string parse_string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') refuse("no quote", "a quoted string");
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) refuse("an open quote", "a quoted string");
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  /// The next character after spaces; '\0' at the end.
  char peek() {
    skip_space();
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool accept(char c) {
    if (c != peek()) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  void expect(char c) {
    if (!accept(c)) refuse("an unexpected character", std::string{'\'', c, '\''});
  }
  void skip_space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\t\r"), rest_.size()));
  }
  [[noreturn]] void refuse(const std::string& what, std::string_view expected) const {
    file_.refuse("header: " + what, expected);
  }

  const InputFile& file_;
  std::string_view rest_;
};

struct Type {
  std::string_view text;
  Element element;
};

/// ml_dtypes saves bf16 as two opaque bytes, and e5m2 alone as a one-byte float.
constexpr std::array types{Type{"<f8", Element::fp64},         Type{"<f4", Element::fp32},
                           Type{"<f2", Element::fp16},         Type{"<i4", Element::int32},
                           Type{"<i8", Element::int64},        Type{"|b1", Element::boolean},
                           Type{"<V2", Element::bf16},         Type{"|V2", Element::bf16},
                           Type{"bfloat16", Element::bf16},    Type{"float8_e4m3fn", Element::e4m3},
                           Type{"float8_e5m2", Element::e5m2}, Type{"<f1", Element::e5m2}};

/// Unsigned or opaque bits of as many bytes as the element asked for; where an integer is asked
/// for, unsigned ones are integers of another type.
bool is_raw(std::string_view type, Element wanted) {
  const bool is_integer = wanted == Element::int64 || wanted == Element::int32;
  return type.size() == 3 && (type[0] == '<' || type[0] == '|') &&
         (type[1] == 'V' || (type[1] == 'u' && !is_integer)) && type[2] - '0' == bytes_of(wanted);
}

Element element_of_type(const InputFile& file, const std::string& type,
                        const TensorChoice& choice) {
  if (choice.element && is_raw(type, *choice.element)) return *choice.element;
  if (type.starts_with('>'))
    file.refuse("big-endian elements " + detail::in_quotes(type), "little-endian ones ('<')");
  for (const Type& t : types) {
    if (t.text != type) continue;
    detail::require_element(file, choice, t.element);
    return t.element;
  }
  if (choice.element == Element::int64)
    file.refuse("element type " + detail::in_quotes(type), "int64 ('<i8') or int32 ('<i4')");
  file.refuse("element type " + detail::in_quotes(type),
              "<f8 <f4 <f2 <V2 <i4 <i8 |b1, or raw bits ('<u2' '|u1' '|V1') with a named format");
}

/// The bytes of a column-major tensor in row-major order.
Tensor row_major(const Tensor& columns) {
  Shape reversed = columns.shape();
  std::reverse(reversed.begin(), reversed.end());
  const TensorView stored = contiguous_view(columns.element(), reversed, nullptr);
  TensorView logical = contiguous_view(columns.element(), columns.shape(), nullptr);
  for (int axis = 0; axis < logical.rank; ++axis)
    logical.stride[axis] = stored.stride[logical.rank - 1 - axis];
  Tensor rows(columns.element(), columns.shape());
  const auto width = static_cast<std::size_t>(bytes_of(columns.element()));
  for (std::int64_t i = 0, n = rows.count(); i < n; ++i)
    std::memcpy(rows.bytes().data() + static_cast<std::size_t>(i) * width,
                columns.bytes().data() + static_cast<std::size_t>(logical.offset(i)) * width,
                width);
  return rows;
}

/// The type string that says most about a tensor's elements.
std::string_view type_of(Element e) {
  switch (e) {
    case Element::fp64:
      return "<f8";
    case Element::fp32:
    case Element::tf32:
      return "<f4";
    case Element::fp16:
      return "<f2";
    case Element::bf16:
      return "<V2";
    case Element::int32:
      return "<i4";
    case Element::int64:
      return "<i8";
    case Element::boolean:
      return "|b1";
    default:
      return "|V1";
  }
}

}  // namespace

Tensor detail::read_npy(InputFile& file, const TensorChoice& choice) {
  constexpr std::uint64_t versioned = magic.size() + 2;
  if (file.size() < versioned || file.text(0, magic.size()) != magic)
    file.refuse("does not begin with the magic string of .npy", "\\x93NUMPY");
  const std::string version = file.text(magic.size(), 2);
  if (version[0] < 1 || version[0] > 3 || version[1] != 0)
    file.refuse("version " + std::to_string(static_cast<unsigned char>(version[0])) + "." +
                    std::to_string(static_cast<unsigned char>(version[1])),
                "1.0, 2.0 or 3.0");
  const std::uint64_t length_bytes = version[0] == 1 ? 2 : 4;
  std::uint32_t header_bytes = 0;
  file.read(versioned, std::as_writable_bytes(std::span(&header_bytes, 1)).first(length_bytes));
  if (header_bytes > longest_header)
    file.refuse("a header of " + std::to_string(header_bytes) + " bytes",
                "at most " + std::to_string(longest_header));
  const std::uint64_t header_at = versioned + length_bytes;
  const Header header = HeaderParser(file, file.text(header_at, header_bytes)).parse();

  const Element element = element_of_type(file, header.type, choice);
  const auto bytes = bytes_of_shape(header.shape, static_cast<std::uint64_t>(bytes_of(element)));
  const std::uint64_t data_at = header_at + header_bytes;
  if (!bytes || *bytes != file.size() - data_at)
    file.refuse(std::to_string(file.size() - data_at) + " bytes of elements",
                (bytes ? std::to_string(*bytes) : "more than 2^63") + " for shape " +
                    text_of(header.shape));
  Tensor tensor(element, header.shape);
  file.read(data_at, tensor.bytes());
  return header.fortran_order && header.shape.size() > 1 ? row_major(tensor) : tensor;
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  std::string shape = detail::text_of(tensor.shape());
  if (tensor.shape().size() == 1) shape.insert(shape.size() - 1, ",");  // a Python tuple of one
  std::string header = "{'descr': '" + std::string(type_of(tensor.element())) +
                       "', 'fortran_order': False, 'shape': " + shape + ", }";
  // Elements start at a multiple of 64 bytes; the header ends with a line feed.
  constexpr std::size_t before = magic.size() + 4;
  header.resize((before + header.size() + 64) / 64 * 64 - before, ' ');
  header.back() = '\n';
  std::string start(magic);
  start += {1, 0, static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
  start += header;
  const std::array<std::span<const std::byte>, 2> parts{std::as_bytes(std::span(start)),
                                                        tensor.bytes()};
  write_atomically(path, parts);
}

}  // namespace opbound
