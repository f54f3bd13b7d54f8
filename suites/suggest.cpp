#include "suites/suggest.hpp"

#include <algorithm>
#include <vector>

#include "suites/tensor_file.hpp"

namespace opbound::detail {
namespace {

/// The least number of insertions, deletions, substitutions and swaps of neighbours (Damerau 1964),
/// no letter touched twice.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const std::size_t substituted = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string in_quotes_with_suggestion(std::string_view name,
                                      std::span<const std::string_view> known) {
  const std::string quoted = in_quotes(name);
  constexpr std::size_t longest = 60;
  if (known.empty() || name.size() > longest) return quoted;
  const auto nearest = *std::min_element(known.begin(), known.end(), [&](auto a, auto b) {
    return edit_distance(name, a) < edit_distance(name, b);
  });
  const bool is_near = 3 * edit_distance(name, nearest) <= std::max(name.size(), nearest.size());
  return is_near ? quoted + " (" + std::string(nearest) + "?)" : quoted;
}

std::string one_of(std::span<const std::string_view> names) {
  std::string text = names.size() == 1 ? "" : "one of ";
  for (std::size_t i = 0; i < names.size(); ++i) text.append(i == 0 ? "" : ", ").append(names[i]);
  return text;
}

}  // namespace opbound::detail
