#include "distributed/train/log.hpp"

#include <charconv>
#include <cmath>

#include "reports/error.hpp"
#include "reports/json.hpp"
#include "suites/input_file.hpp"

namespace opbound::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view run_kind = "training_run";
constexpr std::string_view step_kind = "training_step";
constexpr std::string_view result_kind = "training_result";
constexpr std::size_t longest_line = 1 << 20;  // far above any; bounds memory
constexpr int deepest_line = 16;               // the attributes of a policy's rule need 6

/// What all lines begin with.
const std::string line_start = "{\"schema\":1,\"kind\":\"training_";

Json line_of(std::string_view kind) { return {{"schema", training_log_schema}, {"kind", kind}}; }

std::string text_of(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// A number, or the word for one that JSON has not.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(hexadecimal(x)); }

Json named(const Named<std::string>& entries) {
  Json j = Json::object();
  for (const auto& [name, value] : entries) j[name] = value;
  return j;
}

}  // namespace

std::string text_of_hash(std::uint64_t hash) {
  std::string digits(16, '0');
  for (std::size_t i = 16; i-- > 0; hash >>= 4) digits[i] = "0123456789abcdef"[hash & 15];
  return digits;
}

TrainingLog::TrainingLog(const std::string& path) : writer_(path, line_start) {}

void TrainingLog::write(const RunRecord& r) {
  Json j = line_of(run_kind);
  j["file"] = r.file;
  j["commit"] = r.commit;
  j["device"] = r.device;
  j["ranks"] = r.ranks;
  j["transport"] = r.transport;
  j["parameters"] = r.parameters;
  j["data"] = r.data;
  j["data_sha256"] = r.data_sha256;
  j["first_step"] = r.first_step;
  j["spec"] = r.spec;
  j["providers"] = named(r.providers);
  j["environment"] = named(r.environment);
  writer_.write_line(text_of(j));
}

void TrainingLog::write(const StepResult& s) {
  Json j = line_of(step_kind);
  j["step"] = s.step;
  j["loss"] = number(s.loss);
  j["loss_hex"] = hexadecimal(s.loss);
  j["gradient_norm"] = number(s.gradient_norm);
  j["loss_scale"] = number(s.loss_scale);
  j["lr"] = number(s.lr);
  j["skipped"] = s.is_skipped;
  j["tokens"] = s.tokens;
  j["time_ms"] = number(s.time_ms);
  j["tokens_per_second"] =
      number(s.time_ms > 0 ? static_cast<double>(s.tokens) * 1000 / s.time_ms : 0);
  writer_.write_line(text_of(j));
}

void TrainingLog::write(const ResultRecord& r) {
  Json j = line_of(result_kind);
  j["verdict"] = run_end_names[static_cast<std::size_t>(r.end)];
  if (!r.reason.empty()) j["reason"] = r.reason;
  if (r.result) {
    j["hash"] = text_of_hash(r.result->hash);
    j["steps"] = r.result->steps;
    j["first_loss"] = number(r.result->first_loss);
    j["last_loss"] = number(r.result->last_loss);
    j["allocated_bytes"] = r.result->allocated_bytes;
    j["arena_bytes"] = r.result->arena_bytes;
  }
  j["time_ms"] = number(r.time_ms);
  writer_.write_line(text_of(j));
}

// ---- reading

namespace {

/// One line, whose every member has to be there and be what it should.
class Line {
 public:
  Line(std::string_view text, const std::string& path, long line) : path_(path), line_(line) {
    json_ = detail::parse_json<Json>(text, deepest_line);
    if (!json_.is_object()) refuse("no JSON object", "a line of a training log");
    if (whole<std::int64_t>("schema") != training_log_schema)
      refuse("schema " + json_["schema"].dump(), std::to_string(training_log_schema));
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& expected) const {
    throw InputError(path_, line_, what, expected);
  }

  bool has(const char* key) const { return json_.contains(key); }

  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) refuse(std::string("no '") + key + "'", "a line of a training log");
    return *found;
  }
  std::string text(const char* key) const {
    const Json& j = at(key);
    if (!j.is_string()) wrong(key, "text");
    return j.get<std::string>();
  }
  bool flag(const char* key) const {
    const Json& j = at(key);
    if (!j.is_boolean()) wrong(key, "true or false");
    return j.get<bool>();
  }
  template <class N>
  N whole(const char* key) const {
    const Json& j = at(key);
    const bool fits = j.is_number_integer() &&
                      (!j.is_number_unsigned() || j.get<std::uint64_t>() <= (1ULL << 62)) &&
                      std::in_range<N>(j.get<std::int64_t>());
    if (!fits) wrong(key, "a whole number");
    return static_cast<N>(j.get<std::int64_t>());
  }
  double number(const char* key) const {
    const Json& j = at(key);
    if (j.is_number()) return j.get<double>();
    const auto word = j.is_string() ? parse_hexadecimal(j.get<std::string>()) : std::nullopt;
    if (!word || std::isfinite(*word)) wrong(key, "a number, inf, -inf or nan");
    return *word;
  }
  Named<std::string> named(const char* key) const {
    const Json& j = at(key);
    Named<std::string> entries;
    if (!j.is_object()) wrong(key, "an object of texts");
    for (const auto& [name, value] : j.items()) {
      if (!value.is_string()) wrong(key, "an object of texts");
      entries.emplace_back(name, value.get<std::string>());
    }
    return entries;
  }
  [[noreturn]] void wrong(const char* key, const std::string& expected) const {
    refuse(std::string("'") + key + "'", expected);
  }

 private:
  const std::string& path_;
  long line_;
  Json json_;
};

RunRecord run_of(const Line& line) {
  RunRecord r;
  r.file = line.text("file");
  r.commit = line.text("commit");
  r.device = line.text("device");
  r.ranks = line.whole<std::int64_t>("ranks");
  r.transport = line.text("transport");
  r.parameters = line.whole<std::int64_t>("parameters");
  r.data = line.text("data");
  r.data_sha256 = line.text("data_sha256");
  r.first_step = line.whole<std::int64_t>("first_step");
  r.spec = line.at("spec");
  if (!r.spec.is_object()) line.wrong("spec", "an object");
  r.providers = line.named("providers");
  r.environment = line.named("environment");
  return r;
}

StepResult step_of(const Line& line) {
  StepResult s{};
  s.step = line.whole<std::int64_t>("step");
  const auto loss = parse_hexadecimal(line.text("loss_hex"));
  if (!loss) line.wrong("loss_hex", "a number in hexadecimal");
  s.loss = *loss;
  const double decimal = line.number("loss");
  if (decimal != s.loss && !(std::isnan(decimal) && std::isnan(s.loss)))
    line.wrong("loss", "the number that 'loss_hex' is");
  s.gradient_norm = line.number("gradient_norm");
  s.loss_scale = line.number("loss_scale");
  s.lr = line.number("lr");
  s.is_skipped = line.flag("skipped");
  s.tokens = line.whole<std::int64_t>("tokens");
  s.time_ms = line.number("time_ms");
  return s;
}

std::uint64_t hash_of(const Line& line) {
  const std::string text = line.text("hash");
  std::uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (text.size() != 16 || error != std::errc{} || end != text.data() + text.size())
    line.wrong("hash", "16 hexadecimal digits");
  return hash;
}

ResultRecord result_of(const Line& line) {
  ResultRecord r;
  const std::string verdict = line.text("verdict");
  const auto found = std::find(run_end_names.begin(), run_end_names.end(), verdict);
  if (found == run_end_names.end()) line.wrong("verdict", "finished, interrupted or failed");
  r.end = static_cast<RunEnd>(found - run_end_names.begin());
  if (line.has("reason")) r.reason = line.text("reason");
  if (line.has("hash"))
    r.result = TrainResult{hash_of(line),
                           line.whole<std::int64_t>("steps"),
                           line.number("first_loss"),
                           line.number("last_loss"),
                           line.whole<std::int64_t>("allocated_bytes"),
                           line.whole<std::int64_t>("arena_bytes"),
                           r.end == RunEnd::interrupted};
  else if (r.end != RunEnd::failed)
    line.wrong("hash", "the hash of a run that has not failed");
  r.time_ms = line.number("time_ms");
  return r;
}

/// Does this part go on with a run that has come so far?
bool resumes(const RunRecord& part, const LoggedRun& run) {
  return part.first_step > 0 && identity_of(part.spec) == identity_of(run.first().spec) &&
         part.data_sha256 == run.first().data_sha256 &&
         part.first_step <= run.first().first_step + static_cast<std::int64_t>(run.steps.size()) &&
         part.first_step >= run.first().first_step;
}

void take_run(const Line& line, LoggedRuns& log) {
  RunRecord part = run_of(line);
  if (log.runs.empty() || !resumes(part, log.runs.back())) {
    log.runs.push_back({{std::move(part)}, {}, {}});
    return;
  }
  LoggedRun& run = log.runs.back();
  run.result.reset();
  run.steps.resize(static_cast<std::size_t>(part.first_step - run.first().first_step));
  run.parts.push_back(std::move(part));
}

void take_step(const Line& line, LoggedRun& run) {
  const StepResult step = step_of(line);
  const std::int64_t next = run.first().first_step + static_cast<std::int64_t>(run.steps.size());
  if (step.step != next)
    line.refuse("step " + std::to_string(step.step), "step " + std::to_string(next));
  run.steps.push_back(step);
}

void take(const Line& line, LoggedRuns& log) {
  const std::string kind = line.text("kind");
  if (kind == run_kind) return take_run(line, log);
  if (kind != step_kind && kind != result_kind)
    line.refuse("kind '" + kind + "'", "training_run, training_step or training_result");
  if (log.runs.empty() || log.runs.back().result)
    line.refuse("a line of no run", "a line of kind training_run before it");
  if (kind == step_kind) return take_step(line, log.runs.back());
  log.runs.back().result = result_of(line);
}

}  // namespace

LoggedRuns read_training_log(const std::string& path) {
  InputFile file(path);
  LoggedRuns log;
  std::string begun;
  long number = 1;
  for (std::uint64_t at = 0; at < file.size();) {
    const std::uint64_t count = std::min<std::uint64_t>(file.size() - at, 1 << 16);
    begun += file.text(at, count);
    at += count;
    std::size_t first = 0;
    for (std::size_t end = begun.find('\n'); end != std::string::npos;
         end = begun.find('\n', first)) {
      take(Line(std::string_view(begun).substr(first, end - first), path, number++), log);
      first = end + 1;
    }
    begun.erase(0, first);
    if (begun.size() >= longest_line)
      throw InputError(path, number, "a line above 1 MiB", "a training log");
  }
  log.is_torn = !begun.empty();
  return log;
}

}  // namespace opbound::train
