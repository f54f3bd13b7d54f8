// The settings and seeds that an article calls hardening: what each does to numbers, tried where it
// can be tried. suites/claims/audit/*.toml lists them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "distributed/claims/other_process.hpp"
#include "reports/table.hpp"

namespace opbound::claims {

enum class Effect : std::uint8_t {
  order,           ///< another order or algorithm of the same sums
  bits,            ///< other numbers: another generator's state, another function
  timing,          ///< when things happen, not what
  placebo,         ///< nothing that is computed
  does_not_exist,  ///< there is no such setting
  not_testable
};
inline constexpr std::array<std::string_view, 6> effect_names{
    "order", "bits", "timing", "placebo", "does not exist", "not testable here"};

/// How an effect is tried.
struct Trial {
  Environment environment;  ///< variables of a training run in another process
  bool is_pinned = false;   ///< or: the run is held to one processor
  /// Or: two Python programs, each started several times; does `with` always print one thing where
  /// `without` does not?
  std::string without, with;
  bool is_python() const { return !with.empty(); }
  bool is_training() const { return is_pinned || !environment.empty(); }
};

struct Setting {
  std::string name, kind;  ///< kind: setting, seed
  std::string text;        ///< in our words
  Effect documented = Effect::not_testable;
  std::string reason, source;  ///< of what is documented: one line, and where it stands
  Trial trial;
  std::string place;  ///< FILE:LINE
};

/// What was found of a setting.
struct Audited {
  Setting setting;
  Effect effect = Effect::not_testable;
  bool is_tried = false, is_changing = false;  ///< did it change a bit?
  std::string basis;                           ///< why: what was tried, or what is documented
};

/// Throws InputError with file and line: an unknown key; an effect that is documented without a
/// source; one that says "not testable here" without a reason.
std::vector<Setting> read_settings(const std::string& path);

/// The files of suites/claims/audit. Throws InputError where there are none.
std::vector<Setting> committed_settings();

/// Does a training run with this trial end in other bits than without? And the outputs of a Python
/// program, started so often. Tests put others in their place.
struct Tried {
  std::function<bool(const Trial&)> changes_training;
  std::function<std::vector<std::string>(const std::string& program, int times)> run_python;
};

/// By other processes of this program, and by python3 where it is here. Throw Unavailable.
Tried by_processes(const std::string& device);

/// What was tried decides; what is documented tells order from bits and timing from placebo, and
/// stands alone where nothing can be tried. A trial that finds nothing where an order or bits are
/// documented is not testable here: nothing here reads the setting.
Audited audit(const Setting& setting, const Tried& tried);

std::string audit_table(const std::vector<Audited>& all, const Terminal& terminal);
std::string audit_json(const Audited& one);

}  // namespace opbound::claims
