#include "ops/providers/cublas/settings.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "ops/providers/plugin_side.hpp"

namespace opbound::with_cublas {
namespace {

std::uint64_t read_number(const char* name, std::uint64_t otherwise, std::uint64_t most) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  const std::string_view value = text;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number > most)
    throw plugin_side::wrong_setting(name, value,
                                     "a whole number from 0 to " + std::to_string(most));
  return number;
}

}  // namespace

Settings read_settings() {
  Settings s;
  s.tf32 = plugin_side::read_switch("OPBOUND_CUBLAS_TF32");
  s.reduced = plugin_side::read_switch("OPBOUND_CUBLAS_REDUCED");
  s.fast = plugin_side::read_switch("OPBOUND_CUBLAS_FAST");
  s.workspace_bytes =
      read_number("OPBOUND_CUBLAS_WORKSPACE_BYTES", s.workspace_bytes, std::uint64_t{1} << 32);
  s.candidate = static_cast<int>(read_number("OPBOUND_CUBLAS_CANDIDATE", 0, most_candidates - 1));
  return s;
}

std::vector<std::pair<std::string, std::string>> Settings::entries() const {
  return {{"cublas tf32", tf32 ? "on" : "off"},
          {"cublas reduced", reduced ? "on" : "off"},
          {"cublas fast", fast ? "on" : "off"},
          {"cublas workspace", std::to_string(workspace_bytes) + " bytes"},
          {"cublas candidate", std::to_string(candidate)}};
}

}  // namespace opbound::with_cublas
