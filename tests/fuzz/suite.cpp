// Suites. The file's name has to be the op's, so it is taken from the text.
#include "suites/suite.hpp"

#include <algorithm>
#include <cctype>

#include "suites/rerun.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {
namespace {

/// The first word between quotes.
std::string op_of(const std::string& text) {
  const std::size_t begin = std::min(text.find('"'), text.size());
  std::string word = text.substr(std::min(begin + 1, text.size()));
  word.resize(std::min({word.find('"'), word.size(), std::size_t{32}}));
  const bool is_word = std::all_of(
      word.begin(), word.end(), [](unsigned char c) { return std::islower(c) != 0 || c == '_'; });
  return is_word && !word.empty() ? word : "gelu";
}

}  // namespace

void suite(Bytes input) {
  const std::string path = put(op_of(text_of(input)) + ".toml", input);
  reads([&] {
    constexpr std::size_t most = 64;
    const Suite read = read_suite(path);
    for (std::size_t i = 0; i < std::min(most, read.cases.size()); ++i) {
      require(!identity(read.cases[i]).empty(), "a case with an identity");
      require(!suite_text(read.cases[i]).empty(), "a case that can be written");
    }
  });
  std::filesystem::remove(path);
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(suite)
