#include "distributed/train/training_spec.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numbers>

#include "ops/elementary.hpp"
#include "suites/suite_toml.hpp"

namespace opbound::train {
namespace {

namespace fs = std::filesystem;
using detail::TomlTable;
using detail::TomlValue;

constexpr std::array<std::string_view, 13> spec_keys{"model",
                                                     "policy",
                                                     "sharding",
                                                     "gather",
                                                     "data",
                                                     "seed",
                                                     "steps",
                                                     "schedule",
                                                     "optimizer",
                                                     "micro_batches",
                                                     "sequences",
                                                     "checkpoint_every",
                                                     "checkpoint_folder"};
constexpr std::array<std::string_view, 13> model_keys{
    "name",      "layers", "heads",      "width",  "hidden",    "context", "vocabulary",
    "positions", "norm",   "activation", "biases", "tied_head", "norm_eps"};
constexpr std::array<std::string_view, 3> schedule_keys{"lr", "warmup_steps", "final_share"};
constexpr std::array<std::string_view, 6> optimizer_keys{
    "beta1", "beta2", "eps", "weight_decay", "clip_norm", "clip_error_on_nonfinite"};
constexpr std::array<std::string_view, 3> gather_formats{"fp64", "fp32", "bf16"};

constexpr std::int64_t most = std::int64_t{1} << 40;  // of steps: far beyond any run

/// Reads what a table has; what it has not keeps its value.
class Reader {
 public:
  Reader(const TomlValue& v, std::span<const std::string_view> keys) : table_(v, keys) {}

  const TomlTable& table() const { return table_; }

  template <class N>
  void whole(std::string_view key, N& to, std::int64_t low, std::int64_t high = most) const {
    const TomlValue* v = table_.find(key);
    if (v == nullptr) return;
    const std::string expected =
        "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
    const std::int64_t x = v->whole(low, expected);
    if (x > high) v->refuse(std::to_string(x), expected);
    to = static_cast<N>(x);
  }

  /// From `low` on, and finite; below `end`.
  void number(std::string_view key, double& to, double low, double end,
              std::string_view expected) const {
    const TomlValue* v = table_.find(key);
    if (v == nullptr) return;
    to = v->number(expected);
    if (!(to >= low && to < end)) v->refuse("a number out of range", expected);
  }

  void flag(std::string_view key, bool& to) const {
    const TomlValue* v = table_.find(key);
    if (v == nullptr) return;
    if (!v->is_flag()) v->refuse_type("true or false");
    to = v->flag();
  }

  template <class E>
  void word(std::string_view key, E& to, std::span<const std::string_view> names) const {
    if (const TomlValue* v = table_.find(key)) to = static_cast<E>(v->place_in(names, key));
  }

 private:
  TomlTable table_;
};

constexpr double no_end = std::numeric_limits<double>::infinity();

ModelSpec read_model(const TomlValue& v, const fs::path& file) {
  if (v.is_text()) return v.naming_place([&] { return model_named(v.text()); });
  if (!v.is_table()) v.refuse_type("the name of a model, or a table [model]");
  ModelSpec m;
  m.name = file.stem().string();
  const Reader r(v, model_keys);
  if (const TomlValue* name = r.table().find("name")) m.name = name->text();
  constexpr std::int64_t largest = 1 << 20;  // require_valid says what it has to be
  r.whole("layers", m.layers, 1, largest);
  r.whole("heads", m.heads, 1, largest);
  r.whole("width", m.width, 1);
  m.hidden = 4 * m.width;
  r.whole("hidden", m.hidden, 1);
  r.whole("context", m.context, 1);
  r.whole("vocabulary", m.vocabulary, 1);
  r.word("positions", m.positions, position_names);
  r.word("norm", m.norm, norm_names);
  r.word("activation", m.activation, activation_names);
  r.flag("biases", m.biases);
  r.flag("tied_head", m.tied_head);
  r.number("norm_eps", m.norm_eps, 0, no_end, "a number from 0 on");
  return m;
}

void read_schedule(const TomlValue& v, Schedule& s) {
  const Reader r(v, schedule_keys);
  r.number("lr", s.lr, 0, no_end, "a number from 0 on");
  r.whole("warmup_steps", s.warmup_steps, 0);
  r.number("final_share", s.final_share, 0, std::nextafter(1.0, 2.0), "a share from 0 to 1");
}

void read_optimizer(const TomlValue& v, Optimizer& o) {
  const Reader r(v, optimizer_keys);
  r.number("beta1", o.beta1, 0, 1, "a number from 0 on, below 1");
  r.number("beta2", o.beta2, 0, 1, "a number from 0 on, below 1");
  r.number("eps", o.eps, 0, no_end, "a number from 0 on");
  r.number("weight_decay", o.weight_decay, 0, no_end, "a number from 0 on");
  r.number("clip_norm", o.clip_norm, 0, no_end, "a number from 0 on; 0: not clipped");
  r.flag("clip_error_on_nonfinite", o.clip_error_on_nonfinite);
}

bool is_file(const std::string& word) { return word.find_first_of("./") != std::string::npos; }

bool is_database(const std::string& path) {
  const std::string_view begin = "SQLite format 3";
  std::string bytes(begin.size(), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  return bytes == begin;
}

/// Says of a file that is none what it should have been.
toml::table training_table(const std::string& path) {
  const std::string expected = "a training file in TOML such as suites/training/nano.toml";
  try {
    return detail::parse_toml(path);
  } catch (const InputError& e) {
    const std::string line = e.what();
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored) && is_database(path))
      throw InputError(path, "a trace, or another SQLite database", expected);
    if (line.find(", expected ") != std::string::npos) throw;
    throw InputError("", line, expected);
  }
}

}  // namespace

TrainingSpec read_training(const fs::path& file) {
  const std::string path = file.string();
  const toml::table root = training_table(path);
  const Reader r(TomlValue(root, path, "training"), spec_keys);
  const TomlTable& table = r.table();
  const auto beside = [&](const std::string& name) { return (file.parent_path() / name).string(); };
  TrainingSpec s;
  s.file = file;
  s.model = read_model(table.at("model"), file);
  const TomlValue& policy = table.at("policy");
  s.policy = policy.naming_place([&] {
    const std::string name = policy.text("a policy's name, or its file");
    return read_policy(is_file(name) ? beside(name) : name);
  });
  r.word("sharding", s.sharding, sharding_names);
  if (const TomlValue* v = table.find("gather")) {
    if (s.sharding != Sharding::fsdp) v->refuse("without effect", "sharding = \"fsdp\" beside it");
    s.gather = format_named(gather_formats[v->place_in(gather_formats, "format")]).value();
  }
  if (const TomlValue* v = table.find("data")) {
    s.data = v->text("auto, or a text file");
    if (s.data.empty()) v->refuse("no name", "auto, or a text file");
    if (s.data != "auto") s.data = beside(s.data);
  }
  r.whole("seed", s.seed, 0, std::numeric_limits<std::int64_t>::max());
  r.whole("steps", s.steps, 1);
  r.whole("micro_batches", s.micro_batches, 1, 1 << 20);
  r.whole("sequences", s.sequences, 1, 1 << 20);
  if (const TomlValue* v = table.find("schedule")) read_schedule(*v, s.schedule);
  if (const TomlValue* v = table.find("optimizer")) read_optimizer(*v, s.optimizer);
  r.whole("checkpoint_every", s.checkpoint_every, 0);
  if (const TomlValue* v = table.find("checkpoint_folder"))
    s.checkpoint_folder = v->text("a folder");
  require_valid(s, path);
  return s;
}

void require_valid(const TrainingSpec& spec, const std::string& where) {
  require_valid(spec.model, where);
  require_fits(spec.policy, spec.model, where);
}

double learning_rate(const Schedule& s, std::int64_t step, std::int64_t steps) {
  if (step < s.warmup_steps)
    return s.lr * (static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps));
  const std::int64_t last = steps - 1;
  if (last <= s.warmup_steps || s.final_share == 1) return s.lr;
  const double done = static_cast<double>(std::min(step, last) - s.warmup_steps) /
                      static_cast<double>(last - s.warmup_steps);
  const double share = 0.5 * (1 + opbound::cos(std::numbers::pi * done));
  return s.lr * (s.final_share + (1 - s.final_share) * share);
}

}  // namespace opbound::train
