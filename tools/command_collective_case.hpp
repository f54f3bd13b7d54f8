// Words of `opbound collective`, and the cases that they choose.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "distributed/check.hpp"
#include "distributed/engines.hpp"
#include "reports/error.hpp"
#include "suites/suggest.hpp"

namespace CLI {
class App;
}

namespace opbound {

struct CollectiveOptions {
  std::vector<std::string> collectives, orders, precisions{"fp32", "bf16:fp32:bf16"}, attributes;
  std::vector<std::string> tensors, required;
  std::string engine, input = "normal", out, plot;
  EngineOptions ranks{};  ///< its seed is that of the elements too
  std::int64_t size = 256;
  std::vector<double> overflow{1000, 100};
  bool by_ranks = false, quiet = false, reveals = false;
};

/// Declares them; `options` has to live as long as the command.
void add_collective_options(CLI::App& command, CollectiveOptions& options);

/// Is the balanced tree the one order that was asked for?
bool is_in_tree(const CollectiveOptions& options);

/// InputError for an option that would change nothing.
void require_effects(const CollectiveOptions& options, const EngineKind& engine,
                     const std::optional<Launched>& rank);

/// The place of a word in a list. InputError with the list for any other.
template <class Names>
std::size_t place_of(const std::string& word, const Names& names, const char* option) {
  const auto place = std::find(names.begin(), names.end(), word);
  if (place == names.end()) {
    const std::vector<std::string_view> known(names.begin(), names.end());
    throw InputError(option, "unknown " + detail::in_quotes_with_suggestion(word, known),
                     detail::one_of(known));
  }
  return static_cast<std::size_t>(place - names.begin());
}

/// Tensors from words like "weight=4096", one behind the other, which fill a message of `size`.
std::vector<TensorRange> read_tensors_of(const std::vector<std::string>& words, std::int64_t size);

/// One case. InputError for a word that is wrong, and for more elements than a tensor may have.
CollectiveSpec spec_of(const CollectiveOptions& options, const std::string& precision,
                       Collective collective, int order, std::int32_t ranks);

/// The orders named, or all that ranks can keep by handing on sums.
std::vector<int> orders_of(const CollectiveOptions& options);

/// Every case that the options choose; those of an order that a collective cannot have only where
/// the order is named.
std::vector<CollectiveSpec> cases_of(const CollectiveOptions& options, const Engine& engine);

}  // namespace opbound
