// The fuzzer's short form: every target with its seeds, with all that ever crashed one, and with
// seeds that were damaged in ways that a seed draws. tools/fuzz is the long form.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ops/philox.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound {
namespace {

namespace fs = std::filesystem;
using Input = std::vector<std::uint8_t>;

const fs::path folder = fs::path(OPBOUND_SOURCE_DIR) / "tests/fuzz";

/// Of seeds/<target> and crashes/<target>, by name.
std::vector<fs::path> files_of(const std::string& target) {
  std::vector<fs::path> files;
  for (const char* kind : {"seeds", "crashes"})
    if (fs::is_directory(folder / kind / target))
      for (const fs::directory_entry& entry : fs::directory_iterator(folder / kind / target))
        files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

Input read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What the target throws, which is a find; empty if nothing.
std::string find(fuzz::Target target, const Input& input) {
  try {
    target(input);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

/// Some bytes changed, a piece left out or doubled, or the end cut off.
Input damaged(Input input, std::uint32_t seed) {
  const auto words = philox({seed, 0, 0, 0}, {0x66757a7a, 0});
  if (input.empty()) return {static_cast<std::uint8_t>(words[0])};
  const auto at = static_cast<std::ptrdiff_t>(words[1] % input.size());
  const auto count = static_cast<std::ptrdiff_t>(
      1 + words[2] % std::min<std::size_t>(16, input.size() - static_cast<std::size_t>(at)));
  const auto begin = input.begin() + at;
  switch (words[0] % 4) {
    case 0:
      for (auto byte = begin; byte != begin + count; ++byte)
        *byte = static_cast<std::uint8_t>(words[3] >> (8 * ((byte - begin) % 4)));
      break;
    case 1:
      input.erase(begin, begin + count);
      break;
    case 2: {
      const Input piece(begin, begin + count);
      input.insert(begin, piece.begin(), piece.end());
      break;
    }
    default:
      input.resize(static_cast<std::size_t>(at));
  }
  return input;
}

class Fuzz : public testing::TestWithParam<std::string> {
 protected:
  fuzz::Target target() const { return fuzz::targets().at(GetParam()); }
};

TEST_P(Fuzz, seeds_and_what_once_crashed) {
  const std::vector<fs::path> files = files_of(GetParam());
  EXPECT_FALSE(files.empty()) << "no seeds";
  for (const fs::path& file : files) EXPECT_EQ(find(target(), read(file)), "") << file;
}

TEST_P(Fuzz, damaged_seeds) {
  constexpr std::uint32_t each = 40;
  for (const fs::path& file : files_of(GetParam())) {
    const Input whole = read(file);
    for (std::uint32_t seed = 0; seed < each; ++seed)
      EXPECT_EQ(find(target(), damaged(whole, seed)), "") << file << ", damage " << seed;
  }
}

std::vector<std::string> readers() {
  std::vector<std::string> names;
  for (const auto& [name, target] : fuzz::targets())
    if (name != "canary") names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(of, Fuzz, testing::ValuesIn(readers()),
                         [](const auto& tested) { return tested.param; });

// The planted faults: what a target must not do is seen.

TEST(FuzzTester, a_planted_fault_is_found) {
  const fuzz::Target canary = fuzz::targets().at("canary");
  EXPECT_EQ(find(canary, {'o', 'p', 'b', '?'}), "");
  EXPECT_EQ(find(canary, {'o', 'p', 'b', '!', '.'}), "the planted fault");
}

TEST(FuzzTester, a_reader_may_refuse_in_one_line_only) {
  EXPECT_TRUE(fuzz::reads([] {}));
  EXPECT_FALSE(fuzz::reads([] { throw InputError("x", "is \n wrong"); }));  // made one line
  EXPECT_THROW(fuzz::reads([] { throw InputError("two\nlines"); }), std::logic_error);
  EXPECT_THROW(fuzz::reads([] { throw std::bad_alloc(); }), std::bad_alloc);
}

/// A target that nobody gives anything to would pass.
TEST(FuzzTester, every_folder_of_seeds_has_its_target) {
  for (const char* kind : {"seeds", "crashes"})
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / kind))
      EXPECT_TRUE(fuzz::targets().contains(entry.path().filename().string())) << entry.path();
  EXPECT_EQ(readers().size(), 17U);
}

}  // namespace
}  // namespace opbound
