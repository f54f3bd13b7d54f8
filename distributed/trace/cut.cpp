#include "distributed/trace/cut.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <string>

#include "ops/set_attribute.hpp"

namespace opbound::trace {
namespace {

const PassInfo& pass_of(const CaseSpec& spec) { return spec.op->pass(spec.direction); }

std::string word(const CaseSpec& spec, std::string_view attribute) {
  for (const AttributeSpec& a : spec.op->attributes)
    if (a.name == attribute) {
      const AttributeValue value = a.get(spec.attributes);
      if (const auto* text = std::get_if<std::string>(&value)) return *text;
      if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    }
  return {};
}

std::string_view variant_of(const CaseSpec& spec) {
  return spec.op->variants[static_cast<std::size_t>(spec.variant)].name;
}

struct Entry {
  std::string_view op;
  bool is_forward;
  Family family;
};

/// What is independent of what, op by op.
const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {"layer_norm", true, {"rows", {"y", "mean", "rstd"}}},
      {"layer_norm", false, {"rows", {"dx"}}},
      {"layer_norm", false, {"n", {"dgamma", "dbeta"}}},
      {"rms_norm", true, {"rows", {"y", "rstd"}}},
      {"rms_norm", false, {"rows", {"dx"}}},
      {"rms_norm", false, {"n", {"dgamma"}}},
      {"softmax", true, {"rows", {"y"}}},
      {"softmax", false, {"rows", {"dx"}}},
      {"cross_entropy", true, {"rows", {"loss", "lse"}}},
      {"cross_entropy", false, {"rows", {"dlogits"}}},
      {"attention", true, {"queries", {"o", "lse"}}},
      {"attention", false, {"queries", {"dq"}}},
      {"attention", false, {"keys", {"dk", "dv"}}},
      {"embedding", true, {"tokens", {"y"}}},
      {"embedding", false, {"width", {"dtable"}}},
      {"rope", true, {"tokens", {"y"}}},
      {"rope", false, {"tokens", {"dx"}}},
      {"gelu", true, {"n", {"y"}, true}},
      {"gelu", false, {"n", {"dx"}, true}},
      {"swiglu", true, {"n", {"y"}, true}},
      {"swiglu", false, {"n", {"dgate", "dup"}, true}},
      {"residual", true, {"n", {"y"}, true}},
      {"residual", false, {"n", {"dx", "dr"}, true}},
      {"cast", true, {"n", {"y"}, true}},
      {"unscale", true, {"n", {"unscaled", "found_inf"}, true}},
      {"clip", true, {"n", {"coefficient", "clipped"}, true}},
      {"adamw", true, {"n", {"next_w", "next_m", "next_v", "low_w"}, true}},
  };
  return all;
}

/// An element's place decides something that a cut would change.
bool hangs_on_places(const CaseSpec& spec) {
  return variant_of(spec) == "stochastic" ||
         (spec.op->name == "rope" && word(spec, "indexed") == "false") ||
         (spec.op->name == "cross_entropy" && word(spec, "reduction") == "none");
}

const std::vector<std::int64_t>* chosen_of(const Choice& choice, int dim) {
  for (const auto& [d, places] : choice)
    if (d == dim) return &places;
  return nullptr;
}

using Places = std::vector<const std::vector<std::int64_t>*>;  // of each axis; null: all

/// Where the places of an axis stand, in elements from the tensor's first one.
std::vector<std::int64_t> offsets(const std::vector<std::int64_t>* places, std::int64_t size,
                                  std::int64_t stride) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = (places == nullptr ? static_cast<std::int64_t>(i) : (*places)[i]) * stride;
  return all;
}

template <class T>
void gather(const TensorView& from, const std::vector<std::vector<std::int64_t>>& at, bool is_flat,
            std::byte* to) {
  const auto* data = static_cast<const std::byte*>(from.data);
  std::vector<std::size_t> i(at.size(), 0);
  const std::size_t last = at.size() - 1;
  while (true) {
    std::int64_t base = 0;
    for (std::size_t axis = 0; axis < last; ++axis) base += at[axis][i[axis]];
    for (const std::int64_t offset : at[last]) {
      const std::int64_t place = is_flat ? from.offset(base + offset) : base + offset;
      std::memcpy(to, data + place * std::int64_t{sizeof(T)}, sizeof(T));
      to += sizeof(T);
    }
    std::size_t axis = last;
    while (axis > 0 && ++i[axis - 1] == at[axis - 1].size()) i[--axis] = 0;
    if (axis == 0) return;
  }
}

/// The chosen places of a tensor, row-major. A view may have other axes than the op's tensor, such
/// as a cast's, which has one; then only the row-major order is common to both.
Tensor gathered(const TensorView& from, const Shape& whole, const Places& places) {
  Shape size;
  const bool is_flat = whole != Shape(from.size, from.size + from.rank);
  std::vector<std::vector<std::int64_t>> at(whole.size());
  std::int64_t stride = 1;
  for (std::size_t axis = whole.size(); axis-- > 0; stride *= whole[axis])
    at[axis] =
        offsets(places[axis], places[axis] == nullptr ? whole[axis] : std::ssize(*places[axis]),
                is_flat ? stride : from.stride[axis]);
  for (const auto& offsets_of_axis : at) size.push_back(std::ssize(offsets_of_axis));
  Tensor tensor(from.element, size);
  if (tensor.count() == 0 || size.empty()) return tensor;
  std::byte* const to = tensor.bytes().data();
  switch (bytes_of(from.element)) {
    case 8:
      gather<std::uint64_t>(from, at, is_flat, to);
      break;
    case 4:
      gather<std::uint32_t>(from, at, is_flat, to);
      break;
    case 2:
      gather<std::uint16_t>(from, at, is_flat, to);
      break;
    default:
      gather<std::uint8_t>(from, at, is_flat, to);
  }
  return tensor;
}

/// Causality among chosen queries and keys, as a mask that says it.
void mask_causality(const CaseSpec& spec, const Choice& choice, Cut& cut) {
  const bool from_last = word(spec, "causal_from") == "last_key";
  const auto places = [&](std::string_view dim) {
    const int d = dim_of(spec, dim);
    const auto* chosen = chosen_of(choice, d);
    if (chosen != nullptr) return *chosen;
    std::vector<std::int64_t> all(static_cast<std::size_t>(size_of(spec, dim)));
    std::iota(all.begin(), all.end(), 0);
    return all;
  };
  const std::vector<std::int64_t> queries = places("queries"), keys = places("keys");
  const std::int64_t shift = from_last ? size_of(spec, "keys") - size_of(spec, "queries") : 0;
  Tensor mask(Element::boolean, {std::ssize(queries), std::ssize(keys)});
  std::int64_t at = 0;
  for (const std::int64_t i : queries)
    for (const std::int64_t j : keys)
      store_index(Element::boolean, mask.bytes().data(), at++, j <= i + shift ? 1 : 0);
  set_attribute(*spec.op, cut.spec.attributes, "mask", std::string("boolean"));
  const auto place = static_cast<std::size_t>(tensor_of(spec, "mask"));
  cut.tensors[place] = std::move(mask);
  auto& views = spec.direction == Direction::forward ? cut.call.forward : cut.call.backward;
  views[place] = cut.tensors[place].view();
  cut.call.attributes = cut.spec.attributes;
}

/// A mean over fewer rows of a gradient that is so much smaller: the same upstream of each row.
void scale_mean(const CaseSpec& spec, std::int64_t rows, Cut& cut) {
  if (spec.op->name != "cross_entropy" || spec.direction == Direction::forward) return;
  if (word(spec, "reduction") != "mean") return;
  const auto place = static_cast<std::size_t>(tensor_of(spec, "dreduced"));
  TensorView& view = cut.call.backward[place];
  const double share = static_cast<double>(rows) / static_cast<double>(size_of(spec, "rows"));
  const double scaled = view.at(0) * share;  // a power of two: exact
  cut.tensors[place] = Tensor(view.element, {1});
  cut.tensors[place].set(0, scaled);
  view = cut.tensors[place].view();
}

std::vector<Cut> cuts_of_heads(const CaseSpec& spec, const Call& call, const Family& family,
                               const std::vector<std::int64_t>& blocks) {
  const bool of_keys = family.along == "keys";
  const std::int64_t each = size_of(spec, family.along);
  const std::int64_t group = size_of(spec, "heads") / size_of(spec, "kv_heads");
  std::map<std::int64_t, std::vector<std::int64_t>> by_head;
  for (const std::int64_t b : blocks) by_head[b / each].push_back(b % each);
  std::vector<Cut> cuts;
  for (const auto& [head, places] : by_head) {
    std::vector<std::int64_t> heads{head};
    if (of_keys) {
      heads.resize(static_cast<std::size_t>(group));
      std::iota(heads.begin(), heads.end(), head * group);
    }
    const Choice choice{{dim_of(spec, "heads"), heads},
                        {dim_of(spec, "kv_heads"), {of_keys ? head : head / group}},
                        {dim_of(spec, family.along), places}};
    cuts.push_back(cut_at(spec, call, choice));
    if (word(spec, "mask") == "causal") mask_causality(spec, choice, cuts.back());
  }
  return cuts;
}

}  // namespace

int dim_of(const CaseSpec& spec, std::string_view name) {
  const auto& dims = spec.op->dims;
  const auto found = std::find(dims.begin(), dims.end(), name);
  detail::require(found != dims.end(), "an op has the dimension that is cut");
  return static_cast<int>(found - dims.begin());
}

int tensor_of(const CaseSpec& spec, std::string_view name) {
  const auto& tensors = pass_of(spec).tensors;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (tensors[t].name == name) return static_cast<int>(t);
  detail::require(false, "a pass has the tensor that is looked for");
  return -1;
}

std::vector<Family> families_of(const CaseSpec& spec) {
  std::vector<Family> families;
  if (hangs_on_places(spec)) return families;
  for (const Entry& e : entries()) {
    if (e.op != spec.op->name || e.is_forward != (spec.direction == Direction::forward)) continue;
    // sum P dP of a row is over all of its keys
    if (e.family.along == "keys" && word(spec, "row_term") != "stored_o") return {};
    families.push_back(e.family);
  }
  return families;
}

std::int64_t blocks_of(const CaseSpec& spec, const Family& family) {
  const std::int64_t each = size_of(spec, family.along);
  if (spec.op->name != "attention") return each;
  return each * size_of(spec, family.along == "keys" ? "kv_heads" : "heads");
}

std::int64_t allowed_blocks(const CaseSpec& spec, const Family& family, std::int64_t wanted) {
  std::int64_t blocks = blocks_of(spec, family);
  if (spec.op->name != "cross_entropy" || spec.direction == Direction::forward)
    return std::min(blocks, wanted);
  while (blocks > wanted && blocks % 2 == 0) blocks /= 2;
  return blocks;
}

Cut product_element(const CaseSpec& spec, const Call& call, const TensorView& a,
                    const TensorView& b, const TensorView& d, const TensorView& bias,
                    std::int64_t element) {
  const std::int64_t i = element / d.size[1], j = element % d.size[1];
  const auto strip = [](const TensorView& x, std::int64_t offset, const Shape& size) {
    TensorView view = contiguous_view(x.element, size, nullptr);
    view.data = static_cast<std::byte*>(x.data) + offset * bytes_of(x.element);
    for (int k = 0; k < view.rank; ++k) view.stride[k] = x.stride[k];
    return view;
  };
  Cut cut;
  cut.spec = spec;
  cut.spec.direction = Direction::forward;
  for (const auto& [dim, size] : {std::pair{"m", std::int64_t{1}}, {"n", 1}, {"k", a.size[1]}})
    cut.spec.sizes[static_cast<std::size_t>(dim_of(spec, dim))] = size;
  cut.spec.attributes = call.attributes;
  if (bias.data == nullptr) set_attribute(*spec.op, cut.spec.attributes, "bias", false);
  cut.call = call;
  cut.call.direction = Direction::forward;
  cut.call.attributes = cut.spec.attributes;
  cut.call.sizes = cut.spec.sizes;
  cut.call.backward.clear();
  cut.call.forward.assign(spec.op->forward.tensors.size(),
                          contiguous_view(Element::fp32, {0}, nullptr));
  const auto put = [&](std::string_view name, const TensorView& view) {
    cut.call.forward[static_cast<std::size_t>(tensor_of(cut.spec, name))] = view;
  };
  put("a", strip(a, i * a.stride[0], {1, a.size[1]}));
  put("b", strip(b, j * b.stride[1], {b.size[0], 1}));
  put("d", strip(d, i * d.stride[0] + j * d.stride[1], {1, 1}));
  if (bias.data != nullptr) put("bias", strip(bias, j * bias.stride[0], {1}));
  cut.stands_at = element;
  return cut;
}

std::int64_t Cut::place_in_whole(std::size_t tensor, std::int64_t element) const {
  if (stands_for >= 0) return stands_at;
  const TensorSpec& t = pass_of(spec).tensors[tensor];
  const TensorView& view = call.judged()[tensor];
  const Shape& all = whole[tensor];
  std::int64_t place = 0, stride = 1;
  for (auto axis = all.size(); axis-- > 0;) {
    const std::int64_t i = element % view.size[axis];
    element /= view.size[axis];
    const auto* chosen = chosen_of(choice, dim_of(spec, t.dims[axis]));
    place += (chosen == nullptr ? i : (*chosen)[static_cast<std::size_t>(i)]) * stride;
    stride *= all[axis];
  }
  return place;
}

Cut cut_at(const CaseSpec& spec, const Call& call, const Choice& choice) {
  Cut cut;
  cut.spec = spec;
  cut.choice = choice;
  for (const auto& [dim, places] : choice)
    cut.spec.sizes[static_cast<std::size_t>(dim)] = std::ssize(places);
  cut.call = call;
  cut.call.sizes = cut.spec.sizes;
  cut.spec.attributes = call.attributes;
  auto& views = call.direction == Direction::forward ? cut.call.forward : cut.call.backward;
  const auto& tensors = pass_of(spec).tensors;
  cut.tensors.resize(views.size());
  for (std::size_t t = 0; t < views.size(); ++t) {
    Shape& whole = cut.whole.emplace_back();
    Places places;
    bool is_cut = tensors[t].is_written();
    for (int axis = 0; axis < tensors[t].rank(); ++axis) {
      const int dim = dim_of(spec, tensors[t].dims[static_cast<std::size_t>(axis)]);
      whole.push_back(call.sizes[static_cast<std::size_t>(dim)]);
      places.push_back(chosen_of(choice, dim));
      is_cut = is_cut || places.back() != nullptr;
    }
    const bool is_there =
        spec.op->has_tensor(call.attributes, tensors[t].name) && views[t].data != nullptr;
    if (!is_cut || !is_there) continue;
    cut.tensors[t] = gathered(views[t], whole, places);
    views[t] = cut.tensors[t].view();
  }
  return cut;
}

std::vector<Cut> cuts_of(const CaseSpec& spec, const Call& call, const Family& family,
                         const std::vector<std::int64_t>& blocks) {
  if (spec.op->name == "attention") return cuts_of_heads(spec, call, family, blocks);
  std::vector<Cut> cuts;
  cuts.push_back(cut_at(spec, call, {{dim_of(spec, family.along), blocks}}));
  scale_mean(spec, std::ssize(blocks), cuts.back());
  return cuts;
}

}  // namespace opbound::trace
