#include "reports/table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string_view>

#include "reports/text.hpp"

namespace opbound {
namespace {

constexpr std::string_view gap = "  ";

std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// POSIX: LC_ALL outranks LC_CTYPE outranks LANG; an empty one does not count.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = environment_value(name);
    if (value.empty()) continue;
    std::ranges::transform(value, value.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

std::string coloured(const std::string& text, Colour colour) {
  switch (colour) {
    case Colour::good:
      return "\033[32m" + text + "\033[0m";
    case Colour::doubtful:
      return "\033[33m" + text + "\033[0m";
    case Colour::bad:
      return "\033[1;31m" + text + "\033[0m";
    case Colour::plain:
      break;
  }
  return text;
}

/// The columns that stay, and how wide they are.
struct Layout {
  std::vector<std::size_t> columns;
  std::vector<std::size_t> widths;  // of all columns of the table
  std::vector<std::size_t> left_out;

  std::size_t total() const {
    std::size_t sum = columns.empty() ? 0 : gap.size() * (columns.size() - 1);
    for (const std::size_t c : columns) sum += widths[c];
    return sum;
  }
};

/// Narrows the widest shortenable column until the table fits or none can be narrowed any more.
void shorten(Layout& layout, const std::vector<Column>& columns, std::size_t available) {
  while (layout.total() > available) {
    const auto room = [&](std::size_t c) {
      const std::size_t least = columns[c].least_width;
      return least == 0 || layout.widths[c] <= least ? 0 : layout.widths[c];
    };
    const auto widest = std::ranges::max_element(layout.columns, {}, room);
    if (widest == layout.columns.end() || room(*widest) == 0) return;
    --layout.widths[*widest];
  }
}

Layout lay_out(const std::vector<Column>& columns, const std::vector<std::size_t>& natural,
               std::size_t available) {
  Layout layout{{}, natural, {}};
  for (std::size_t c = 0; c < columns.size(); ++c)
    if (natural[c] > 0) layout.columns.push_back(c);
  for (;;) {
    layout.widths = natural;
    shorten(layout, columns, available);
    const auto least_needed = std::ranges::max_element(
        layout.columns, {}, [&](std::size_t c) { return columns[c].dispensable; });
    if (layout.total() <= available || least_needed == layout.columns.end() ||
        columns[*least_needed].dispensable == 0)
      return layout;
    layout.left_out.push_back(*least_needed);
    layout.columns.erase(least_needed);
  }
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
}

std::string without_trailing_space(std::string line) {
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

std::string markdown_cell(const std::string& text) {
  std::string escaped;
  for (const char c : printable(text, true)) {
    if (c == '|' || c == '\\' || c == '<' || c == '*' || c == '_' || c == '`') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

Terminal Terminal::of(int descriptor) {
  Terminal t;
  if (isatty(descriptor) == 0) return t;
  const std::string type = environment_value("TERM");
  t.colour = environment_value("NO_COLOR").empty() && !type.empty() && type != "dumb";
  t.unicode = locale_is_utf8();
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    t.columns = std::clamp<std::size_t>(size.ws_col, 100, 160);
  return t;
}

void Table::add_row(std::vector<Cell> cells) {
  if (cells.size() != columns_.size()) throw std::logic_error("a row with a cell per column");
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rules_.push_back(rows_.size()); }

std::string Table::terminal(const Terminal& as) const {
  std::vector<std::vector<std::string>> texts;
  std::vector<std::size_t> natural(columns_.size(), 0);
  for (const auto& row : rows_) {
    auto& line = texts.emplace_back();
    for (std::size_t c = 0; c < row.size(); ++c) {
      line.push_back(printable(row[c].text, as.unicode));
      natural[c] = std::max(natural[c], width_of(line[c]));
    }
  }
  for (std::size_t c = 0; c < columns_.size(); ++c)  // a column without text is left out
    if (natural[c] > 0) natural[c] = std::max(natural[c], width_of(columns_[c].title));
  const Layout layout = lay_out(columns_, natural, as.columns);

  const auto cell = [&](const std::string& text, std::size_t c) {
    return padded(shortened(text, layout.widths[c], as.unicode), layout.widths[c],
                  columns_[c].number);
  };
  std::string rule;
  for (std::size_t i = 0; i < layout.total(); ++i) rule += as.unicode ? "\u2500" : "-";
  std::string to, titles;
  for (const std::size_t c : layout.columns) titles += cell(columns_[c].title, c).append(gap);
  to += without_trailing_space(titles) + "\n" + rule + "\n";
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (r > 0 && std::ranges::count(rules_, r) > 0) to += rule + "\n";
    std::string line;
    for (const std::size_t c : layout.columns) {
      const std::string text = cell(texts[r][c], c);
      line += as.colour ? coloured(text, rows_[r][c].colour) : text;
      line += gap;
    }
    to += without_trailing_space(line) + "\n";
  }
  if (!layout.left_out.empty()) {
    to += "too narrow for:";
    for (const std::size_t c : layout.left_out) to += " [" + columns_[c].title + "]";
    to += "\n";
  }
  return to;
}

std::string Table::markdown() const {
  std::string titles = "|", line = "|";
  std::vector<std::string> rows(rows_.size(), "|");
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const auto has_text = [c](const auto& row) { return !row[c].text.empty(); };
    if (std::ranges::none_of(rows_, has_text)) continue;
    titles += " " + columns_[c].title + " |";
    line += columns_[c].number ? " ---: |" : " --- |";
    for (std::size_t r = 0; r < rows.size(); ++r)
      rows[r] += " " + markdown_cell(rows_[r][c].text) + " |";
  }
  std::string to = titles + "\n" + line + "\n";
  for (const std::string& row : rows) to += row + "\n";
  return to;
}

std::string Table::csv() const {
  std::string to;
  for (const Column& c : columns_) to += (to.empty() ? "" : ",") + csv_cell(c.title);
  to += "\n";
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) to += (c > 0 ? "," : "") + csv_cell(row[c].text);
    to += "\n";
  }
  return to;
}

}  // namespace opbound
