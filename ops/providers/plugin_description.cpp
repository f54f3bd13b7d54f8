#include "ops/providers/plugin_description.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

#include "ops/providers/plugin.hpp"

namespace opbound::detail {
namespace {

constexpr std::array<std::string_view, 12> function_names{
    "exp", "exp2", "expm1", "log", "log1p", "tanh", "erf", "erfc", "sin", "cos", "rsqrt", "pow"};
static_assert(function_names.size() == FunctionErrors{}.ulp.size());

std::vector<int> read_variants(const Op& op, std::string_view text) {
  if (text.empty()) return every_variant(op);
  std::vector<int> variants;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('|'), text.size());
    const std::string name(text.substr(0, end));
    variants.push_back(op.variant_named(name));
    if (variants.back() < 0)
      throw NotAPlugin("lists variant '" + name + "' of " + std::string(op.name),
                       "one that `opbound list variants` prints");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return variants;
}

Listed read_listed(const std::string& op, const std::string& direction,
                   const std::string& variants) {
  Listed listed;
  listed.op = find_op(op);
  if (listed.op == nullptr)
    throw NotAPlugin("lists op '" + op + "'", "one that `opbound list ops` prints");
  if (!direction.empty() && direction != "forward" && direction != "backward")
    throw NotAPlugin("lists direction '" + direction + "' of " + op, "forward, backward or NULL");
  listed.forward = direction != "backward";
  listed.backward = direction != "forward";
  listed.variants = read_variants(*listed.op, variants);
  return listed;
}

void read_function(const std::string& name, const std::string& ulp, FunctionErrors& errors) {
  const auto place = std::find(function_names.begin(), function_names.end(), name);
  if (place == function_names.end())
    throw NotAPlugin("lists function '" + name + "'", "one that ops/provider.h names");
  double& error = errors.ulp[static_cast<std::size_t>(place - function_names.begin())];
  const auto read = std::from_chars(ulp.data(), ulp.data() + ulp.size(), error);
  if (read.ec != std::errc{} || !(error >= 0) || !std::isfinite(error))
    throw NotAPlugin("lists function " + name + " with an error of " + ulp + " ulp",
                     "a number from 0 on");
}

/// Texts one by one.
class Texts {
 public:
  explicit Texts(const std::vector<std::string>& all) : at_(all.begin()), end_(all.end()) {}

  bool is_empty() const { return at_ == end_; }
  std::string next() {
    if (is_empty()) refuse();
    return *at_++;
  }
  std::uint64_t count() {
    const std::optional<std::uint64_t> number = whole_number(next());
    if (!number) refuse();
    return *number;
  }

 private:
  [[noreturn]] static void refuse() {
    throw NotAPlugin("describes itself in texts that cannot be read",
                     "a plug-in that leaves opbound's memory and sockets alone");
  }

  std::vector<std::string>::const_iterator at_, end_;
};

}  // namespace

std::vector<int> Listed::allowed(const AttributeBytes& attributes) const {
  std::vector<int> all;
  std::copy_if(variants.begin(), variants.end(), std::back_inserter(all),
               [&](int v) { return op->allows(attributes, v); });
  return all;
}

bool contains(const std::vector<int>& all, int one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

std::vector<int> every_variant(const Op& op) {
  std::vector<int> all;
  for (std::size_t v = 0; v < op.variants.size(); ++v) all.push_back(static_cast<int>(v));
  return all;
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  return number;
}

Description::Description(const std::vector<std::string>& all) {
  Texts texts(all);
  name = texts.next();
  version = texts.next();
  device = texts.next();
  why_no_device = texts.next();
  asks = !texts.next().empty();
  if (name == "own" || name == "file")
    throw NotAPlugin("is named '" + name + "', which is opbound's", "another name");
  for (std::uint64_t left = texts.count(); left > 0; --left) {
    const std::string op = texts.next(), direction = texts.next();
    listed.push_back(read_listed(op, direction, texts.next()));
  }
  for (std::uint64_t left = texts.count(); left > 0; --left) {
    const std::string function = texts.next();
    read_function(function, texts.next(), functions);
  }
  while (!texts.is_empty()) {
    const std::string entry = texts.next();
    const auto is_it = [&](const auto& other) { return other.first == entry; };
    if (entry.empty() || entry == plugin_file_key ||
        std::any_of(environment.begin(), environment.end(), is_it))
      throw NotAPlugin("has the environment entry '" + entry + "'", "names of its own, each once");
    environment.emplace_back(entry, texts.next());
  }
}

std::vector<int> Description::variants_for(const Op& op, Direction direction,
                                           const AttributeBytes& attributes, int variant) const {
  const Listed any{&op, true, true, every_variant(op)};
  const auto row = [&](bool is_backward) -> const Listed* {
    if (listed.empty()) return &any;
    for (const Listed& l : listed)
      if (l.op == &op && (is_backward ? l.backward : l.forward) &&
          contains(l.allowed(attributes), variant))
        return &l;
    return nullptr;
  };
  const Listed* forward = direction == Direction::backward_local ? nullptr : row(false);
  const Listed* backward = direction == Direction::forward ? nullptr : row(true);
  if (direction != Direction::backward_full) {
    const Listed* one = direction == Direction::forward ? forward : backward;
    return one == nullptr ? std::vector<int>{} : one->allowed(attributes);
  }
  if (forward == nullptr || backward == nullptr) return {};
  const std::vector<int> both = forward->allowed(attributes);
  if (forward == backward) return both;
  // two kernels that may each be one of several have no bound of one variant for both passes
  return both.size() == 1 && both == backward->allowed(attributes) ? both : std::vector<int>{};
}

}  // namespace opbound::detail
