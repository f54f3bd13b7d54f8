#include "distributed/alike.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "reports/error.hpp"
#include "suites/sha256.hpp"

namespace opbound {

std::optional<std::int32_t> first_unlike(Engine& engine, std::string_view words) {
  const std::string digest = sha256(std::as_bytes(std::span(words)));
  std::string own;
  for (std::int32_t k = 0; k < engine.local_ranks(); ++k) own += digest;
  const std::vector<std::byte> all = engine.gather(std::as_bytes(std::span(own)));
  const auto width = static_cast<std::ptrdiff_t>(digest.size());
  for (std::int32_t r = 1; r < engine.ranks(); ++r)
    if (!std::equal(all.begin(), all.begin() + width, all.begin() + r * width)) return r;
  return std::nullopt;
}

void all_or_none(Engine& engine, const std::function<void()>& action) {
  std::optional<InputError> failure;
  try {
    action();
  } catch (const InputError& e) {
    failure = e;
  }
  const std::vector<std::byte> own(static_cast<std::size_t>(engine.local_ranks()),
                                   static_cast<std::byte>(failure.has_value()));
  const std::vector<std::byte> all = engine.gather(own);
  if (failure) throw *failure;
  const auto first = std::ranges::find(all, std::byte{1});
  if (first != all.end())
    throw InputError("rank " + std::to_string(first - all.begin()), "it cannot begin",
                     "what it says itself");
}

}  // namespace opbound
