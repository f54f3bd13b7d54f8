#include <nlohmann/json.hpp>

#include "distributed/trace/audit.hpp"
#include "reports/error.hpp"

namespace opbound::trace {
namespace {

/// Every field with its name, in the order of the struct.
template <class F, class Act>
void each_field(F& f, Act act) {
  act("check", f.check);
  act("step", f.step);
  act("rank", f.rank);
  act("micro_batch", f.micro_batch);
  act("layer", f.layer);
  act("call", f.call);
  act("part", f.part);
  act("op", f.op);
  act("direction", f.direction);
  act("parameter", f.parameter);
  act("tensor", f.tensor);
  act("index", f.index);
  act("got", f.got);
  act("low", f.low);
  act("high", f.high);
  act("bound", f.bound);
  act("wrong", f.wrong);
  act("text", f.text);
}

}  // namespace

std::string text_of(const Finding& f) {
  std::string text = "step " + std::to_string(f.step) + ", rank " + std::to_string(f.rank);
  if (f.micro_batch >= 0) text += ", micro-batch " + std::to_string(f.micro_batch);
  if (f.layer >= 0) text += ", layer " + std::to_string(f.layer);
  if (!f.part.empty()) {
    text += ", " + f.part;
    if (f.op != f.part && f.part != "mlp:" + f.op) text += " (" + f.op + ")";
    if (f.call >= 0) text += " " + f.direction + ", call " + std::to_string(f.call);
  }
  if (!f.parameter.empty()) text += ", " + f.parameter;
  return text + ": " + (f.check == "op" ? "" : f.check + ": ") + f.text;
}

std::string to_json(const Finding& finding) {
  nlohmann::ordered_json json;
  each_field(finding, [&](const char* name, const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, double>)
      json[name] = hexadecimal(value);
    else
      json[name] = value;
  });
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Finding finding_of(const std::string& text) {
  Finding finding;
  try {
    const auto json = nlohmann::ordered_json::parse(text);
    each_field(finding, [&]<class T>(const char* name, T& value) {
      if constexpr (std::is_same_v<T, double>) {
        const auto number = parse_hexadecimal(json.at(name).template get<std::string>());
        if (!number) throw InputError("finding", name, "a hexadecimal number");
        value = *number;
      } else {
        value = json.at(name).template get<T>();
      }
    });
  } catch (const nlohmann::json::exception& e) {
    throw InputError("finding", e.what(), "a finding in JSON");
  }
  return finding;
}

}  // namespace opbound::trace
