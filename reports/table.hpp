// Tables, made from records alone: for a terminal, Markdown, or CSV.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "reports/record.hpp"

namespace opbound {

enum class Colour : std::uint8_t { plain, good, doubtful, bad };

struct Cell {
  std::string text;
  Colour colour = Colour::plain;
};

/// How a table is laid out on a terminal.
struct Terminal {
  bool unicode = false;
  bool colour = false;
  std::size_t columns = 160;

  /// As the file `descriptor` is: colour only on a terminal and without NO_COLOR (no-color.org) and
  /// TERM=dumb, unicode only on a terminal whose locale says UTF-8, its width as it is but taken
  /// between 60 and 240 columns. A file or pipe gets plain ASCII, as wide as COLUMNS says or,
  /// without it, as it needs; so does everything under mpirun, where ranks write to its terminals.
  static Terminal of(int descriptor);
};

/// A column of a table; text is left-aligned, numbers right-aligned.
struct Column {
  std::string title;
  bool number = false;
  std::size_t least_width = 0;  ///< its text (of numbers, its title) is wrapped to this many
                                ///< columns at the least; 0: only where nothing else helps
  int dispensable = 0;          ///< left out of a terminal too narrow, higher ones first; 0: never
};

/// Rows of text under titles. Every row has one cell for each column.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add_row(std::vector<Cell> cells);
  /// Separates the rows before from the rows after it (on a terminal).
  void add_rule();

  /// Aligned columns. Columns without any text are left out. Where the rest does not fit, text is
  /// wrapped, never cut; then columns are left out and named in a last line, but none of those
  /// whose text alone tells two rows apart (that a number does not apply does, too, in a column
  /// that is never left out).
  std::string terminal(const Terminal& as) const;
  /// Columns without any text are left out.
  std::string markdown() const;
  /// RFC 4180 with "\n" at line ends.
  std::string csv() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<std::size_t> rules_;  // a rule stands before each of these rows
};

/// Verdicts over all records, and the numbers that the exit code and the last line need.
struct Summary {
  VerdictCounts verdicts;
  std::uint64_t allowed_vacuous = 0;  ///< vacuous records that their suite allows by name
  std::uint64_t checked = 0;          ///< elements

  void add(const Record& record);
  /// exit_clean or exit_found.
  int exit_code() const { return opbound::exit_code(verdicts, allowed_vacuous); }
};

Summary summary_of(std::span<const Record> records);

/// One line without newline: "within 312, vacuous 4 (allowed by name), skipped 0, undecided 0,
/// exceeds 0, failed 0; 1.2e7 elements checked".
std::string last_line(const Summary& summary);

enum class TableStyle : std::uint8_t { terminal, markdown, csv };

struct TableOptions {
  TableStyle style = TableStyle::terminal;
  bool all = false;   ///< a row for every record, not only for the worst case of each group
  Terminal terminal;  ///< for TableStyle::terminal
};

/// The error table. A row is the worst case of the records that differ only in case, attributes and
/// place: first by verdict, then by ratio, then by error; its elements are those of all its cases.
/// Rows that make the run fail stand first, then all by op, direction and precision in the order of
/// their first record. Reasons (of failures, skips, allowed vacuous checks) and the last line
/// follow; CSV has rows only, and its numbers in full.
std::string error_table(std::span<const Record> records, const TableOptions& options);

/// A row for each op and precision, in alphabetical order, or with `all` for each part, direction,
/// variant and attributes of them: how many checks, elements and verdicts; over the checks within
/// their bound the largest ratio, the mean and largest number of acceptable values, the largest
/// error and the largest bias; and of the agreement records how many agree. CSV has every verdict
/// and its numbers in full.
std::string overview_table(std::span<const Record> records, const TableOptions& options);

}  // namespace opbound
