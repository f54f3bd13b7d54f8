// The smallest training run that is one, as files: a layer of width 16 over 8 tokens, whose step
// takes a few milliseconds.
#pragma once

#include <string>

namespace opbound {

/// Text for it: "text.txt".
inline std::string tiny_text() {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the cat sat on mat " + std::to_string(i % 7) + ".\n";
  return text;
}

/// Its file, with these lines of TOML before all tables.
inline std::string tiny_run(const std::string& lines) {
  return lines + R"(
data = "text.txt"
sequences = 1
[schedule]
lr = 1e-2
[model]
layers = 1
heads = 2
width = 16
context = 8
)";
}

}  // namespace opbound
