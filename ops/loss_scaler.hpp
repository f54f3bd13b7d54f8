// The dynamic loss scaler's state machine: the scale falls when a gradient is infinite or NaN and
// grows after growth_interval steps without one.
//
// A growth that would overflow the format of the scale is not taken, as in PyTorch (read in its
// amp_update_scale). With powers of two every scale is exact; other factors round at every update.
#pragma once

#include "ops/blocks.hpp"
#include "ops/number.hpp"
#include "ops/precision.hpp"

namespace opbound {

struct loss_scaler {
  static constexpr std::string_view name = "loss_scaler";
  static constexpr std::string_view math =
      "found_inf: scale *= backoff_factor, tracker = 0; else tracker += 1, and where it reaches "
      "growth_interval: scale *= growth_factor unless that overflows, tracker = 0";
  static constexpr std::array<std::string_view, 1> dims{"steps"};

  struct Attributes {
    double init_scale = 65536;
    double growth_factor = 2;
    double backoff_factor = 0.5;
    std::int64_t growth_interval = 2000;
    Format scale_format = fp32;
  };
  static constexpr auto attributes =
      std::tuple{field("init_scale", &Attributes::init_scale),
                 field("growth_factor", &Attributes::growth_factor),
                 field("backoff_factor", &Attributes::backoff_factor),
                 field("growth_interval", &Attributes::growth_interval),
                 field("scale_format", &Attributes::scale_format)};

  static constexpr std::array variants{
      Variant{"products", "scale * factor, rounded to the format of the scale"}};
  static constexpr std::string_view refuses(const Attributes& a, const Sizes&) {
    return a.scale_format.has_infinity() ? "" : "a scale_format with infinities";
  }

  struct forward {
    enum { found_inf, scale, growth_tracker };
    static constexpr std::array tensors{mask("found_inf", "steps"),
                                        out("scale", "steps").as("scale_format"),
                                        out("growth_tracker", "steps").as("int64")};

    struct run : blocks_along<> {
      static constexpr std::array<int, 2> outputs{scale, growth_tracker};
      OPBOUND_HD static std::int64_t blocks(const Sizes& s) { return s[0] > 0 ? 1 : 0; }

      /// The tracker is the number of clean steps since the last found_inf, modulo growth_interval,
      /// and the scale grows wherever that becomes 0. A product overflows from the middle between
      /// the largest value and what would come next.
      template <class R, class Team, class Io>
      OPBOUND_HD static void define(const Team& team, const Problem<loss_scaler>& p, const Io& io,
                                    std::int64_t) {
        const Attributes& a = p.attributes;
        const Format& f = a.scale_format;
        const R limit = from<R>(f.largest()) + from<R>(ulp(f, f.largest()) / 2);
        team.map(1, [&](std::int64_t) {
          R s = from<R>(a.init_scale);
          std::int64_t last_found = -1;
          for (std::int64_t t = 0; t < p.sizes[0]; ++t) {
            if (io.index(found_inf, t) != 0) last_found = t;
            const std::int64_t clean = t - last_found;
            const bool completes =
                a.growth_interval > 0 && clean > 0 && clean % a.growth_interval == 0;
            if (clean == 0) s = s * from<R>(a.backoff_factor);
            if (completes) {
              const R grown = s * from<R>(a.growth_factor);
              s = where_negative(grown - limit, grown, s);
            }
            io.put(scale, t, s);
            io.put_index(growth_tracker, t,
                         a.growth_interval > 0 ? clean % a.growth_interval : clean);
          }
        });
      }

      template <class T, class Team, class Io>
      OPBOUND_HD static void kernel(const Team& team, const Problem<loss_scaler>& p, const Io& io,
                                    std::int64_t) {
        const Attributes& a = p.attributes;
        team.map(1, [&](std::int64_t) {
          const T growth = from<T>(a.growth_factor), backoff = from<T>(a.backoff_factor);
          T s = stored_in(a.scale_format, from<T>(a.init_scale));
          std::int64_t tracker = 0;
          for (std::int64_t t = 0; t < p.sizes[0]; ++t) {
            T next = s;  // before it is stored
            if (io.index(found_inf, t) != 0) {
              next = s * backoff;
              tracker = 0;
            } else if (++tracker == a.growth_interval) {
              next = unless_overflow(a.scale_format, s, growth);
              tracker = 0;
            }
            io.put(scale, t, next);
            io.put_index(growth_tracker, t, tracker);
            s = stored_in(a.scale_format, next);
          }
        });
      }

      /// s * growth where that is finite in the format: asked of a quarter of it, which does not
      /// overflow. RN overflows iff it gives 2^(emax + 1), one digit more than the format has.
      template <class T>
      OPBOUND_HD static T unless_overflow(const Format& f, T s, T growth) {
        const T quarter = stored_in(f, (s * from<T>(0.25)) * growth);
        const T beyond = from<T>(power_of_two(f.exponent_max - 1));
        return where_negative(quarter - beyond, s * growth, s);
      }
    };
    using parts = Parts<run>;
  };
};

}  // namespace opbound
