#include "distributed/train/prompts.hpp"

#include <array>
#include <set>

#include "reports/error.hpp"
#include "suites/folder.hpp"
#include "suites/suite_toml.hpp"

namespace opbound::train {
namespace {

using detail::TomlTable;
using detail::TomlValue;

constexpr std::int64_t longest = 65536;

Tokens bytes_of(const TomlValue& list) {
  constexpr std::string_view expected = "a list of numbers from 0 to 255";
  Tokens tokens;
  for (const TomlValue& v : list.list(expected)) {
    tokens.push_back(v.whole(0, expected));
    if (tokens.back() > 255) v.refuse(std::to_string(tokens.back()), expected);
  }
  return tokens;
}

Prompt prompt_of(const TomlValue& value) {
  constexpr std::array<std::string_view, 4> keys{"name", "text", "bytes", "repeat"};
  const TomlTable table(value, keys);
  const TomlValue *text = table.find("text"), *bytes = table.find("bytes");
  if ((text == nullptr) == (bytes == nullptr))
    value.refuse(text == nullptr ? "neither text nor bytes" : "text and bytes", "one of them");
  Prompt prompt{table.at("name").text(), {}};
  Tokens once;
  if (bytes != nullptr) once = bytes_of(*bytes);
  if (text != nullptr)
    for (const char c : text->text()) once.push_back(static_cast<std::uint8_t>(c));
  const TomlValue* const repeat = table.find("repeat");
  const std::int64_t times = repeat == nullptr ? 1 : repeat->whole(1, "a number from 1 on");
  if (once.empty()) value.refuse("no bytes", "at least one");
  if (times > longest / static_cast<std::int64_t>(once.size()))
    value.refuse("a prompt that is too long", "at most " + std::to_string(longest) + " bytes");
  for (std::int64_t i = 0; i < times; ++i)
    prompt.tokens.insert(prompt.tokens.end(), once.begin(), once.end());
  return prompt;
}

}  // namespace

std::vector<Prompt> read_prompts(const std::filesystem::path& path) {
  const std::string file = path.string();
  const toml::table parsed = detail::parse_toml(file);
  constexpr std::array<std::string_view, 1> keys{"prompts"};
  const TomlTable table(TomlValue(parsed, file, "file"), keys);
  const TomlValue& list = table.at("prompts");
  std::vector<Prompt> prompts;
  std::set<std::string> names;
  for (const TomlValue& value : list.list("a list of tables")) {
    prompts.push_back(prompt_of(value));
    if (!names.insert(prompts.back().name).second)
      value.refuse("the name '" + prompts.back().name + "' twice", "each name once");
  }
  if (prompts.empty()) list.refuse("empty", "at least one prompt");
  return prompts;
}

std::vector<Prompt> corner_case_prompts() {
  const std::filesystem::path name = std::filesystem::path("prompts") / "corner_cases.toml";
  const std::filesystem::path folder = suites_folder(name);
  if (folder.empty())
    throw InputError("prompts",
                     "no suites/prompts/corner_cases.toml here, beside the program or above",
                     "that file");
  return read_prompts(folder / name);
}

}  // namespace opbound::train
