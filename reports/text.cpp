#include "reports/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace opbound {
namespace {

template <class... Form>
std::string decimal(double x, Form... form) {
  std::array<char, 400> digits{};  // the largest fp64 has 309 before the point
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), x, form...);
  return {digits.data(), end.ptr};
}

/// Two-digit scientific form without padding: 3.2e-4.
std::string scientific(double x) {
  std::string text = decimal(x, std::chars_format::scientific, 1);
  const std::size_t exponent = text.find('e') + 1;
  if (text[exponent] == '+') text.erase(exponent, 1);
  const std::size_t digits = exponent + (text[exponent] == '-' ? 1 : 0);
  if (text[digits] == '0' && digits + 1 < text.size()) text.erase(digits, 1);
  return text;
}

/// Length of the UTF-8 sequence at the start of `text` (Unicode 15, table 3-7), 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&](std::size_t i) { return byte(i) >= 0x80 && byte(i) <= 0xbf; };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && second < 0xa0;
    const bool surrogate = first == 0xed && second > 0x9f;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && second < 0x90;
    const bool beyond = first == 0xf4 && second > 0x8f;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

bool is_control(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7f;
  const auto second = static_cast<unsigned char>(sequence[1]);
  if (sequence.size() == 2) return first == 0xc2 && second < 0xa0;  // U+0080 to U+009F
  // Line and paragraph separators and the marks that turn the writing direction: U+200B to U+200F,
  // U+2028 to U+202E, U+2066 to U+2069.
  const auto third = static_cast<unsigned char>(sequence[2]);
  if (sequence.size() != 3 || first != 0xe2) return false;
  return (second == 0x80 &&
          ((third >= 0x8b && third <= 0x8f) || (third >= 0xa8 && third <= 0xae))) ||
         (second == 0x81 && third >= 0xa6 && third <= 0xa9);
}

/// Takes the first `columns` columns off `text`.
std::string_view take_columns(std::string_view& text, std::size_t columns) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < columns && bytes < text.size(); ++i)
    bytes += std::max<std::size_t>(sequence_length(text.substr(bytes)), 1);
  const std::string_view taken = text.substr(0, bytes);
  text.remove_prefix(bytes);
  return taken;
}

/// The bytes up to and with the first place where a line may end.
std::size_t piece_length(std::string_view text) {
  return std::min(text.find_first_of(" :_,(|=/"), text.size() - 1) + 1;
}

std::string_view without_last_space(std::string_view text) {
  if (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string shortest(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  return decimal(x);
}

std::string legible(double x) {
  const double a = std::abs(x);
  if (!std::isfinite(x)) return shortest(x);
  if (a == 0) return "0";
  if (a < 0.0995 || a >= 99999.5) return scientific(x);
  if (a >= 99.995) return decimal(x, std::chars_format::fixed, 0);
  std::string text = decimal(x, std::chars_format::fixed, 2);
  const auto reads_as_edge = [&] {
    const double shown = std::abs(std::strtod(text.c_str(), nullptr));
    return shown != a && (shown == 0.5 || shown == 1.0);
  };
  for (int digits = 3; digits <= 5 && reads_as_edge(); ++digits)
    text = decimal(x, std::chars_format::fixed, digits);
  if (!reads_as_edge()) return text;
  const std::string edge = decimal(x, std::chars_format::fixed, 2);
  return (x < std::strtod(edge.c_str(), nullptr) ? "<" : ">") + edge;
}

std::string legible(std::uint64_t n) {
  return n <= 99999 ? std::to_string(n) : scientific(static_cast<double>(n));
}

std::string printable(std::string_view text, bool unicode) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    const bool shown = length == 1 || (length > 1 && unicode);
    if (shown && !is_control(sequence))
      clean += sequence;
    else
      clean += '?';
    text.remove_prefix(sequence.size());
  }
  return clean;
}

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string shortened(const std::string& text, std::size_t columns, bool unicode) {
  if (width_of(text) <= columns) return text;
  const std::string_view mark = unicode ? "\u2026" : "~";
  if (columns == 0) return {};
  std::string_view rest = text;
  return std::string(take_columns(rest, columns - 1)) + std::string(mark);
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  columns = std::max<std::size_t>(columns, 1);
  std::vector<std::string> lines(1);
  const auto add = [&](std::string_view piece) {
    if (!lines.back().empty() &&
        width_of(lines.back()) + width_of(without_last_space(piece)) > columns)
      lines.emplace_back();
    while (width_of(without_last_space(piece)) > columns) {
      lines.back() = take_columns(piece, columns);
      lines.emplace_back();
    }
    lines.back() += piece;
  };
  while (!text.empty()) {
    std::string_view word = text.substr(0, std::min(text.find(' '), text.size() - 1) + 1);
    text.remove_prefix(word.size());
    if (width_of(without_last_space(word)) <= columns) add(std::exchange(word, {}));
    for (; !word.empty(); word.remove_prefix(piece_length(word)))
      add(word.substr(0, piece_length(word)));
  }
  for (std::string& line : lines) line = without_last_space(line);
  return lines;
}

std::size_t longest_piece(std::string_view text) {
  std::size_t longest = 0;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, piece_length(text));
    text.remove_prefix(piece.size());
    longest = std::max(longest, width_of(without_last_space(piece)));
  }
  return longest;
}

}  // namespace opbound
