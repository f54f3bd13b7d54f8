#include "suites/suite_case.hpp"

#include <algorithm>

#include "suites/input.hpp"
#include "suites/suggest.hpp"

namespace opbound::detail {
namespace {

std::string quoted(const Op& op, int variant) {
  return "'" + std::string(op.variants[static_cast<std::size_t>(variant)].name) + "'";
}

/// `key` names a variant that these attributes do not allow.
[[noreturn]] void refuse_variant(const TomlValue& key, const Op& op, int variant,
                                 const Precision& precision, const AttributeBytes& attributes) {
  std::vector<std::string_view> allowed;
  for (std::size_t v = 0; v < op.variants.size(); ++v)
    if (op.allows(attributes, static_cast<int>(v)) && op.fits(precision, static_cast<int>(v)))
      allowed.push_back(op.variants[v].name);
  const char* what = op.allows(attributes, variant) ? "the precision does" : "the attributes do";
  key.refuse(what + (" not allow " + quoted(op, variant)), one_of(allowed));
}

/// The variants to run with these attributes; one of a list is left out where they forbid it.
std::vector<int> variants_for(const CaseChoices& c, const Precision& precision,
                              const AttributeBytes& attributes) {
  const Op& op = *c.common.op;
  if (!c.variants) return {op.default_variant(attributes)};
  std::vector<int> allowed;
  for (const int v : c.variants->places) {
    if (op.allows(attributes, v) && op.fits(precision, v))
      allowed.push_back(v);
    else if (!c.variants->key.is_list())
      refuse_variant(c.variants->key, op, v, precision, attributes);
  }
  return allowed;
}

std::vector<int> declared_for(const CaseChoices& c, const CaseSpec& spec) {
  if (!c.declared) return {spec.variant};
  const Op& op = *spec.op;
  for (const int v : c.declared->places)
    if (!op.allows(spec.attributes, v) || !op.fits(spec.precision, v))
      refuse_variant(c.declared->key, op, v, spec.precision, spec.attributes);
  return c.declared->places;
}

/// A listed variant that gives no check at all is a mistake.
void require_all_variants_used(const CaseChoices& c) {
  if (!c.variants || !c.variants->key.is_list()) return;
  const Op& op = *c.common.op;
  for (const int v : c.variants->places) {
    const bool has_attributes =
        std::any_of(c.attributes.begin(), c.attributes.end(),
                    [&](const AttributeBytes& a) { return op.allows(a, v); });
    const bool has_precision = std::any_of(c.precisions.begin(), c.precisions.end(),
                                           [&](const Precision& p) { return op.fits(p, v); });
    if (has_attributes && has_precision) continue;
    const char* what = has_attributes ? "no precision" : "no attributes";
    c.variants->key.refuse(what + (" of this case allow " + quoted(op, v)),
                           "variants that give a check");
  }
}

/// Without a named variant each of the attributes has a default one.
void require_default_variants(const TomlValue& value, const CaseChoices& c) {
  if (c.variants) return;
  const Op& op = *c.common.op;
  for (const AttributeBytes& a : c.attributes) {
    bool is_allowed = false;
    for (int v = 0; v < std::ssize(op.variants); ++v) is_allowed = is_allowed || op.allows(a, v);
    if (!is_allowed)
      value.refuse("no variant of " + std::string(op.name) + " has these attributes",
                   "attributes that one of its variants allows");
  }
}

/// A tensor that no attributes of the case bring in is not being tested: a mistake.
void require_all_inputs_used(const CaseChoices& c) {
  for (const GivenInputs& inputs : c.inputs)
    for (const GivenInput& given : inputs) {
      const bool is_used = std::any_of(
          c.attributes.begin(), c.attributes.end(),
          [&](const AttributeBytes& a) { return c.common.op->has_tensor(a, given.tensor); });
      if (!is_used)
        given.place.refuse("no attributes of this case bring in '" + given.tensor + "'",
                           "a tensor that takes part");
    }
}

void require_few(const TomlValue& value, const CaseChoices& c) {
  double product = 1;
  for (const std::size_t choices : {c.directions.size(), c.precisions.size(), c.attributes.size(),
                                    c.variants ? c.variants->places.size() : 1, c.shapes.size(),
                                    c.inputs.size(), c.seeds.size()})
    product *= static_cast<double>(choices);
  if (product > double{most_checks}) refuse_so_many(value);
}

const TensorSpec& tensor_named(const Op& op, std::string_view name) {
  for (const TensorSpec& t : op.forward.tensors)
    if (t.name == name) return t;
  const auto& tensors = op.backward.value().tensors;
  return *std::find_if(tensors.begin(), tensors.end(),
                       [&](const TensorSpec& t) { return t.name == name; });
}

/// The given inputs that the direction reads, and normal ones for the rest.
void choose_inputs(CaseSpec& spec, const GivenInputs& given) {
  spec.inputs.clear();
  for (const std::string_view name : input_tensors(*spec.op, spec.direction)) {
    const TensorSpec& tensor = tensor_named(*spec.op, name);
    const auto found = std::find_if(given.begin(), given.end(),
                                    [&](const GivenInput& g) { return g.tensor == name; });
    if (!spec.op->has_tensor(spec.attributes, name)) continue;
    const Element element = tensor_element(spec, tensor);
    if (found == given.end()) {
      InputSpec by_default;
      by_default.kind = default_kind(element);
      spec.inputs.emplace_back(name, by_default);
      continue;
    }
    found->place.naming_place([&] { check_input(found->spec, element); });
    spec.inputs.emplace_back(name, found->spec);
  }
}

void add_inputs(std::vector<CaseSpec>& cases, CaseSpec& spec, const CaseChoices& c) {
  for (const Sizes& sizes : c.shapes) {
    const std::string_view wanted = c.common.op->refuses(spec.attributes, sizes);
    if (!wanted.empty()) c.shape_key->refuse("attributes and sizes that do not fit", wanted);
    spec.sizes = sizes;
    for (const GivenInputs& given : c.inputs) {
      choose_inputs(spec, given);
      for (const std::uint64_t seed : c.seeds) {
        spec.seed = seed;
        cases.push_back(spec);
      }
    }
  }
}

}  // namespace

void refuse_so_many(const TomlValue& value) {
  value.refuse("too many combinations", "at most " + std::to_string(most_checks));
}

std::vector<CaseSpec> read_case(const TomlValue& value, const SuiteContext& context) {
  const CaseChoices c = read_choices(value, context);
  require_few(value, c);
  require_all_variants_used(c);
  require_default_variants(value, c);
  require_all_inputs_used(c);
  std::vector<CaseSpec> cases;
  CaseSpec spec = c.common;
  for (const Direction direction : c.directions) {
    spec.direction = direction;
    for (const Precision& precision : c.precisions) {
      spec.precision = precision;
      for (const AttributeBytes& attributes : c.attributes) {
        spec.attributes = attributes;
        for (const int variant : variants_for(c, precision, attributes)) {
          spec.variant = variant;
          spec.declared = declared_for(c, spec);
          add_inputs(cases, spec, c);
        }
      }
    }
  }
  return cases;
}

}  // namespace opbound::detail
