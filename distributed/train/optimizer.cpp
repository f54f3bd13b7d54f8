#include "distributed/train/optimizer.hpp"

#include <algorithm>
#include <array>

#include "ops/hash.hpp"

namespace opbound::train {
namespace {

constexpr std::int64_t scalar_bytes = 256;  // of a scalar with an address of its own

Precision of_update(const Policy& policy) { return policy.rule("unscale", -1).precision; }

/// What the two ranges have in common.
Range common(const Range& a, const Range& b) {
  const Range c{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return c.end > c.begin ? c : Range{a.begin, a.begin};
}

/// Neighbours joined.
std::vector<Range> joined(const std::vector<Range>& ranges) {
  std::vector<Range> all;
  for (const Range& r : ranges) {
    if (r.count() == 0) continue;
    if (!all.empty() && all.back().end == r.begin)
      all.back().end = r.end;
    else
      all.push_back(r);
  }
  return all;
}

double scalar(Machine& machine, const std::byte* there, Element e) {
  std::array<std::byte, 8> bytes{};
  machine.read(bytes.data(), there, bytes_of(e));
  return load(e, bytes.data(), 0);
}

}  // namespace

struct OptimizerStep::Recorded {
  Recorded(const TrainingSpec& s, const Layout& l, const std::vector<Range>& ranges,
           std::int64_t all_ranks, Machine& there)
      : spec(s),
        layout(l),
        owned(joined(ranges)),
        ranks(all_ranks),
        machine(there),
        norm_tape(s.policy),
        update_tape(s.policy) {
    for (const Range& r : owned) count += r.count();
    is_whole = owned.size() == 1 && owned.front() == Range{0, layout.count()};
    chunks = spec.policy.reproducible_sum ? chunks_of_a_unit : ranks;
    in_turn = is_whole && !spec.policy.reproducible_sum;
    const auto units = static_cast<std::int64_t>(layout.units().size());
    norms = in_turn ? 1 : chunks * units;
    record_norms();
    record_update();
  }

  /// Where a part of what is owned lies in the arrays.
  Ref part_of(const Ref& flat, const Range& part) const {
    std::int64_t at = 0;
    for (const Range& r : owned) {
      if (r.begin <= part.begin && part.end <= r.end)
        return flat.part(0, at + part.begin - r.begin, part.count());
      at += r.count();
    }
    detail::require(false, "what is updated is owned");
    return {};
  }

  Element compute() const { return element_of(of_update(spec.policy).compute); }

  /// The norm of each chunk that is owned, at [chunk][unit]: a rank's lie one after the other.
  void record_norms() {
    const Precision p = of_update(spec.policy);
    gradient[0] =
        norm_tape.hold({"gradient", element_of(spec.policy.gradient), {count}, Life::input, -1});
    norm_values[0] = norm_tape.hold({"norms", compute(), {norms}, Life::result, -1});
    const auto record = [&](const Range& r, std::int64_t place) {
      const std::int64_t n = r.count() / shards_of_a_norm;
      const auto y =
          norm_tape.call({"global_norm", -1, Precision{p.storage, p.compute, p.compute}},
                         "global_norm", {{"shards", shards_of_a_norm}, {"n", n}, {"one", 1}},
                         {{"g", part_of(gradient[0], r).reshaped({shards_of_a_norm, n})}});
      norm_tape.keep(y.at("norm"), norm_values[0].part(0, place, 1));
    };
    if (in_turn) return record(owned.front(), 0);
    const auto units = static_cast<std::int64_t>(layout.units().size());
    for (std::int64_t c = 0; c < chunks; ++c)
      for (std::int64_t u = 0; u < units; ++u) {
        const Range all = layout.units()[static_cast<std::size_t>(u)].all;
        const Range r{all.begin + all.count() * c / chunks,
                      all.begin + all.count() * (c + 1) / chunks};
        const bool is_owned = std::any_of(owned.begin(), owned.end(), [&](const Range& o) {
          return o.begin <= r.begin && r.end <= o.end;
        });
        if (is_owned) record(r, c * units + u);
      }
  }

  void record_update() {
    Tape& t = update_tape;
    const Precision p = of_update(spec.policy);
    const Precision wide{p.compute, p.compute, p.compute};
    norm_values[1] = t.hold({"norms", compute(), {norms}, Life::input, -1});
    scale = t.hold({"scale", Element::fp32, {1}, Life::input, -1});
    norm = t.hold({"norm", compute(), {1}, Life::result, -1});
    found_inf = t.hold({"found_inf", Element::boolean, {1}, Life::result, -1});
    Ref scaled = norm_values[1];
    if (norms > 1)
      scaled =
          t.call({"global_norm", -1, wide}, "global_norm",
                 {{"shards", 1}, {"n", norms}, {"one", 1}}, {{"g", scaled.reshaped({1, norms})}})
              .at("norm");
    const auto off = t.call({"unscale", -1, wide}, "unscale", {{"n", 1}, {"one", 1}},
                            {{"g", scaled}, {"scale", scale}});
    t.keep(off.at("unscaled"), norm);
    t.keep(off.at("found_inf"), found_inf);

    gradient[1] = t.hold({"gradient", element_of(spec.policy.gradient), {count}, Life::input, -1});
    const Element state = element_of(spec.policy.master);
    for (const auto& [name, ref] : {std::pair{"w", &w}, std::pair{"m", &m}, std::pair{"v", &v}})
      *ref = t.hold({name, state, {count}, Life::result, -1});
    for (const Range& r : owned) record_range(r);
  }

  void record_range(const Range& r) {
    Ref g = part_of(gradient[1], r);
    if (spec.policy.loss_scale != LossScale::none)
      g = update_tape
              .call({"unscale"}, "unscale", {{"n", r.count()}, {"one", 1}},
                    {{"g", g}, {"scale", scale}})
              .at("unscaled");
    if (spec.optimizer.clip_norm > 0)
      g = update_tape
              .call({"clip"}, "clip", {{"n", r.count()}, {"one", 1}}, {{"g", g}, {"norm", norm}},
                    {{"max_norm", spec.optimizer.clip_norm}})
              .at("clipped");
    for (const Unit& unit : layout.units()) {
      const Range rest{unit.decaying.end, unit.all.end};
      record_adamw(common(r, unit.decaying), r, g, spec.optimizer.weight_decay);
      record_adamw(common(r, rest), r, g, 0);
    }
  }

  void record_adamw(const Range& piece, const Range& of, const Ref& g, double weight_decay) {
    if (piece.count() == 0) return;
    const Optimizer& o = spec.optimizer;
    const std::int64_t n = piece.count();
    const Ref own = g.part(0, piece.begin - of.begin, n).reshaped({1, n});
    const auto next =
        update_tape.call({"adamw"}, "adamw", {{"steps", 1}, {"n", n}},
                         {{"w", part_of(w, piece)},
                          {"g", own},
                          {"m", part_of(m, piece)},
                          {"v", part_of(v, piece)},
                          {"found_inf", found_inf}},
                         {{"beta1", o.beta1},
                          {"beta2", o.beta2},
                          {"eps", o.eps},
                          {"weight_decay", weight_decay},
                          {"offset", piece.begin},
                          {"state_format", std::string(opbound::name_of(spec.policy.master))}});
    update_tape.keep(next.at("next_w"), part_of(w, piece));
    update_tape.keep(next.at("next_m"), part_of(m, piece));
    update_tape.keep(next.at("next_v"), part_of(v, piece));
  }

  const TrainingSpec& spec;
  const Layout& layout;
  std::vector<Range> owned;
  std::int64_t ranks;
  Machine& machine;
  std::int64_t count = 0;  ///< elements that are owned
  bool is_whole = false, in_turn = false;
  std::int64_t chunks = 1, norms = 1;
  Tape norm_tape, update_tape;
  std::array<Ref, 2> gradient, norm_values;  ///< of each tape
  Ref scale, norm, found_inf, w, m, v;
  std::byte* scalars = nullptr;  ///< scale, norm, found_inf; then norms
  std::unique_ptr<Program> norm_program, update_program;
};

OptimizerStep::OptimizerStep(const TrainingSpec& spec, const Layout& layout,
                             const std::vector<Range>& owned, std::int64_t ranks, Machine& machine)
    : recorded_(std::make_unique<Recorded>(spec, layout, owned, ranks, machine)) {}

OptimizerStep::~OptimizerStep() = default;

void OptimizerStep::bind(const FlatArrays& arrays, ProviderTable& providers) {
  Recorded& r = *recorded_;
  constexpr std::int64_t slot = scalar_bytes;
  r.scalars = r.machine.allocate(3 * slot + 8 * r.norms);
  const std::array<std::pair<const Ref*, std::byte*>, 8> places{
      {{&r.norm_values[1], r.scalars + 3 * slot},
       {&r.scale, r.scalars},
       {&r.norm, r.scalars + slot},
       {&r.found_inf, r.scalars + 2 * slot},
       {&r.gradient[1], arrays.gradient},
       {&r.w, arrays.master},
       {&r.m, arrays.m},
       {&r.v, arrays.v}}};
  r.norm_program = std::make_unique<Program>(
      r.norm_tape, r.machine,
      [&](int value) {
        return value == r.gradient[0].value ? arrays.gradient : r.scalars + 3 * slot;
      },
      providers);
  r.update_program = std::make_unique<Program>(
      r.update_tape, r.machine,
      [&](int value) {
        for (const auto& [ref, address] : places)
          if (ref->value == value) return address;
        detail::require(false, "every array of an update has a place");
        return static_cast<std::byte*>(nullptr);
      },
      providers);
}

void OptimizerStep::run(double lr, std::int64_t update, double loss_scale, Collectives& ranks,
                        const Watch& watch) {
  Recorded& r = *recorded_;
  const auto scale = static_cast<float>(loss_scale);
  r.machine.write(r.scalars, &scale, sizeof scale);
  r.norm_program->run(0, {}, watch.norm);
  if (!r.is_whole)
    ranks.all_gather(r.scalars + 3 * scalar_bytes, r.norms, r.compute(), r.machine.stream());
  if (watch.normed) watch.normed(r.scalars + 3 * scalar_bytes, r.norms, r.compute());
  r.update_program->set("adamw", "lr", lr);
  r.update_program->set("adamw", "step", update);
  r.update_program->set("adamw", "seed",
                        static_cast<std::int64_t>(element_hash(update, r.spec.seed) >> 1));
  r.update_program->run(0, {}, watch.update);
}

UpdateResult OptimizerStep::result() {
  Recorded& r = *recorded_;
  r.machine.wait();
  return {scalar(r.machine, r.scalars + scalar_bytes, r.compute()),
          scalar(r.machine, r.scalars + 2 * scalar_bytes, Element::boolean) != 0};
}

std::int64_t OptimizerStep::arena_bytes() const {
  return recorded_->norm_program->arena_bytes() + recorded_->update_program->arena_bytes();
}

}  // namespace opbound::train
