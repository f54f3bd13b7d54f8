#include "distributed/train/program.hpp"

#include <algorithm>
#include <map>

#include "ops/hash.hpp"
#include "ops/set_attribute.hpp"
#include "reports/error.hpp"

namespace opbound::train {
namespace {

constexpr std::int64_t alignment_bytes = 256;

std::int64_t bytes_of_value(const Value& v) {
  std::int64_t count = 1;
  for (const std::int64_t n : v.shape) count *= n;
  const std::int64_t bytes = count * bytes_of(v.element);
  return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

/// Free ranges of an arena that grows: first fit, neighbours joined.
class Arena {
 public:
  std::int64_t take(std::int64_t bytes) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      if (range->second < bytes) continue;
      const auto [offset, size] = *range;
      free_.erase(range);
      if (size > bytes) free_[offset + bytes] = size - bytes;
      return offset;
    }
    std::int64_t offset = end_;
    if (!free_.empty()) {
      const auto last = std::prev(free_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        free_.erase(last);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  void give(std::int64_t offset, std::int64_t bytes) {
    auto [range, is_new] = free_.emplace(offset, bytes);
    if (const auto next = std::next(range);
        next != free_.end() && range->first + range->second == next->first) {
      range->second += next->second;
      free_.erase(next);
    }
    if (range == free_.begin()) return;
    const auto before = std::prev(range);
    if (before->first + before->second != range->first) return;
    before->second += range->second;
    free_.erase(range);
  }

  std::int64_t end() const { return end_; }

 private:
  std::map<std::int64_t, std::int64_t> free_;  ///< offset -> bytes
  std::int64_t end_ = 0;
};

TensorView view_of(const Value& v, const Ref& r, std::byte* base) {
  TensorView view{
      base + r.offset * bytes_of(v.element), v.element, static_cast<int>(r.size.size()), {}, {}};
  for (std::size_t axis = 0; axis < r.size.size(); ++axis) {
    view.size[axis] = r.size[axis];
    view.stride[axis] = r.stride[axis];
  }
  return view;
}

}  // namespace

Placement place_temporaries(const Tape& tape) {
  constexpr std::size_t never = ~std::size_t{0};
  const auto& values = tape.values();
  std::vector<std::size_t> last(values.size(), never);
  for (std::size_t i = 0; i < tape.steps().size(); ++i)
    for (const Ref& r : tape.steps()[i].tensors)
      if (r.exists()) last[static_cast<std::size_t>(r.value)] = i;
  Placement placement{std::vector<std::int64_t>(values.size(), -1), 0};
  Arena arena;
  for (std::size_t i = 0; i < tape.steps().size(); ++i) {
    std::vector<std::size_t> ended;
    for (const Ref& r : tape.steps()[i].tensors) {
      if (!r.exists()) continue;
      const auto v = static_cast<std::size_t>(r.value);
      if (values[v].life != Life::temporary) continue;
      if (placement.offset_bytes[v] < 0)
        placement.offset_bytes[v] = arena.take(bytes_of_value(values[v]));
      if (last[v] == i && std::find(ended.begin(), ended.end(), v) == ended.end())
        ended.push_back(v);
    }
    for (const std::size_t v : ended)
      arena.give(placement.offset_bytes[v], bytes_of_value(values[v]));
  }
  placement.arena_bytes = arena.end();
  return placement;
}

const Provider& ProviderTable::named(const std::string& name) {
  if (name.empty() || name == "own") return machine_->own();
  std::unique_ptr<Provider>& provider = made_[name];
  if (provider == nullptr) {
    if (!make_) throw Unavailable("provider " + name + ": this run has its own kernels only");
    provider = make_(name, machine_->plugin_place());
  }
  if (const std::string why = provider->absence(); !why.empty()) throw Unavailable(why);
  return *provider;
}

std::vector<std::pair<std::string, std::string>> ProviderTable::versions() const {
  std::vector<std::pair<std::string, std::string>> all{
      {machine_->own().name(), machine_->own().version()}};
  for (const auto& [name, provider] : made_) all.emplace_back(name, provider->version());
  return all;
}

namespace {

/// Has the provider a kernel of the algorithm that the policy names?
const Provider& checked(const Provider& provider, const Step& step) {
  const CaseSpec& c = step.spec;
  if (provider.variants(*c.op, c.direction, c.attributes, c.variant).empty())
    throw InputError("policy",
                     "provider " + provider.name() + " lists no kernel for " + step.part + " " +
                         std::string(name_of(c.direction)) + ", variant " +
                         std::string(c.op->variants[static_cast<std::size_t>(c.variant)].name),
                     "a variant that it lists, or another provider");
  return provider;
}

/// The call's provider; what is wrong with it is said of the table that names it.
const Provider& provider_of(const Step& step, const Policy& policy, ProviderTable& providers) {
  const std::string where = policy.place_of_provider(step.part, step.layer);
  try {
    return checked(providers.named(step.provider), step);
  } catch (const InputError& e) {
    throw InputError(where, e.what());
  } catch (const Unavailable& e) {
    throw Unavailable(where.empty() ? e.what() : where + ": " + e.what());
  }
}

}  // namespace

Program::Program(const Tape& tape, Machine& machine, const Address& address,
                 ProviderTable& providers, std::byte* gradients)
    : machine_(&machine), gradients_base_(gradients) {
  const Placement placement = place_temporaries(tape);
  arena_bytes_ = placement.arena_bytes;
  std::byte* const arena = machine.allocate(arena_bytes_);
  key_ = reinterpret_cast<std::uintptr_t>(arena);  // no other program has it
  for (std::size_t v = 0; v < tape.values().size(); ++v) {
    const std::int64_t offset = placement.offset_bytes[v];
    const bool is_temporary = tape.values()[v].life == Life::temporary;
    base_.push_back(!is_temporary ? address(static_cast<int>(v))
                    : offset < 0  ? nullptr
                                  : arena + offset);
  }
  for (const Step& step : tape.steps()) {
    Call call;
    call.direction = step.spec.direction;
    call.attributes = step.spec.attributes;
    call.variant = step.spec.variant;
    call.sizes = step.spec.sizes;
    call.compute = step.spec.precision.compute;
    std::vector<TensorView>& views =
        call.direction == Direction::forward ? call.forward : call.backward;
    for (const Ref& r : step.tensors)
      views.push_back(r.exists()
                          ? view_of(tape.value_of(r), r, base_[static_cast<std::size_t>(r.value)])
                          : contiguous_view(Element::fp32, {0}, nullptr));
    calls_.push_back({&step, &provider_of(step, tape.policy(), providers), std::move(call)});
  }
  for (Bound& bound : calls_)
    for (std::size_t t = 0; t < bound.step->tensors.size(); ++t) {
      const Ref& r = bound.step->tensors[t];
      if (!r.exists() || tape.value_of(r).life != Life::gradient) continue;
      Call& call = bound.call;
      gradients_.push_back(call.direction == Direction::forward ? &call.forward[t]
                                                                : &call.backward[t]);
    }
}

void Program::move_gradients(std::byte* base) {
  const std::ptrdiff_t by = base - gradients_base_;
  for (TensorView* view : gradients_) view->data = static_cast<std::byte*>(view->data) + by;
  gradients_base_ = base;
}

bool Program::is_same_each_time() const {
  return !has_settings_ && std::all_of(calls_.begin(), calls_.end(), [](const Bound& b) {
    return b.step->site < 0 && b.provider->is_replayable();
  });
}

void Program::run(std::uint64_t random_key, const Enter& enter, CallWatch* watch) {
  if (watch != nullptr || enter || !is_same_each_time()) return start(random_key, enter, watch);
  const auto gradients = reinterpret_cast<std::uintptr_t>(gradients_base_);
  machine_->replay(element_hash(static_cast<std::int64_t>(gradients), key_),
                   [&] { start(random_key, enter, watch); });
}

void Program::start(std::uint64_t random_key, const Enter& enter, CallWatch* watch) {
  const Step* before = nullptr;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    Bound& bound = calls_[i];
    if (enter && (before == nullptr || before->layer != bound.step->layer))
      enter(bound.step->layer);
    before = bound.step;
    if (bound.step->site >= 0) {
      const std::uint64_t seed = element_hash(bound.step->site, random_key) >> 1;
      set_attribute(*bound.step->spec.op, bound.call.attributes, "seed",
                    static_cast<std::int64_t>(seed));
    }
    const Op& op = *bound.step->spec.op;
    if (watch == nullptr) {
      machine_->run(*bound.provider, op, bound.call);
      continue;
    }
    watch->before(i, *bound.step, bound.call);
    Call started = bound.call;
    watch->alter(i, *bound.step, started);
    machine_->run(*bound.provider, op, started);
    watch->after(i, *bound.step, bound.call);
  }
}

void Program::set(std::string_view op, std::string_view attribute, const AttributeValue& value) {
  bool is_called = false;
  has_settings_ = true;
  for (Bound& bound : calls_) {
    if (bound.step->spec.op->name != op) continue;
    set_attribute(*bound.step->spec.op, bound.call.attributes, attribute, value);
    is_called = true;
  }
  detail::require(is_called, "a program calls the op whose attribute is set");
}

}  // namespace opbound::train
