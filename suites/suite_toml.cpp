#include "suites/suite_toml.hpp"

#include <algorithm>
#include <limits>

#include "suites/input_file.hpp"
#include "suites/suggest.hpp"

namespace opbound::detail {
namespace {

std::string_view type_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

/// Each dot in a key is a table in a table. toml++ bounds how deep values nest (256), not keys, and
/// its destructors call themselves: a key of 200,000 parts would end the program.
constexpr int most_parts = 16;

/// Behind the string that begins at `at`; the text's end for one that has none.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view three = text.substr(at, 3);
  const bool is_long = three.size() == 3 && three == std::string(3, quote);
  const std::string_view close = text.substr(at, is_long ? 3 : 1);
  for (at += close.size(); at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (text[at] == '\n' && !is_long) {
      return at;
    } else if (text.substr(at, close.size()) == close) {
      at += close.size();
      for (int more = 0; is_long && more < 2 && text.substr(at, 1) == close.substr(0, 1); ++more)
        ++at;  // quotes of the string itself may stand before those that end it
      return at;
    }
  }
  return text.size();
}

/// The line with a key of more than most_parts parts; 0 if there is none.
long line_of_long_key(std::string_view text) {
  int parts = 1;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = end_of_string(text, at);
      continue;
    }
    if (c == '#') at = std::min(text.find('\n', at), text.size() - 1);
    if (c == '.' && ++parts > most_parts)
      return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    if (std::string_view("\n,=[]{}#").find(c) != std::string_view::npos) parts = 1;
    ++at;
  }
  return 0;
}

}  // namespace

std::string TomlValue::text(std::string_view expected) const {
  if (!is_text()) refuse_type(expected);
  return *node_->value<std::string>();
}

std::int64_t TomlValue::whole(std::int64_t low, std::string_view expected) const {
  if (!is_whole()) refuse_type(expected);
  const std::int64_t value = *node_->value<std::int64_t>();
  if (value < low) refuse(std::to_string(value), expected);
  return value;
}

double TomlValue::number(std::string_view expected) const {
  if (!node_->is_number()) refuse_type(expected);
  return *node_->value<double>();
}

std::size_t TomlValue::place_in(std::span<const std::string_view> names,
                                std::string_view what) const {
  const std::string word = text(one_of(names));
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end())
    refuse("unknown " + std::string(what) + " " + in_quotes_with_suggestion(word, names),
           one_of(names));
  return static_cast<std::size_t>(found - names.begin());
}

AttributeValue TomlValue::attribute(std::string_view expected) const {
  if (is_flag()) return flag();
  if (is_whole()) return whole(std::numeric_limits<std::int64_t>::min(), expected);
  if (is_text()) return text();
  return number(expected);
}

std::vector<TomlValue> TomlValue::list(std::string_view expected) const {
  if (!is_list()) refuse_type(expected);
  std::vector<TomlValue> elements;
  for (const toml::node& element : *node_->as_array())
    elements.emplace_back(element, *file_, name_);
  return elements;
}

std::vector<TomlValue> TomlValue::one_or_list() const {
  if (!is_list()) return {*this};
  std::vector<TomlValue> elements = list("a list");
  if (elements.empty()) refuse("an empty list", "at least one value");
  return elements;
}

std::vector<TomlValue::Entry> TomlValue::entries(std::string_view expected) const {
  if (!is_table()) refuse_type(expected);
  struct Placed {
    toml::source_position place;
    Entry entry;
  };
  std::vector<Placed> placed;  // toml++ sorts by name
  for (const auto& [key, value] : *node_->as_table())
    placed.push_back({key.source().begin,
                      {std::string(key.str()), TomlValue(value, *file_, std::string(key.str()))}});
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.place < b.place; });
  std::vector<Entry> entries;
  for (Placed& p : placed) entries.push_back(std::move(p.entry));
  return entries;
}

void TomlValue::refuse(std::string_view what, std::string_view expected) const {
  throw InputError(*file_, line(), name_ + ": " + std::string(what), expected);
}

void TomlValue::refuse_key(std::string_view what, std::span<const std::string_view> known) const {
  throw InputError(*file_, line(),
                   "unknown " + std::string(what) + " " + in_quotes_with_suggestion(name_, known),
                   one_of(known));
}

void TomlValue::refuse_type(std::string_view expected) const { refuse(type_of(*node_), expected); }

TomlTable::TomlTable(const TomlValue& table, std::span<const std::string_view> known)
    : table_(table), entries_(table.entries()) {
  for (const TomlValue::Entry& e : entries_)
    if (std::find(known.begin(), known.end(), e.key) == known.end())
      e.value.refuse_key("key", known);
}

const TomlValue* TomlTable::find(std::string_view key) const {
  for (const TomlValue::Entry& e : entries_)
    if (e.key == key) return &e.value;
  return nullptr;
}

const TomlValue& TomlTable::at(std::string_view key) const {
  const TomlValue* value = find(key);
  if (value == nullptr) table_.refuse("no " + std::string(key), "key " + std::string(key));
  return *value;
}

toml::table parse_toml(const std::string& path) {
  InputFile file(path);
  const std::string text = file.text(0, file.size());
  if (const long line = line_of_long_key(text); line > 0)
    throw InputError(path, line, "a key of too many parts",
                     "at most " + std::to_string(most_parts));
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& e) {
    throw InputError(path, static_cast<long>(e.source().begin.line), e.description());
  } catch (const MalformedToml&) {
    throw InputError(path, "no TOML", "[[case]] tables of lines 'key = value'");
  }
}

}  // namespace opbound::detail
