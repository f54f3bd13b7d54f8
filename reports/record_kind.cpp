#include "reports/record_kind.hpp"

#include "reports/error.hpp"
#include "reports/json.hpp"

namespace opbound {

void refuse_other_lines(std::string_view first_line, const std::string& path) {
  constexpr int deepest = 32;  // the spec in a log's line needs fewer than 16
  const auto json = detail::parse_json<nlohmann::json>(first_line, deepest);
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string()) return;
  const auto kind = json["kind"].get<std::string>();
  const auto refuse = [&](const char* what, const std::string& command, const char* of) {
    throw InputError(path, std::string(what) + ", not records of checks",
                     "opbound " + command + " " + path + ", which tells of " + of);
  };
  if (kind == "planted_training_fault" || kind == "clean_twin" || kind == "clean_training_run")
    refuse("results of opbound sentinel", "report", "them");
  if (kind.starts_with("training_")) refuse("a training log", "table", "its runs");
  if (kind.starts_with("attribution")) refuse("attributions", "report", "them");
  if (kind == "claim") refuse("records of claims", "claims --records", "them");
}

}  // namespace opbound
