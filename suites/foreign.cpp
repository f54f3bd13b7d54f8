#include "suites/foreign.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "suites/rerun.hpp"

namespace opbound {

std::vector<CaseSpec> cases_for(const Provider& provider, std::vector<CaseSpec> cases) {
  if (!provider.is_foreign()) return cases;
  std::vector<CaseSpec> taken;
  std::map<std::string, std::size_t> places;
  for (CaseSpec& spec : cases) {
    spec.declared = provider.variants(*spec.op, spec.direction, spec.attributes, spec.variant);
    const Op& op = *spec.op;
    const auto is_assumed = [&](int v) { return op.is_assumed(spec.precision, v); };
    const bool any = std::any_of(spec.declared.begin(), spec.declared.end(), is_assumed);
    std::erase_if(spec.declared,
                  [&](int v) { return any ? !is_assumed(v) : !op.fits(spec.precision, v); });
    if (spec.declared.empty())
      spec.declared = {spec.variant};
    else
      spec.variant = spec.declared.front();
    const auto [place, is_new] =
        places.try_emplace(std::string(spec.op->name) + " " + identity(spec), taken.size());
    if (is_new)
      taken.push_back(std::move(spec));
    else if (taken[place->second].allowed_vacuous.empty())
      taken[place->second].allowed_vacuous = spec.allowed_vacuous;
  }
  return taken;
}

void thin_out_unlisted(const Provider& provider, std::vector<CaseSpec>& cases) {
  std::set<std::tuple<const Op*, Direction, int>> seen;
  std::erase_if(cases, [&](const CaseSpec& c) {
    return provider.variants(*c.op, c.direction, c.attributes, c.variant).empty() &&
           !seen.emplace(c.op, c.direction, c.variant).second;
  });
}

}  // namespace opbound
