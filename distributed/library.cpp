#include "distributed/library.hpp"

#include "distributed/modules/library_element.hpp"

namespace opbound {

std::string library_refusal(const Reducer& reducer, const Schedule& schedule) {
  if (!is_moved_and_added(element_of(reducer.wire))) return "has no type for this format";
  if (!adds(schedule.collective)) return "";
  if (reducer.wire.bits() > 8)
    return reducer.wire == reducer.compute ? "" : "adds in the format that it moves";
  if (schedule.ranks > 2) return "adds 8 bits in 8 bits: no bound for more than two ranks";
  return reducer.is_mean() ? "rounds a mean of 8 bits twice" : "";
}

Reducer library_reducer(Reducer reducer, const Format& stored, const Format& output,
                        std::int32_t ranks) {
  const bool is_narrow = stored.bits() == 8 && stored == output;
  if (is_narrow && ranks <= 2 && !reducer.is_mean()) reducer.wire = output;
  return reducer;
}

}  // namespace opbound
