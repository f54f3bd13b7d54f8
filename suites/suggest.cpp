#include "suites/suggest.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "suites/tensor_file.hpp"

namespace opbound::detail {
namespace {

/// The least number of insertions, deletions and substitutions (Levenshtein 1965; the row by row
/// algorithm of Wagner and Fischer 1974).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, substituted});
    }
  }
  return row.back();
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
