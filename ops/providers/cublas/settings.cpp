#include "ops/providers/cublas/settings.hpp"

#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace opbound::with_cublas {
namespace {

std::invalid_argument wrong(const char* name, std::string_view value, const std::string& expected) {
  return std::invalid_argument(std::string(name) + " is '" + std::string(value) + "', expected " +
                               expected);
}

bool read_switch(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || std::string_view(value) == "off") return false;
  if (std::string_view(value) != "on") throw wrong(name, value, "on or off");
  return true;
}

std::uint64_t read_number(const char* name, std::uint64_t otherwise, std::uint64_t most) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  const std::string_view value = text;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number > most)
    throw wrong(name, value, "a whole number from 0 to " + std::to_string(most));
  return number;
}

}  // namespace

Settings read_settings() {
  Settings s;
  s.tf32 = read_switch("OPBOUND_CUBLAS_TF32");
  s.reduced = read_switch("OPBOUND_CUBLAS_REDUCED");
  s.workspace_bytes =
      read_number("OPBOUND_CUBLAS_WORKSPACE_BYTES", s.workspace_bytes, std::uint64_t{1} << 32);
  s.candidate = static_cast<int>(read_number("OPBOUND_CUBLAS_CANDIDATE", 0, most_candidates - 1));
  return s;
}

std::vector<std::pair<std::string, std::string>> Settings::entries() const {
  return {{"cublas tf32", tf32 ? "on" : "off"},
          {"cublas reduced", reduced ? "on" : "off"},
          {"cublas workspace", std::to_string(workspace_bytes) + " bytes"},
          {"cublas candidate", std::to_string(candidate)}};
}

}  // namespace opbound::with_cublas
