#include "distributed/claims/op_case.hpp"

#include <algorithm>
#include <cmath>

#include "reports/error.hpp"
#include "suites/generator.hpp"
#include "suites/suggest.hpp"
#include "suites/tensor_file.hpp"

namespace opbound::claims {

OpCase::OpCase(const OpChoice& choice) {
  spec_.op = find_op(choice.op);
  if (spec_.op == nullptr) throw InputError("", "no op " + detail::in_quotes(choice.op), "an op");
  const std::optional<Precision> precision = precision_named(choice.precision);
  if (!precision)
    throw InputError("", "no precision " + detail::in_quotes(choice.precision),
                     "storage:compute:output");
  spec_.precision = *precision;
  spec_.direction = choice.direction;
  spec_.attributes = spec_.op->default_attributes;
  for (const auto& [name, value] : choice.attributes) {
    const auto found =
        std::find_if(spec_.op->attributes.begin(), spec_.op->attributes.end(),
                     [&wanted = name](const AttributeSpec& a) { return a.name == wanted; });
    if (found == spec_.op->attributes.end() || !found->set(spec_.attributes, value))
      throw InputError("", "attribute " + name + " of " + choice.op,
                       "one that it has, and a value that it takes");
  }
  spec_.variant = choice.variant.empty() ? spec_.op->default_variant(spec_.attributes)
                                         : spec_.op->variant_named(choice.variant);
  if (spec_.variant < 0 || !spec_.op->allows(spec_.attributes, spec_.variant) ||
      !spec_.op->fits(spec_.precision, spec_.variant))
    throw InputError("",
                     "no kernel of " + choice.op + " " + choice.variant + " in " + choice.precision,
                     "one that `opbound list` prints");
  spec_.declared = {spec_.variant};
  for (const auto& [name, size] : choice.sizes)
    for (std::size_t d = 0; d < spec_.op->dims.size(); ++d)
      if (spec_.op->dims[d] == name) spec_.sizes[d] = size;
}

void OpCase::give(std::string_view tensor, std::span<const double> values) {
  for (const PassInfo* pass :
       {&spec_.op->forward, spec_.op->backward ? &*spec_.op->backward : &spec_.op->forward})
    for (const TensorSpec& t : pass->tensors)
      if (t.name == tensor) {
        given_.insert_or_assign(std::string(tensor),
                                Tensor(tensor_element(spec_, t), tensor_shape(spec_, t), values));
        return;
      }
  detail::require(false, "an op has the tensors that it is given");
}

void OpCase::run() {
  prepared_ = prepare(spec_, given_);
  spec_.op->run(prepared_.call);
}

const Tensor& OpCase::at(std::string_view tensor) const {
  const auto found = prepared_.tensors.find(tensor);
  detail::require(found != prepared_.tensors.end(), "an op has the tensors that are asked for");
  return found->second;
}

std::size_t OpCase::place_of(std::string_view tensor) const {
  const auto& tensors = spec_.op->pass(spec_.direction).tensors;
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TensorSpec& t) { return t.name == tensor; });
  detail::require(found != tensors.end(), "an op has the tensors that are asked for");
  return static_cast<std::size_t>(found - tensors.begin());
}

std::vector<double> OpCase::exact(std::string_view tensor) const {
  const auto& tensors = spec_.op->pass(spec_.direction).tensors;
  ReferenceArrays arrays(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].is_written()) {
      const auto count = static_cast<std::size_t>(at(tensors[i].name).count());
      arrays[i].exact.resize(count);
      arrays[i].gauge.resize(count);
    }
  spec_.op->reference_dd(prepared_.call, arrays);
  std::vector<double> values;
  for (const Exact& e : arrays[place_of(tensor)].exact)
    values.push_back(e.kind == Exact::Class::finite && std::isfinite(e.radius) ? e.high
                     : e.kind == Exact::Class::finite                          ? std::nan("")
                                                                               : e.high);
  return values;
}

std::vector<double> OpCase::any_order_bound(std::string_view tensor) const {
  Contract contract;
  contract.variants = {spec_.variant};
  contract.order = Contract::Order::any;
  return spec_.op->bound(prepared_.call, contract, spec_.variant)[place_of(tensor)].radius;
}

std::vector<double> normal_numbers(std::int64_t count, std::uint64_t seed, std::string_view stream,
                                   double deviation) {
  const detail::Place all{fp64, {}, 1, seed, detail::stream_of(stream)};
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(deviation *
                     detail::standard_normal(all.words_of(static_cast<std::uint64_t>(i))));
  return values;
}

Format format_of_name(const std::string& name) {
  const std::optional<Format> format = format_named(name);
  if (format) return *format;
  throw InputError("", "no format " + detail::in_quotes(name),
                   "fp64, fp32, tf32, bf16, fp16, e4m3 or e5m2");
}

}  // namespace opbound::claims
