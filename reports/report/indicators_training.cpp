// Indicators that are made from logs and traces of training runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "distributed/trace/sentinel.hpp"
#include "reports/page.hpp"
#include "reports/report/html.hpp"
#include "reports/report/indicators.hpp"
#include "reports/text.hpp"

namespace opbound::report::detail {
namespace {

const std::string trace_command = "opbound train FILE.toml --trace FILE.trace";
const std::string pair_command = trace_command + ", of each run of the pair";
const std::string twin_command = "opbound report A.trace B.trace --twins TWIN.trace TWIN.trace ...";

/// A run's losses and norms, from a log or a trace.
struct Course {
  std::string name;
  struct Step {
    std::int64_t step;
    double loss, norm;
    bool is_skipped;
  };
  std::vector<Step> steps;
};

std::vector<Course> courses_of(const Material& m) {
  std::vector<Course> all;
  for (const LogFile& file : m.inputs.logs)
    for (const train::LoggedRun& run : file.runs) {
      Course c{file.path, {}};
      for (const train::StepResult& s : run.steps)
        c.steps.push_back({s.step, s.loss, s.gradient_norm, s.is_skipped});
      all.push_back(std::move(c));
    }
  if (!all.empty()) return all;
  for (const TraceRun& run : m.traces.runs) {
    Course c{run.path, {}};
    for (const TracedStep& s : run.steps)
      c.steps.push_back({s.step, s.loss, s.gradient_norm, s.is_skipped});
    all.push_back(std::move(c));
  }
  return all;
}

/// How far a quantity leaves what its own past lets one expect, over all courses.
struct Rolling {
  double most = 0;
  std::int64_t step = -1;
  std::string of;
  bool has_window = false;  ///< enough steps for one comparison
  double variation = 0;     ///< the largest standard deviation of a window over its mean

  template <class Value>
  void take(const Course& course, Value value) {
    trace::Trend trend(trace::SentinelOptions{}.alpha,
                       2 * static_cast<double>(course.steps.size()));
    std::vector<double> window;
    for (const Course::Step& s : course.steps) {
      if (s.is_skipped) continue;
      has_window = has_window || window.size() >= trace::Trend::window;
      const double excess = trend.take(value(s));
      if (step < 0 || excess > most) {
        most = excess;
        step = s.step;
        of = course.name;
      }
      window.push_back(value(s));
      if (window.size() >= trace::Trend::window)
        variation = std::max(variation, variation_of(window));
    }
  }

 private:
  static double variation_of(const std::vector<double>& values) {
    constexpr auto n = static_cast<double>(trace::Trend::window);
    const auto first = values.end() - static_cast<std::ptrdiff_t>(trace::Trend::window);
    double mean = 0, square = 0;
    for (auto x = first; x != values.end(); ++x) mean += *x / n;
    for (auto x = first; x != values.end(); ++x) square += (*x - mean) * (*x - mean);
    return std::sqrt(square / (n - 1)) / std::abs(mean);
  }
};

Indicator of_rolling(const std::string& name, const Rolling& r, bool is_variation) {
  const std::string target = fmt::format(
      "at most 1, else a suspicion: the prediction interval of the last {} values, {:g} over a run",
      trace::Trend::window, trace::SentinelOptions{}.alpha);
  if (!r.has_window)
    return not_run(name, target,
                   fmt::format("opbound train FILE.toml --log FILE.jsonl, of more than {} steps",
                               trace::Trend::window));
  std::string measured = legible(r.most) + " times the limit";
  if (is_variation) measured = "variation up to " + legible(r.variation) + "; " + measured;
  // Losses and norms are not normal: beyond the interval is a suspicion, as the sentinel has it.
  return {name, target, measured, r.most <= 1 ? Standing::pass : Standing::no_limit,
          html_text("step " + std::to_string(r.step) + " of " + r.of)};
}

void add_ends(const Material& m, std::vector<Indicator>& to) {
  const std::string name = "runs that did not finish", target = "0";
  if (m.inputs.logs.empty()) {
    to.push_back(not_run(name, target, "opbound train FILE.toml --log FILE.jsonl"));
    return;
  }
  std::uint64_t count = 0;
  std::string source;
  for (const LogFile& file : m.inputs.logs)
    for (const train::LoggedRun& run : file.runs) {
      if (run.result && run.result->is_finished()) continue;
      ++count;
      const std::string why = run.result ? run.result->reason : "no result in the log";
      source = html_text(file.path + ": " + (why.empty() ? "interrupted" : why));
    }
  to.push_back(none_of(name, target, count, "", source));
}

void add_courses(const Material& m, std::vector<Indicator>& to) {
  const std::vector<Course> courses = courses_of(m);
  Rolling loss, norm;
  std::uint64_t nonfinite = 0, skipped = 0, steps = 0;
  std::string nonfinite_at, skipped_at;
  for (const Course& c : courses) {
    loss.take(c, [](const Course::Step& s) { return s.loss; });
    norm.take(c, [](const Course::Step& s) { return s.norm; });
    for (const Course::Step& s : c.steps) {
      ++steps;
      const std::string at = html_text("step " + std::to_string(s.step) + " of " + c.name);
      if (s.is_skipped && skipped++ == 0) skipped_at = at;
      if (!s.is_skipped && !(std::isfinite(s.loss) && std::isfinite(s.norm)) && nonfinite++ == 0)
        nonfinite_at = at;
    }
  }
  to.push_back(of_rolling("rolling deviation of the loss", loss, false));
  to.push_back(of_rolling("coefficient of variation of gradient norms", norm, true));
  const std::string name = "losses and norms that are not finite", target = "0 steps";
  const std::string skips = "skipped steps", word = "a dynamic loss scale skips steps";
  if (steps == 0) {
    to.push_back(not_run(name, target, trace_command));
    to.push_back(not_run(skips, word, trace_command));
    return;
  }
  const std::string of = "of " + std::to_string(steps) + " steps";
  to.push_back(none_of(name, target, nonfinite, of, nonfinite_at));
  to.push_back(none_of(skips, word, skipped, of, skipped_at));
  to.back().standing = Standing::no_limit;
}

void add_runs(const Material& m, std::vector<Indicator>& to) {
  const std::string nan = "elements of gradients that are not finite",
                    none = "0 in steps that are not skipped", alarms = "alarms of the sentinel",
                    lost = "lost updates", share = "told, no limit is derived";
  if (m.traces.runs.empty()) {
    for (const auto& [name, target] : {std::pair(nan, none), {alarms, "0"}, {lost, share}})
      to.push_back(not_run(name, target, trace_command + " --sentinel"));
    return;
  }
  std::uint64_t nonfinite = 0, events = 0, watched = 0;
  std::string nonfinite_at, event;
  std::optional<double> most_lost;
  std::string lost_at;
  for (const TraceRun& run : m.traces.runs) {
    for (const TracedStep& s : run.steps) {
      const std::string at = "step " + std::to_string(s.step) + " of " + run.path;
      if (!s.is_skipped && s.nonfinite > 0 && nonfinite_at.empty()) nonfinite_at = html_text(at);
      if (!s.is_skipped) nonfinite += static_cast<std::uint64_t>(s.nonfinite);
      if (!s.lost_updates || (most_lost && *s.lost_updates <= *most_lost)) continue;
      most_lost = s.lost_updates;
      lost_at = html_text(s.lost_in + ", " + at);
    }
    if (!run.events.empty() && event.empty()) event = link_to("alarms", run.events.front().place);
    events += run.events.size();
    watched += std::ranges::any_of(run.head.environment,
                                   [](const auto& e) { return e.first == trace::watched_by; })
                   ? 1
                   : 0;
  }
  to.push_back(none_of(nan, none, nonfinite, "", nonfinite_at));
  if (events == 0 && watched == 0)
    to.push_back(not_run(alarms, "0", trace_command + " --sentinel"));
  else
    to.push_back(none_of(alarms, "0", events,
                         "in " + std::to_string(watched) + " of " +
                             std::to_string(m.traces.runs.size()) + " runs watched",
                         event));
  if (!most_lost) {
    to.push_back(not_run(lost, share, trace_command + " --trace-full STEPS"));
    return;
  }
  to.push_back({lost, share, "up to " + legible(100 * *most_lost) + "% of a parameter's elements",
                Standing::no_limit, lost_at});
}

/// The step at which a number of a distance is largest.
template <class Value>
const trace::StepDistance& largest(const TracePair& pair, Value value) {
  return *std::ranges::max_element(pair.distances, {}, value);
}

std::string distance_link(const trace::StepDistance& d) {
  return link_to("distance-" + std::to_string(d.step), "step " + std::to_string(d.step));
}

void add_cosine(const Material& m, std::vector<Indicator>& to) {
  const TracePair& pair = *m.traces.pair;
  const trace::StepDistance& least =
      largest(pair, [](const trace::StepDistance& d) { return 1 - d.cosine; });
  std::uint64_t beyond = 0, idle = 0;
  std::optional<trace::Excess> worst;
  const trace::StepDistance* at = nullptr;
  for (const trace::StepDistance& d : pair.distances) {
    idle += pair.band && pair.band->is_idle(d.step) ? 1 : 0;
    if (const auto e = trace::excess_of(d, pair.band ? &*pair.band : nullptr)) {
      ++beyond;
      if (worst && !(e->distance * worst->limit > worst->distance * e->limit)) continue;
      worst = e;
      at = &d;
    }
  }
  Indicator cosine{"fingerprint cosine", "no cosine is a limit: rounding alone decides it",
                   "1 - cosine up to " + legible(1 - least.cosine), Standing::no_limit,
                   distance_link(least)};
  if (pair.must_agree) {
    cosine.target = "every bit: both runs compute the same";
    cosine.standing = beyond == 0 ? Standing::pass : Standing::fail;
  }
  const std::string name = "fingerprint distance of each parameter";
  const std::string target = pair.must_agree ? "every bit" : "the limit of the first run's twins";
  to.push_back(cosine);
  if (!pair.has_limits()) {
    to.push_back(not_run(name, target, twin_command));
    return;
  }
  Indicator distance = none_of(name, target, beyond,
                               "of " + std::to_string(pair.distances.size()) + " steps beyond", "");
  if (idle > 0) {
    distance.measured += "; at " + std::to_string(idle) + " no distance reaches the limit";
    // What could not fail has not passed.
    if (idle == pair.distances.size()) distance.standing = Standing::no_limit;
  }
  if (worst) {
    distance.source = html_text(m.traces.runs.front().parameters[worst->parameter].name) + ", " +
                      distance_link(*at);
    if (pair.first_call) distance.source += ", " + link_to("first-call", "first call that differs");
  }
  to.push_back(distance);
}

/// Something of a pair with a limit by its twins.
template <class Value, class Limit>
Indicator by_twins(const TracePair& pair, const std::string& name, const std::string& unit,
                   Value value, Limit limit) {
  const trace::StepDistance& worst = largest(pair, [&](const trace::StepDistance& d) {
    const double at = pair.band ? limit(d) : 1;
    return std::isfinite(at) && at > 0 ? value(d) / at : value(d);
  });
  const double most = value(worst);
  Indicator i{name, "no limit without twins: --twins TWIN.trace", legible(most) + unit,
              Standing::no_limit, most == 0 ? "" : distance_link(worst)};
  if (!pair.has_limits()) return i;
  const double bound = pair.must_agree ? 0 : limit(worst);
  if (!std::isfinite(bound)) return i;
  i.target = pair.must_agree ? "0: both runs compute the same"
                             : "at most " + legible(bound) + " there, by the twins";
  i.standing = most <= bound ? Standing::pass : Standing::fail;
  return i;
}

void add_pair(const Material& m, std::vector<Indicator>& to) {
  const std::string twins = "the limit of the first run's twins";
  const std::string kl = "KL divergence after the prompts";
  const std::string prompts = trace_command + " --trace-prompts STEPS, of each run of the pair";
  if (!m.traces.pair) {
    for (const char* name : {"fingerprint cosine", "fingerprint distance of each parameter",
                             "difference of the losses", "texts and random numbers of the pair"})
      to.push_back(not_run(name, twins, pair_command));
    to.push_back(not_run(kl, twins, prompts));
    return;
  }
  const TracePair& pair = *m.traces.pair;
  add_cosine(m, to);
  to.push_back(by_twins(
      pair, "difference of the losses", "", [](const trace::StepDistance& d) { return d.loss; },
      [&](const trace::StepDistance& d) { return pair.band->loss_limit(d.step); }));
  std::uint64_t others = 0;
  std::string source;
  for (const trace::StepDistance& d : pair.distances)
    if (!(d.has_same_samples && d.has_same_randomness) && others++ == 0) source = distance_link(d);
  to.push_back(none_of("texts and random numbers of the pair", "0 steps with others", others,
                       "of " + std::to_string(pair.distances.size()) + " steps", source));
  const bool has_kl =
      std::ranges::any_of(pair.distances, [](const auto& d) { return d.kl_nats.has_value(); });
  if (!has_kl)
    to.push_back(not_run(kl, twins, prompts));
  else
    to.push_back(by_twins(
        pair, kl, " nats", [](const trace::StepDistance& d) { return d.kl_nats.value_or(0); },
        [&](const trace::StepDistance& d) { return pair.band->kl_limit(d.step); }));
}

}  // namespace

void add_log_indicators(const Material& m, std::vector<Indicator>& to) {
  add_ends(m, to);
  add_courses(m, to);
}

void add_trace_indicators(const Material& m, std::vector<Indicator>& to) {
  add_runs(m, to);
  add_pair(m, to);
}

}  // namespace opbound::report::detail
