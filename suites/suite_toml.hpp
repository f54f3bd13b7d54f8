// TOML read strictly: every value knows its name, file and line, and refuses to be what it is not.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/attribute.hpp"
#include "reports/error.hpp"

namespace opbound::detail {

/// Thrown for a file that toml++ does not understand without saying where.
struct MalformedToml : std::exception {};
[[noreturn]] inline void refuse_toml() { throw MalformedToml(); }

}  // namespace opbound::detail

// toml++ 3.3 asserts on some malformed lines, such as "[[,", before it would report them; no file
// may end the program.
#define TOML_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::opbound::detail::refuse_toml())
#include <toml++/toml.h>

namespace opbound::detail {

class TomlValue {
 public:
  /// `name` is how messages call the value; file and node must outlive it.
  TomlValue(const toml::node& node, const std::string& file, std::string name)
      : node_(&node), file_(&file), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  bool is_text() const { return node_->is_string(); }
  bool is_list() const { return node_->is_array(); }
  bool is_table() const { return node_->is_table(); }
  bool is_flag() const { return node_->is_boolean(); }
  bool is_whole() const { return node_->is_integer(); }

  std::string text(std::string_view expected = "a string") const;
  bool flag() const { return *node_->value<bool>(); }
  std::int64_t whole(std::int64_t low, std::string_view expected) const;
  /// A whole number is a number too.
  double number(std::string_view expected = "a number") const;
  /// The place of a word in a list of names, each `what`.
  std::size_t place_in(std::span<const std::string_view> names, std::string_view what) const;
  /// What an op's attribute may be given.
  AttributeValue attribute(std::string_view expected) const;

  /// The elements of a list.
  std::vector<TomlValue> list(std::string_view expected) const;
  /// The elements of a list, or the one value that is no list; never empty.
  std::vector<TomlValue> one_or_list() const;

  struct Entry;
  /// The entries of a table in the file's order.
  std::vector<Entry> entries(std::string_view expected = "a table") const;

  /// "FILE:LINE"
  std::string place() const { return *file_ + ":" + std::to_string(line()); }

  /// Throws InputError with file, line and name.
  [[noreturn]] void refuse(std::string_view what, std::string_view expected) const;
  /// The same for a value whose key, a `what`, is none of the known ones.
  [[noreturn]] void refuse_key(std::string_view what,
                               std::span<const std::string_view> known) const;
  /// The same for a value of the wrong type.
  [[noreturn]] void refuse_type(std::string_view expected) const;

  /// What action returns; its InputErrors get file, line and name.
  template <class F>
  auto naming_place(F action) const {
    try {
      return action();
    } catch (const InputError& e) {
      throw InputError(*file_, line(), name_ + ": " + e.what());
    }
  }

 private:
  long line() const { return static_cast<long>(node_->source().begin.line); }

  const toml::node* node_;
  const std::string* file_;
  std::string name_;
};

struct TomlValue::Entry {
  std::string key;
  TomlValue value;
};

/// A table all of whose keys are known.
class TomlTable {
 public:
  /// InputError at the first key that is not in `known`.
  TomlTable(const TomlValue& table, std::span<const std::string_view> known);

  /// The value of a key, or null.
  const TomlValue* find(std::string_view key) const;
  /// The value of a key; InputError if there is none.
  const TomlValue& at(std::string_view key) const;

 private:
  TomlValue table_;
  std::vector<TomlValue::Entry> entries_;
};

/// Reads a file. InputError where it is no TOML.
toml::table parse_toml(const std::string& path);

}  // namespace opbound::detail
