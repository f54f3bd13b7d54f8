// Bad user input: thrown where it enters the program, turned into exit code 2 by main.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace opbound {

/// One line: "WHERE: what, expected ...".
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;

  /// `where` names the file, or is empty; `expected` says what would have been right.
  InputError(std::string_view where, std::string_view what, std::string_view expected = {})
      : InputError(line_of(where, what, expected)) {}

  /// With the line of the file, counted from 1.
  InputError(std::string_view file, long line, std::string_view what,
             std::string_view expected = {})
      : InputError(std::string(file) + ":" + std::to_string(line), what, expected) {}

 private:
  static std::string line_of(std::string_view where, std::string_view what,
                             std::string_view expected) {
    std::string text(where);
    if (!text.empty()) text += ": ";
    text += what;
    if (!expected.empty()) text.append(", expected ").append(expected);
    for (char& c : text)  // a name from a hostile file may hold anything
      if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
    return text;
  }
};

}  // namespace opbound
