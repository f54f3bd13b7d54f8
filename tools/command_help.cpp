#include "tools/command_help.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace opbound {
namespace {

constexpr std::size_t second_column = 28;

/// The text's words in lines that begin at `indent`, the first of them at `at`.
std::string filled(std::string_view text, std::size_t indent, std::size_t at) {
  std::string all;
  std::istringstream words{std::string(text)};
  bool is_first = true;
  for (std::string word; words >> word; is_first = false) {
    if (!is_first && at + 1 + word.size() > Help::columns) {
      all += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (!is_first) {
      all += ' ';
      ++at;
    }
    all += word;
    at += word.size();
  }
  return all;
}

/// A paragraph for each line; one that begins with a space is an example, which is kept.
std::string paragraphs(const std::string& text) {
  std::string all;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);)
    all += (line.starts_with(' ') ? line : filled(line, 0, 0)) + "\n";
  return all;
}

/// `left`, and beside it, or below where it is long, what it means.
std::string entry(const std::string& left, const std::string& meaning) {
  std::string line = "  " + left;
  const bool fits = line.size() + 2 <= second_column;
  line +=
      fits ? std::string(second_column - line.size(), ' ') : "\n" + std::string(second_column, ' ');
  return line + filled(meaning, second_column, second_column) + "\n";
}

/// What CLI11 tells of an option's value: its type's name, and what its checks say of themselves,
/// such as "STEPS:INT in [1 - 100]" or "TEXT:{note,stop}".
struct Taken {
  std::string name, check;

  explicit Taken(const std::string& told)
      : name(told.substr(0, told.find(':'))),
        check(name.size() < told.size() ? told.substr(name.size() + 1) : "") {
    const bool has_choices = check.starts_with('{') && check.ends_with('}');
    if (name == "INT" || name == "UINT" || name == "FLOAT") name = "N";
    if (name != "TEXT" || !has_choices) return;
    name = check.substr(1, check.size() - 2);
    std::replace(name.begin(), name.end(), ',', '|');
  }

  /// "2 to 64"; empty where the upper end is nothing that anybody comes near.
  std::string range() const {
    const std::size_t open = check.find(" in ["), middle = check.find(" - ");
    if (open == std::string::npos || middle == std::string::npos) return "";
    const std::string low = check.substr(open + 5, middle - open - 5);
    const std::string high = check.substr(middle + 3, check.size() - middle - 4);
    constexpr std::size_t digits_of_a_limit = 6;
    return high.size() > digits_of_a_limit ? "" : low + " to " + high;
  }
};

/// Their names; a set of pointers has an order of its own in every run.
std::string names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* o : options) names.push_back(o->get_name());
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

/// "-h, --help", "--no-report" of CLI11's "-h,--help", "--no-report{false}".
std::string name_of(const CLI::Option& option, bool is_positional) {
  std::string name = is_positional ? option.get_name(true, false) : option.get_name(false, true);
  name = name.substr(0, name.find('{'));
  if (const std::size_t comma = name.find(','); comma != std::string::npos)
    name.insert(comma + 1, " ");
  return name;
}

}  // namespace

std::string Help::make_description(const CLI::App* app) const {
  return paragraphs(app->get_description());
}

std::string Help::make_footer(const CLI::App* app) const { return paragraphs(app->get_footer()); }

std::string Help::make_subcommand(const CLI::App* command) const {
  return entry(command->get_display_name(true), command->get_description());
}

std::string Help::make_option(const CLI::Option* option, bool is_positional) const {
  std::string left = name_of(*option, is_positional);
  std::vector<std::string> facts;
  if (option->get_type_size() != 0) {  // no flag
    const Taken taken(option->get_type_name());
    if (!taken.name.empty()) left += " " + taken.name;
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) left += " ...";
    if (option->get_required()) facts.emplace_back("required");
    if (const std::string range = taken.range(); !range.empty()) facts.push_back(range);
    if (const std::string given = option->get_default_str(); !given.empty())
      facts.push_back("default " + given);
  }
  if (!option->get_needs().empty()) facts.push_back("needs " + names_of(option->get_needs()));
  if (!option->get_excludes().empty())
    facts.push_back("not with " + names_of(option->get_excludes()));
  std::string meaning = option->get_description();
  for (std::size_t i = 0; i < facts.size(); ++i)
    meaning += (i == 0 ? " (" : "; ") + facts[i] + (i + 1 == facts.size() ? ")" : "");
  return entry(left, meaning);
}

}  // namespace opbound
