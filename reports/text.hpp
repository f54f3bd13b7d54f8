// Numbers and foreign words as a reader sees them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opbound {

/// x in decimal with the fewest digits that are read back as x; "inf", "-inf", "nan".
std::string shortest(double x);

/// x to two or three digits: 0.71, 12.30, 317, 3.2e-4, 1.2e7. Where these would read as 0.50 or
/// 1.00 and x is not that (the edges of correct rounding and of a bound), up to five digits after
/// the point are shown, and then "<1.00" or ">1.00".
std::string legible(double x);

/// n in full up to 99999, else like 1.2e7.
std::string legible(std::uint64_t n);

/// `text` for one line of a terminal: control characters become '?', so that no word of a file can
/// move the cursor or start a line; so do bytes that are not UTF-8, and all of U+0080 and above
/// unless `unicode`.
std::string printable(std::string_view text, bool unicode);

/// Columns that printable text takes: its code points, each taken for one column wide.
std::size_t width_of(std::string_view text);

/// The first `columns` columns of printable text, the last of them saying that something is left
/// out if something is.
std::string shortened(const std::string& text, std::size_t columns, bool unicode);

/// Printable text in lines of at most `columns` columns, nothing left out: a line ends after a
/// space (which goes) or one of : _ , ( | = / where it can, and within a longer piece where it
/// must.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

/// The columns of the longest piece that `wrapped` need not break.
std::size_t longest_piece(std::string_view text);

}  // namespace opbound
