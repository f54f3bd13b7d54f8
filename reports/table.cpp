#include "reports/table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
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

/// Narrower than this no table is read, wider no line.
std::size_t usable(std::size_t columns) { return std::clamp<std::size_t>(columns, 60, 240); }

/// COLUMNS of POSIX, if it is a number: the width of an output that has none of its own.
std::optional<std::size_t> environment_columns() {
  const std::string text = environment_value("COLUMNS");
  std::size_t columns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
  const bool is_number = error == std::errc{} && end == text.data() + text.size() && columns > 0;
  return is_number ? std::optional(usable(columns)) : std::nullopt;
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

using Texts = std::vector<std::vector<std::string>>;  // of every row, a cell for each column

/// Where nothing else helps, text is wrapped down to this, or to the longest piece if that is less.
constexpr std::size_t narrowest = 10;

/// The columns that stay, and how wide they are.
class Layout {
 public:
  Layout(const std::vector<Column>& columns, const Texts& texts, std::size_t available)
      : columns_(columns), texts_(texts), natural_(columns.size(), 0) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      for (const auto& row : texts) natural_[c] = std::max(natural_[c], width_of(row[c]));
      if (natural_[c] == 0) continue;  // a column without text
      natural_[c] = std::max(natural_[c], width_of(columns[c].title));
      shown.push_back(c);
    }
    const auto willing = [&](std::size_t c) {
      const std::size_t least = columns[c].least_width;
      return least > 0 && columns[c].number ? std::max(least, least_width(c)) : least;
    };
    widths = natural_;
    narrow(available, willing);
    while (total() > available && leave_out()) {
      widths = natural_;
      narrow(available, willing);
    }
    narrow(available, [&](std::size_t c) { return least_width(c); });
  }

  std::size_t total() const {
    std::size_t sum = shown.empty() ? 0 : gap.size() * (shown.size() - 1);
    for (const std::size_t c : shown) sum += widths[c];
    return sum;
  }

  std::vector<std::size_t> shown, left_out, widths;

 private:
  /// Narrows the widest column that is above its least width (0: never) until the table fits.
  template <class Least>
  void narrow(std::size_t available, Least least) {
    while (total() > available) {
      const auto room = [&](std::size_t c) {
        return least(c) == 0 || widths[c] <= least(c) ? 0 : widths[c];
      };
      const auto widest = std::ranges::max_element(shown, {}, room);
      if (widest == shown.end() || room(*widest) == 0) return;
      --widths[*widest];
    }
  }

  /// Numbers stay in one line, their title need not.
  std::size_t least_width(std::size_t c) const {
    std::size_t longest = 0;
    for (const auto& row : texts_)
      longest = std::max(longest, columns_[c].number ? width_of(row[c]) : longest_piece(row[c]));
    if (!columns_[c].number) longest = std::min(longest, narrowest);
    return std::max(longest, std::min(longest_piece(columns_[c].title), narrowest));
  }

  /// How many rows these columns tell apart: by their text, and by a number that does not apply in
  /// a column that always stays.
  std::size_t kinds_of_rows(const std::vector<std::size_t>& columns) const {
    std::set<std::vector<std::string>> kinds;
    for (const auto& row : texts_) {
      std::vector<std::string> names;
      for (const std::size_t c : columns)
        if (!columns_[c].number)
          names.push_back(row[c]);
        else if (columns_[c].dispensable == 0)
          names.emplace_back(row[c].empty() ? "" : "a number");
      kinds.insert(std::move(names));
    }
    return kinds.size();
  }

  /// The most dispensable column without which rows stay apart.
  bool leave_out() {
    std::vector<std::size_t> order = shown;
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](std::size_t c) { return columns_[c].dispensable; });
    for (const std::size_t c : order) {
      if (columns_[c].dispensable == 0) break;
      std::vector<std::size_t> rest = shown;
      std::erase(rest, c);
      if (kinds_of_rows(rest) < kinds_of_rows(shown)) continue;
      left_out.push_back(c);
      shown = std::move(rest);
      return true;
    }
    return false;
  }

  const std::vector<Column>& columns_;
  const Texts& texts_;
  std::vector<std::size_t> natural_;
};

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
  // Open MPI gives every rank a terminal of its own, whatever mpirun's output goes to
  const bool is_terminal =
      isatty(descriptor) != 0 && std::getenv("OMPI_COMM_WORLD_RANK") == nullptr;
  t.columns = environment_columns().value_or(
      is_terminal ? t.columns : std::numeric_limits<std::int32_t>::max());
  if (!is_terminal) return t;
  const std::string type = environment_value("TERM");
  t.colour = environment_value("NO_COLOR").empty() && !type.empty() && type != "dumb";
  t.unicode = locale_is_utf8();
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) t.columns = usable(size.ws_col);
  return t;
}

void Table::add_row(std::vector<Cell> cells) {
  if (cells.size() != columns_.size()) throw std::logic_error("a row with a cell per column");
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rules_.push_back(rows_.size()); }

std::string Table::terminal(const Terminal& as) const {
  Texts texts;
  for (const auto& row : rows_) {
    auto& line = texts.emplace_back();
    for (const Cell& cell : row) line.push_back(printable(cell.text, as.unicode));
  }
  const Layout layout(columns_, texts, as.columns);

  // A row takes as many lines as its longest cell.
  const auto lines_of = [&](const auto& text_of, const auto& colour_of) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 0;
    for (const std::size_t c : layout.shown) {
      cells.push_back(wrapped(text_of(c), layout.widths[c]));
      height = std::max(height, cells.back().size());
    }
    std::string lines;
    for (std::size_t k = 0; k < height; ++k) {
      std::string line;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const std::size_t c = layout.shown[i];
        const bool has_text = k < cells[i].size();
        const std::string text =
            padded(has_text ? cells[i][k] : "", layout.widths[c], columns_[c].number);
        line += as.colour && has_text ? coloured(text, colour_of(c)) : text;
        line += gap;
      }
      lines += without_trailing_space(line) + "\n";
    }
    return lines;
  };

  std::string rule;
  for (std::size_t i = 0; i < layout.total(); ++i) rule += as.unicode ? "\u2500" : "-";
  rule += "\n";
  std::string to = lines_of([&](std::size_t c) { return columns_[c].title; },
                            [](std::size_t) { return Colour::plain; }) +
                   rule;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (r > 0 && std::ranges::count(rules_, r) > 0) to += rule;
    to += lines_of([&](std::size_t c) { return texts[r][c]; },
                   [&](std::size_t c) { return rows_[r][c].colour; });
  }
  if (layout.left_out.empty()) return to;
  std::string note = "too narrow for:";
  for (const std::size_t c : layout.left_out) note += " [" + columns_[c].title + "]";
  for (const std::string& line : wrapped(note, as.columns)) to += line + "\n";
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
