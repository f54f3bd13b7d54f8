// The pieces of a report's page: tables whose headers say what they head, parts that open and close
// without a script, and links from a figure to what it was made of.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace opbound::report {

/// A cell's HTML and the classes of the page's style that it has.
struct HtmlCell {
  std::string html;
  std::string kind{};
};

HtmlCell words(std::string_view text, std::string_view kind = {});
/// Aligned as numbers are.
HtmlCell figure(std::string_view text, std::string_view kind = {});

/// A link to a place of this page.
std::string link_to(std::string_view anchor, std::string_view text);

/// Text as an anchor: what is no letter, digit or point becomes '-'.
std::string anchor_of(std::string_view text);

/// A table that scrolls by itself where the page is narrower. The first cell of each row heads it.
class HtmlTable {
 public:
  /// `kind`: a class of the whole table; empty: none. "cards": on a phone each row is a card.
  HtmlTable(std::string caption, std::vector<std::string> titles, std::string kind = {});

  /// One cell for each title. `anchor`: the row can be linked to; empty: it cannot.
  void row(const std::vector<HtmlCell>& cells, std::string_view anchor = {});
  bool is_empty() const { return rows_.empty(); }
  std::string html() const;

 private:
  std::string caption_, kind_, rows_;
  std::vector<std::string> titles_;
  std::set<std::size_t> numeric_;  ///< columns whose titles stand above figures
};

/// A part that is folded away until somebody asks for it, or a link leads into it.
std::string folded(std::string_view summary, std::string_view inner);
/// The page with all of them open, as paper needs it.
std::string unfolded(std::string page);

/// A section with its heading, which `anchor` leads to.
std::string section(std::string_view anchor, std::string_view title, std::string_view inner);
std::string paragraph(std::string_view html, bool is_faint = true);

/// How much of a whole a cell stands for: the class of its colour, h0 (nothing) to h5 (all). Steps
/// are even in the square root, so that a hundredth can be told from nothing.
std::string heat_class(double share);
/// A share as people write it: 57.1%, 0.42%; what is there but less than 0.01% is "<0.01%".
std::string percent(double share);
inline constexpr int heat_levels = 6;

/// The style of a report beside what all pages have.
std::string_view report_style();

}  // namespace opbound::report
