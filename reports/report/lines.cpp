// Lines of attributions and of sentinel results, every member of which has to be there.
#include "reports/error.hpp"
#include "reports/json.hpp"
#include "reports/record_lines.hpp"
#include "reports/report/inputs.hpp"

namespace opbound::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr int deepest = 32;

class Line {
 public:
  Line(std::string_view text, const std::string& path, long line) : path_(path), line_(line) {
    json_ = detail::parse_json<Json>(text, deepest);
    if (!json_.is_object()) throw InputError(path_, line_, "no JSON object", "a line of records");
    if (get<std::int64_t>("schema") != 1)
      throw InputError(path_, line_, "schema " + json_["schema"].dump(), "1");
  }

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

  template <class T>
  T get(const char* key) const {
    const Json& j = at(key);
    const bool fits = std::is_same_v<T, bool>          ? j.is_boolean()
                      : std::is_same_v<T, std::string> ? j.is_string()
                                                       : j.is_number_integer();
    if (!fits) throw InputError(path_, line_, std::string(key) + " " + j.dump(), "its own type");
    return j.get<T>();
  }

  /// A number, or the word for one that JSON has not.
  double number(const char* key) const {
    const Json& j = at(key);
    if (j.is_number()) return j.get<double>();
    const auto word = j.is_string() ? parse_hexadecimal(j.get<std::string>()) : std::nullopt;
    if (!word) throw InputError(path_, line_, std::string(key) + " " + j.dump(), "a number");
    return *word;
  }

  std::optional<double> number_if(const char* key) const {
    return has(key) ? std::optional(number(key)) : std::nullopt;
  }

  const Json& at(const char* key) const {
    if (!json_.contains(key)) throw InputError(path_, line_, "no " + std::string(key), "one");
    return json_[key];
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& expected) const {
    throw InputError(path_, line_, what, expected);
  }

 private:
  Json json_;
  const std::string& path_;
  long line_;
};

AttributedBatch batch_of(const Line& line) {
  AttributedBatch b;
  b.step = line.get<std::int64_t>("step");
  b.micro_batch = line.get<std::int64_t>("micro_batch");
  b.loss_exact = line.number("loss_exact");
  b.measured = line.number("measured");
  b.predicted = line.number("predicted");
  b.predicted_exact = line.number("predicted_exact_adjoint");
  b.unattributed = line.number("unattributed");
  b.root_of_squares = line.number("root_of_squares");
  b.nonfinite = line.get<std::int64_t>("gradient_nonfinite");
  b.changed = line.get<std::int64_t>("changed_inputs");
  b.data_sha256 = line.get<std::string>("data_sha256");
  b.spec = line.at("spec");
  if (!line.has("replay")) return b;
  const Json& replay = line.at("replay");
  const auto number = [&](const char* key) -> std::optional<double> {
    if (!replay.is_object() || !replay.contains(key)) return std::nullopt;
    if (replay[key].is_number()) return replay[key].get<double>();
    const auto word =
        replay[key].is_string() ? parse_hexadecimal(replay[key].get<std::string>()) : std::nullopt;
    if (!word) line.refuse(std::string("replay.") + key, "a number");
    return word;
  };
  b.gradient = number("gradient");
  b.gradient_unattributed = number("gradient_unattributed");
  return b;
}

AttributedClass class_of(const Line& line) {
  AttributedClass c;
  c.step = line.get<std::int64_t>("step");
  c.micro_batch = line.get<std::int64_t>("micro_batch");
  c.part = line.get<std::string>("part");
  c.op = line.get<std::string>("op");
  c.layer = line.get<int>("layer");
  c.pass = line.get<std::string>("pass");
  c.precision = line.get<std::string>("precision");
  c.calls = line.get<std::int64_t>("calls");
  c.loss = line.number("loss");
  c.loss_expected = line.number_if("loss_expected");
  c.loss_replayed = line.number_if("loss_replayed");
  c.gradient = line.number_if("gradient");
  c.gradient_share = line.number_if("gradient_share");
  return c;
}

AttributedParameter parameter_of(const Line& line) {
  AttributedParameter p;
  p.step = line.get<std::int64_t>("step");
  p.name = line.get<std::string>("name");
  p.layer = line.get<int>("layer");
  p.measured = line.number("measured");
  p.largest = line.number("largest");
  p.unattributed = line.number("unattributed");
  p.is_within = line.get<bool>("within");
  return p;
}

AttributedSwap swap_of(const Line& line) {
  return {line.get<std::int64_t>("step"), line.get<std::int64_t>("micro_batch"),
          line.get<std::string>("part"),  line.get<std::string>("how"),
          line.number("change"),          line.number("gradient_change")};
}

/// The first of the checks that told of it.
std::optional<std::int64_t> steps_of(const Line& line) {
  std::optional<std::int64_t> first;
  for (const char* key : {"step_check", "audit", "fingerprint"})
    if (line.has(key) && (!first || line.get<std::int64_t>(key) < *first))
      first = line.get<std::int64_t>(key);
  return first;
}

}  // namespace

AttributionFile read_attributions(const std::string& path) {
  AttributionFile file{path, {}, {}, {}, {}};
  for_each_line(path, [&](std::string_view text, long number) {
    const Line line(text, path, number);
    const auto kind = line.get<std::string>("kind");
    if (kind == "attribution")
      file.batches.push_back(batch_of(line));
    else if (kind == "attribution_class")
      file.classes.push_back(class_of(line));
    else if (kind == "attribution_parameter" || kind == "attribution_gradient")
      file.parameters.push_back(parameter_of(line));
    else if (kind == "attribution_swap")
      file.swaps.push_back(swap_of(line));
    else
      line.refuse("kind '" + kind + "'", "a kind of attribution");
  });
  return file;
}

SentinelFile read_sentinel(const std::string& path) {
  SentinelFile file{path, {}};
  for_each_line(path, [&](std::string_view text, long number) {
    const Line line(text, path, number);
    SentinelResult r;
    r.kind = line.get<std::string>("kind");
    r.policy = line.get<std::string>("policy");
    if (r.kind == "planted_training_fault" || r.kind == "clean_twin") {
      r.name = line.get<std::string>("fault");
      r.place = line.get<std::string>("place");
      r.is_place_right = line.get<bool>("place_is_right");
      r.false_alarms = line.get<std::int64_t>("false_alarms");
      r.steps = steps_of(line);
    } else if (r.kind == "clean_training_run") {
      r.false_alarms = line.get<std::int64_t>("alarms");
      r.place = line.get<std::string>("first_alarm");
    } else {
      line.refuse("kind '" + r.kind + "'", "a kind of sentinel result");
    }
    file.results.push_back(std::move(r));
  });
  return file;
}

}  // namespace opbound::report
