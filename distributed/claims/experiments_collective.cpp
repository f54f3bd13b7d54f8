// Ranks, the order in which they add, streams that nobody waits for, numbers that are none.
#include <algorithm>
#include <cmath>
#include <set>

#include "distributed/claims/experiment.hpp"
#include "distributed/claims/op_case.hpp"
#include "distributed/nonfinite.hpp"
#include "distributed/scale.hpp"
#include "distributed/simulated.hpp"
#include "reports/error.hpp"

namespace opbound::claims {
namespace {

constexpr std::int64_t bucket = 256;  // elements of a tensor of a message

int order_named(const std::string& name) {
  for (const int order : all_orders())
    if (name_of_order(order) == name) return order;
  throw InputError("", "order '" + name + "'", "one that `opbound list variants` prints");
}

/// Every rank's gradients of `tensors` tensors one behind the other.
Buffers gradients_of(std::int32_t ranks, std::int64_t tensors) {
  Buffers buffers;
  for (std::int32_t r = 0; r < ranks; ++r) {
    buffers.push_back(
        normal_numbers(tensors * bucket, static_cast<std::uint64_t>(r) + 1, "gradient"));
    for (double& x : buffers.back()) x = round_to(fp32, x);
  }
  return buffers;
}

std::vector<TensorRange> tensors_of(std::int64_t count) {
  std::vector<TensorRange> all;
  for (std::int64_t t = 0; t < count; ++t)
    all.push_back({"layer" + std::to_string(t), {t * bucket, bucket}});
  return all;
}

Reducer mean_of(std::int32_t ranks) {
  Reducer reducer;
  reducer.reduction = all_reduce::Reduction::mean;
  reducer.terms = ranks;
  return reducer;
}

std::set<std::int64_t> tensors_that_differ(const Buffers& a, const Buffers& b) {
  std::set<std::int64_t> differing;
  for (std::size_t r = 0; r < a.size(); ++r)
    for (std::size_t i = 0; i < a[r].size(); ++i)
      if (std::bit_cast<std::uint64_t>(a[r][i]) != std::bit_cast<std::uint64_t>(b[r][i]))
        differing.insert(static_cast<std::int64_t>(i) / bucket);
  return differing;
}

/// Some tensors' streams are late, and nobody waits for those of `unwaited`.
Measured late_streams(const Given& given, Laboratory&) {
  const auto ranks = static_cast<std::int32_t>(given.whole("ranks"));
  const std::int64_t count = given.whole("tensors");
  const std::vector<TensorRange> tensors = tensors_of(count);
  SimulationOptions options;
  options.unwaited = given.words("unwaited");
  SimulatedRanks right(ranks), planted(ranks, options);
  const Schedule schedule{Collective::all_reduce, order_named("ring"), ranks};
  Buffers expected = gradients_of(ranks, count), got = expected;
  right.run(schedule, mean_of(ranks), expected);
  planted.run(schedule, mean_of(ranks), got, {.disturbance = 0, .late = tensors});
  const std::set<std::int64_t> soiled = tensors_that_differ(expected, got);
  double named = 0;
  for (const std::int64_t t : soiled) {
    const std::string name = tensors[static_cast<std::size_t>(t)].name;
    named += std::count(options.unwaited.begin(), options.unwaited.end(), name) > 0 ? 1 : 0;
  }
  Measured m;
  m.add("soiled", static_cast<double>(soiled.size()), "tensors whose mean is wrong on some rank");
  m.add("soiled_unwaited", named, "of them, those whose stream nobody waited for");
  m.add("soiled_others", static_cast<double>(soiled.size()) - named, "and all others");
  m.add("unwaited", static_cast<double>(options.unwaited.size()), "tensors nobody waited for");
  return m;
}

/// The same sum again and again, ranks and messages delayed otherwise each time.
Measured delays(const Given& given, Laboratory&) {
  const auto ranks = static_cast<std::int32_t>(given.whole("ranks"));
  const Schedule schedule{Collective::all_reduce, order_named(given.text("order")), ranks};
  Buffers first;
  double differing = 0;
  std::int64_t least = 0, most = 0;
  for (std::int64_t k = 0; k < given.whole("runs"); ++k) {
    SimulatedRanks engine(ranks, {.seed = static_cast<std::uint64_t>(k) + 1,
                                  .most_skew = k == 0 ? 1 : given.whole("skew")});
    Buffers buffers = gradients_of(ranks, 4);
    engine.run(schedule, mean_of(ranks), buffers,
               {.disturbance = static_cast<std::uint64_t>(k), .late = {}});
    const std::int64_t skew = engine.count().last_start - engine.count().first_start;
    least = k == 0 ? skew : std::min(least, skew);
    most = std::max(most, skew);
    if (first.empty()) first = buffers;
    differing += tensors_that_differ(first, buffers).empty() ? 0 : 1;
  }
  Measured m;
  m.add("differing", differing, "runs whose bits differ from the first one's", "runs");
  m.add("least_skew", static_cast<double>(least), "ticks between the first and the last start",
        "ticks");
  m.add("most_skew", static_cast<double>(most), "the same in the run with the largest", "ticks");
  return m;
}

/// One rank has one NaN.
Measured planted_nan(const Given& given, Laboratory&) {
  const auto ranks = static_cast<std::int32_t>(given.whole("ranks"));
  const auto planted = static_cast<std::size_t>(ranks / 2);
  SimulatedRanks engine(ranks);
  Buffers buffers = gradients_of(ranks, 3);
  if (given.flag("planted")) buffers[planted][bucket + 17] = std::nan("");
  const std::optional<NonFinite> origin = first_nonfinite(engine, buffers, tensors_of(3));
  const Schedule schedule{Collective::all_reduce, order_named("ring"), ranks};
  engine.run(schedule, mean_of(ranks), buffers);
  double soiled = 0;
  for (const auto& own : buffers)
    soiled += std::any_of(own.begin(), own.end(), [](double x) { return std::isnan(x); }) ? 1 : 0;
  const bool right = origin && origin->rank == static_cast<std::int32_t>(planted) &&
                     origin->tensor == "layer1" && origin->index == 17;
  Measured m;
  m.add("ranks", ranks, "ranks of the sum");
  m.add("soiled", soiled, "ranks that have a NaN after it");
  m.add("named", right ? 1 : 0, "1: asked before the sum, rank, tensor and element are named");
  return m;
}

Measured first_overflowing(const Given& given, Laboratory&) {
  CollectiveSpec c;
  c.order = order_named(given.text("order"));
  c.spec.op = find_op("all_reduce");
  const auto precision = precision_named(given.text("precision"));
  if (!precision) throw InputError("", "precision", "storage:compute:output");
  c.spec.precision = *precision;
  all_reduce::Attributes a;
  a.reduction =
      given.text("divides") == "never" ? all_reduce::Reduction::sum : all_reduce::Reduction::mean;
  a.divides =
      given.text("divides") == "before" ? all_reduce::Divides::before : all_reduce::Divides::after;
  c.spec.attributes = to_bytes(a);
  const auto most = static_cast<std::int32_t>(given.whole("most"));
  const std::optional<std::int32_t> first = first_overflow(c, given.number("gradient"), most);
  Measured m;
  m.add("ranks", first ? static_cast<double>(*first) : HUGE_VAL,
        "the fewest ranks whose equal gradients add up to no number; inf: none up to " +
            std::to_string(most));
  return m;
}

/// A gradient is cut into shards, each clipped by its own norm or by that of all.
Measured sharded_clip(const Given& given, Laboratory&) {
  const auto shards = given.whole("shards");
  const double limit = 1;
  Buffers parts = gradients_of(static_cast<std::int32_t>(shards), 1);
  for (std::size_t s = 0; s < parts.size(); ++s)  // shards of layers differ in size
    for (double& x : parts[s]) x *= std::exp2(static_cast<double>(s) - 2);
  double squares = 0;
  for (const auto& part : parts)
    for (const double x : part) squares += x * x;
  std::set<double> factors;
  double dot = 0, clipped = 0;
  for (const auto& part : parts) {
    double own = 0;
    for (const double x : part) own += x * x;
    const double norm = std::sqrt(given.flag("local") ? own : squares);
    const double factor = std::min(1.0, limit / norm);
    factors.insert(factor);
    clipped += factor * factor * own;
    dot += factor * own;
  }
  Measured m;
  m.add("factors", static_cast<double>(factors.size()),
        "different factors that the shards are multiplied with; one keeps the direction");
  m.add("norm", std::sqrt(clipped), "norm of the clipped gradient, whose limit is 1");
  m.add("cosine", dot / std::sqrt(clipped * squares), "its cosine with the gradient");
  return m;
}

}  // namespace

Experiments collective_experiments() {
  return {{"late_streams",
           "an all-reduce whose tensors are written late by their streams; nobody waits for some",
           {{"ranks", std::int64_t{8}},
            {"tensors", std::int64_t{10}},
            {"unwaited", std::string("layer3 layer7")}},
           late_streams},
          {"delays",
           "the same all-reduce under other delays of ranks and messages",
           {{"ranks", std::int64_t{8}},
            {"order", std::string("ring")},
            {"runs", std::int64_t{50}},
            {"skew", std::int64_t{1000}}},
           delays},
          {"planted_nan",
           "an all-reduce one of whose ranks has one NaN",
           {{"ranks", std::int64_t{8}}, {"planted", true}},
           planted_nan},
          {"first_overflow",
           "the number of ranks from which equal gradients overflow",
           {{"gradient", 8190.0},
            {"precision", std::string("fp16:fp16:fp16")},
            {"divides", std::string("never")},
            {"order", std::string("ring")},
            {"most", std::int64_t{64}}},
           first_overflowing},
          {"sharded_clip",
           "clipping of a sharded gradient by the norm of all shards, or of each alone",
           {{"shards", std::int64_t{4}}, {"local", false}},
           sharded_clip}};
}

}  // namespace opbound::claims
