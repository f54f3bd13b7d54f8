#include "distributed/train/cast_call.hpp"

namespace opbound::train {

Format compute_of_cast(const Format& from, const Format& to) {
  return from == fp64 || to == fp64 ? fp64 : fp32;
}

void cast_array(Machine& machine, const Provider& by, std::byte* from, const Format& from_format,
                std::byte* to, const Format& to_format, std::int64_t count) {
  if (count == 0) return;
  if (from_format == to_format)
    return machine.copy(to, from, count * bytes_of(element_of(to_format)));
  const Op& op = *find_op("cast");
  Call call;
  call.attributes = op.default_attributes;
  call.variant = op.default_variant(call.attributes);
  call.compute = compute_of_cast(from_format, to_format);
  call.sizes[0] = count;
  call.forward = {contiguous_view(element_of(from_format), {count}, from),
                  contiguous_view(element_of(to_format), {count}, to)};
  machine.run(by, op, call);
}

}  // namespace opbound::train
