// Planted faults of collectives: ranks that do one thing wrong. Each names the check that has to
// find it; without the fault the same ranks pass all of them.
#pragma once

#include <functional>
#include <memory>

#include "distributed/check.hpp"
#include "distributed/simulated.hpp"
#include "suites/input.hpp"
#include "tests/attack_kernels.hpp"

namespace opbound::planted {

inline CollectiveSpec collective(int order, std::int32_t ranks, std::int64_t n,
                                 std::string_view precision, all_reduce::Attributes attributes = {},
                                 const char* input = "normal") {
  CollectiveSpec c;
  c.spec = attack::case_for("all_reduce", Direction::forward, precision, {ranks, n});
  c.spec.attributes = to_bytes(attributes);
  c.spec.inputs = {{"x", parse_input(input)}};
  const bool is_extreme = attributes.reduction == all_reduce::Reduction::min ||
                          attributes.reduction == all_reduce::Reduction::max;
  c.spec.variant = is_extreme ? all_reduce::any_order : order;
  c.spec.declared = {c.spec.variant};
  c.order = order;
  return c;
}

/// Ranks that do something of their own in place of what they are told.
class FaultyRanks final : public Engine {
 public:
  using Run =
      std::function<void(SimulatedRanks&, Schedule, Reducer, Buffers&, const Circumstances&)>;

  FaultyRanks(std::int32_t ranks, Run run, bool keeps_order = true)
      : Engine({.name = "faulty ranks",
                .version = "1",
                .keeps_order = keeps_order,
                .has_streams = true,
                .has_addresses = true},
               {ranks, 0, ranks}),
        simulated_(ranks),
        run_(std::move(run)) {}

  std::vector<std::byte> gather(std::span<const std::byte> all) override {
    return simulated_.gather(all);
  }

 private:
  void run_under(const Circumstances& circumstances, const Schedule& schedule,
                 const Reducer& reducer, Buffers& buffers) override {
    run_(simulated_, schedule, reducer, buffers, circumstances);
  }

  SimulatedRanks simulated_;
  Run run_;
};

struct Fault {
  std::string_view name, what;
  std::string_view part;  ///< of the record that finds it
  std::function<CollectiveSpec()> spec;
  std::function<std::unique_ptr<Engine>(bool is_planted)> engine;
};

inline Fault in_messages(std::string_view name, std::string_view what, std::string_view part,
                         std::function<CollectiveSpec()> spec,
                         const std::function<void(Letter&)>& tamper) {
  return {name, what, part, std::move(spec), [tamper](bool is_planted) {
            SimulationOptions options;
            if (is_planted) options.tamper = tamper;
            return std::make_unique<SimulatedRanks>(8, options);
          }};
}
inline Fault in_ranks(std::string_view name, std::string_view what, std::string_view part,
                      std::function<CollectiveSpec()> spec, const FaultyRanks::Run& run) {
  return {name, what, part, std::move(spec), [run](bool is_planted) -> std::unique_ptr<Engine> {
            const FaultyRanks::Run right = [](SimulatedRanks& simulated, const Schedule& s,
                                              const Reducer& r, Buffers& own,
                                              const Circumstances&) { simulated.run(s, r, own); };
            return std::make_unique<FaultyRanks>(8, is_planted ? run : right);
          }};
}

inline Fault missing_wait() {
  return {"missing_wait", "the bias is sent without waiting for the stream that writes it",
          "streams",
          [] {
            CollectiveSpec c = collective(all_reduce::ring, 8, 61, "fp32");
            c.tensors = {{"weight", {0, 40}}, {"bias", {40, 21}}};
            return c;
          },
          [](bool is_planted) {
            SimulationOptions options;
            if (is_planted) options.unwaited = {"bias"};
            return std::make_unique<SimulatedRanks>(8, options);
          }};
}

/// Each rank adds all ranks in turn from its own on.
inline void add_from_own(SimulatedRanks&, const Schedule&, const Reducer& reducer, Buffers& buffers,
                         const Circumstances&) {
  const Buffers given = buffers;
  for (std::size_t r = 0; r < given.size(); ++r)
    for (std::size_t i = 0; i < given[r].size(); ++i) {
      double total = given[r][i];
      for (std::size_t k = 1; k < given.size(); ++k)
        total = reducer.combined(total, given[(r + k) % given.size()][i]);
      buffers[r][i] = total;
    }
}

/// Faults of what must not matter: a balanced tree that is another order where it does.
inline std::vector<Fault> order_faults() {
  const auto tree = [] { return collective(all_reduce::balanced_tree, 8, 61, "fp32"); };
  const auto otherwise = [](const auto& when) -> FaultyRanks::Run {
    return [when](SimulatedRanks& simulated, Schedule s, const Reducer& r, Buffers& own,
                  const Circumstances& now) {
      if (when(simulated, s, own, now)) s.order = all_reduce::halving_doubling;
      simulated.run(s, r, own);
    };
  };
  using B = const Buffers&;
  using C = const Circumstances&;
  using S = const Schedule&;
  using W = const SimulatedRanks&;
  return {in_ranks("order_of_arrival", "what comes first is added first", "again", tree,
                   otherwise([](W, S, B, C now) { return now.disturbance > 0; })),
          in_ranks("another_order", "halves are exchanged over the longest way first", "order",
                   tree, otherwise([](W, S, B, C) { return true; })),
          in_ranks("order_by_size", "short messages go another way", "size", tree,
                   otherwise([](W, S, B own, C) { return own[0].size() < 61; })),
          in_ranks("order_by_address", "what is not aligned goes another way", "alignment", tree,
                   otherwise([](W, S, B, C now) { return now.offset != 0; })),
          in_ranks("order_by_ranks", "4 ranks or fewer go another way", "number of ranks", tree,
                   otherwise([](W simulated, S s, B, C) { return s.ranks < simulated.ranks(); }))};
}

inline std::vector<Fault> all_faults() {
  const auto ring = [] { return collective(all_reduce::ring, 8, 61, "bf16:fp32:bf16"); };
  const auto mean = [] {
    all_reduce::Attributes a;
    a.reduction = all_reduce::Reduction::mean;
    return collective(all_reduce::binary_tree, 8, 61, "bf16:fp32:bf16", a);
  };
  const auto max = [] {
    all_reduce::Attributes a;
    a.reduction = all_reduce::Reduction::max;
    return collective(all_reduce::ring, 8, 61, "fp32", a, "special");
  };
  const auto norms = [] {  // each rank's own sum of squares, to become everybody's
    return collective(all_reduce::balanced_tree, 8, 5, "fp32", {}, "uniform(low=1, high=2)");
  };
  const auto tree = [] { return collective(all_reduce::balanced_tree, 8, 61, "fp32"); };
  std::vector<Fault> faults{
      in_ranks("wrong_divisor", "a mean over the ranks of another group", "y", mean,
               [](SimulatedRanks& simulated, const Schedule& s, Reducer r, Buffers& own,
                  const Circumstances&) {
                 r.terms -= 1;
                 simulated.run(s, r, own);
               }),
      in_ranks("divided_twice", "a mean that divides before is divided after all the same", "mean",
               mean,
               [](SimulatedRanks& simulated, const Schedule& s, Reducer r, Buffers& own,
                  const Circumstances&) {
                 r.divides = all_reduce::Divides::after;
                 simulated.run(s, r, own);
               }),
      in_messages("double_count", "a partial sum is added twice", "y", ring,
                  [](Letter& l) {
                    if (l.from != 2 || l.round != 3) return;
                    for (double& v : l.payload) v *= 2;
                  }),
      in_messages("dropped_tail", "the last element of a message is not sent", "y", ring,
                  [](Letter& l) {
                    if (l.round < 7 && l.from == 5) l.payload.back() = 0;
                  }),
      in_messages("dropped_tail_of_the_gather", "the same, of sums that are complete", "ranks",
                  ring,
                  [](Letter& l) {
                    if (l.round >= 7 && l.from == 5) l.payload.back() = 0;
                  }),
      in_messages("nan_lost_in_max", "a comparison that is false for NaN", "y", max,
                  [](Letter& l) {
                    for (double& v : l.payload)
                      if (v != v) v = -INFINITY;
                  }),
      in_messages("stale_shard", "rank 3 sends what was in the buffer of the step before", "y",
                  tree,
                  [before = std::vector<double>{}](Letter& l) mutable {
                    if (l.from != 3 || l.round > 2) return;
                    std::vector<double> own = l.payload;
                    before.resize(own.size());
                    std::swap(l.payload, before);
                    before = own;
                  }),
      in_ranks(
          "local_norm_as_global", "each rank takes its own sum of squares for the sum of all",
          "ranks", norms,
          [](SimulatedRanks&, const Schedule&, const Reducer&, Buffers&, const Circumstances&) {}),
      in_ranks("order_per_rank", "each rank adds from itself on", "ranks", tree, add_from_own),
      missing_wait()};
  for (Fault& fault : order_faults()) faults.push_back(std::move(fault));
  return faults;
}

}  // namespace opbound::planted
