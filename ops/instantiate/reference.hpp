// The certified reference of an op: its definition in double-double with a running bound, in
// intervals over MPFR, and its kernel's algorithm without rounding.
#pragma once

#include <type_traits>

#include "bounds/tracked_double_double.hpp"
#include "ops/definition.hpp"
#include "ops/instantiate/walk.hpp"
#include "reference/enclosure.hpp"
#include "reference/mpfr.hpp"

namespace opbound {

/// How a reference is computed: `Scope` is entered on every thread that computes.
struct InDoubleDouble {
  using Number = CertifiedDouble;
  struct Scope {};
  Scope enter() const { return {}; }
};
struct InEnclosures {
  using Number = Enclosure;
  int bits;
  PrecisionScope enter() const { return PrecisionScope(bits); }
};
struct WithoutRounding {
  using Number = Mpfr;
  int bits;
  PrecisionScope enter() const { return PrecisionScope(bits); }
};

template <class Op>
struct ReferenceOf {
  static void run_dd(const Call& c, ReferenceArrays& to) { run(c, InDoubleDouble{}, {}, to); }
  static void run_mpfr(const Call& c, int bits, const BlockChoice& chosen, ReferenceArrays& to) {
    run(c, InEnclosures{bits}, chosen, to);
  }
  static void run_without_rounding(const Call& c, int bits, const BlockChoice& chosen,
                                   ReferenceArrays& to) {
    run(c, WithoutRounding{bits}, chosen, to);
  }

 private:
  template <class Way>
  using Kept = std::vector<std::vector<typename Way::Number>>;

  template <class Way>
  static void run(const Call& c, const Way& way, const BlockChoice& chosen, ReferenceArrays& to) {
    [[maybe_unused]] const auto scope = way.enter();
    if (c.direction == Direction::forward) {
      Kept<Way> nothing;
      run_pass<typename Op::forward>(c, c.forward, way, chosen, to, nothing, false);
      return;
    }
    if constexpr (detail::HasBackward<Op>) {
      Kept<Way> saved;
      if (c.direction == Direction::backward_full && detail::reads_saved_tensors<Op>()) {
        ReferenceArrays unused(c.forward.size());
        run_pass<typename Op::forward>(c, c.forward, way, {}, unused, saved, true);
      }
      run_pass<typename Op::backward>(c, c.backward, way, chosen, to, saved, false);
    }
  }

  /// keep: this pass's results become `kept`; otherwise `kept` holds what the saved tensors stand
  /// for.
  template <class Pass, class Way>
  static void run_pass(const Call& c, std::span<const TensorView> views, const Way& way,
                       const BlockChoice& chosen, ReferenceArrays& to, Kept<Way>& kept, bool keep) {
    ReferenceIo<typename Way::Number> io{bind(views), {}, {}, {}, {}};
    Kept<Way> scratch(views.size());
    if (keep) kept.resize(views.size());
    for (std::size_t t = 0; t < views.size(); ++t) {
      const TensorSpec& spec = Pass::tensors[t];
      const auto count = static_cast<std::size_t>(views[t].count());
      if (spec.role == Role::scratch) {
        scratch[t].resize(count);
        io.saved[t] = io.keep[t] = scratch[t].data();
      } else if (keep && spec.is_written()) {
        kept[t].resize(count);
        io.keep[t] = kept[t].data();
      } else if (spec.is_written()) {
        to[t].exact.resize(count);
        to[t].gauge.resize(count);
        io.exact_values[t] = to[t].exact.data();
        io.gauge[t] = to[t].gauge.data();
      } else if (!kept.empty() && spec.role == Role::saved) {
        io.saved[t] =
            kept[static_cast<std::size_t>(detail::place_in_forward<Op>(spec.name))].data();
      }
    }
    std::size_t part = 0;
    detail::for_each_part<Pass>([&]<class Part>() {
      const bool all =
          is_whole(chosen, part) || (leaves_scratch<Pass, Part>() && is_any_after(chosen, part));
      const auto* list = all ? nullptr : &*chosen[part];
      ++part;
      const std::int64_t blocks = Part::blocks(c.sizes);
      const std::int64_t count = all ? blocks : static_cast<std::int64_t>(list->size());
      parallel_for(count, 16 * detail::work_of<Part>(c, views, blocks), [&](std::int64_t k) {
        [[maybe_unused]] const auto scope = way.enter();
        run_block<Part, Way>(c, io, all ? k : (*list)[static_cast<std::size_t>(k)]);
      });
    });
  }

  static bool is_whole(const BlockChoice& chosen, std::size_t part) {
    return part >= chosen.size() || !chosen[part];
  }

  /// Is any block of a later part to be computed?
  static bool is_any_after(const BlockChoice& chosen, std::size_t part) {
    for (std::size_t later = part + 1; later < chosen.size(); ++later)
      if (is_whole(chosen, later) || !chosen[later]->empty()) return true;
    return false;
  }

  /// Later parts read what this one leaves, of whichever block.
  template <class Pass, class Part>
  static constexpr bool leaves_scratch() {
    for (const int t : Part::outputs)
      if (Pass::tensors[static_cast<std::size_t>(t)].role == Role::scratch) return true;
    return false;
  }

  template <class Part, class Way, class Io>
  static void run_block(const Call& c, const Io& io, std::int64_t block) {
    using R = typename Way::Number;
    const Problem<Op> problem = detail::problem_of<Op>(c, c.variant);
    if constexpr (std::is_same_v<Way, WithoutRounding>) {
      Part::template kernel<R>(HostTeam<1>{}, problem, io, block);
    } else if constexpr (std::is_same_v<Way, InDoubleDouble>) {
      Part::template define<R>(HostTeam<team_width>{}, problem, io, block);  // as on the device
    } else {
      Part::template define<R>(HostTeam<1>{}, problem, io, block);
    }
  }
};

}  // namespace opbound
