#include "suites/foreign.hpp"

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
    std::size_t all = 0;
    for (int v = 0; std::cmp_less(v, op.variants.size()); ++v)
      all += op.allows(spec.attributes, v) ? 1 : 0;
    const bool is_named = spec.declared.size() < all;  // else it may be any
    std::erase_if(spec.declared, [&](int v) {
      return is_named ? !op.fits(spec.precision, v) : !op.is_assumed(spec.precision, v);
    });
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
