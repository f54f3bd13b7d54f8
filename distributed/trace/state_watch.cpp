#include "distributed/trace/state_watch.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "ops/parallel.hpp"
#include "reports/text.hpp"

namespace opbound::trace {
namespace {

/// What weights pass through between ranks; none: their own format.
std::optional<Format> travelling(const train::TrainingSpec& spec) {
  switch (spec.sharding) {
    case train::Sharding::dp:
      return std::nullopt;
    case train::Sharding::fsdp:
      return spec.gather;
    case train::Sharding::zero3_fp32:
      return fp32;
    case train::Sharding::zero3_offload:
      return bf16;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::byte> StateWatch::bytes_of_array(const std::byte* array) const {
  std::int64_t count = 0;
  for (const train::Range& r : run_.owned) count += r.count();
  const std::int64_t bytes = count * bytes_of(element_of(run_.spec.policy.master));
  std::vector<std::byte> copy(static_cast<std::size_t>(bytes));
  run_.machine.read(copy.data(), array, bytes);
  return copy;
}

StateWatch::Hashes StateWatch::hashes(const std::vector<std::byte>& master) const {
  const auto hash = [&](const std::byte* array) {
    const std::vector<std::byte> bytes = bytes_of_array(array);
    return hash_of_bytes(bytes.data(), bytes.size());
  };
  return {hash_of_bytes(master.data(), master.size()), hash(run_.arrays.m), hash(run_.arrays.v)};
}

void StateWatch::report(const char* tensor, std::string text) {
  Finding f;
  f.check = "state";
  f.tensor = tensor;
  f.wrong = 1;
  f.text = std::move(text);
  report_(std::move(f));
}

void StateWatch::begin_step() {
  const std::vector<std::byte> master = bytes_of_array(run_.arrays.master);
  if (kept_) {
    const Hashes now = hashes(master);
    const auto compare = [&](const char* name, std::uint64_t then, std::uint64_t is) {
      if (then != is)
        report(name, std::string(name) + " has other bits than at the end of the step before");
    };
    compare("master weights", kept_->master, now.master);
    compare("first moments", kept_->m, now.m);
    compare("second moments", kept_->v, now.v);
  }
  expect_weights(master);
}

/// Each rank knows what it owns, which is what all ranks have to read.
void StateWatch::expect_weights(const std::vector<std::byte>& master) {
  const Element element = element_of(run_.spec.policy.master);
  const std::int64_t width = bytes_of(element);
  Expected whole{"state", "master weights", {}, {}};
  whole.what.set(element, 0, static_cast<std::int64_t>(master.size()) / width, master.data());
  links_.expect(run_.arrays.master, std::move(whole));
  const std::optional<Format> travels = travelling(run_.spec);
  for (std::size_t p = 0; p < run_.refs.weights.size(); ++p) {
    const train::Range& all = run_.layout.parameter(p);
    const int value = run_.refs.weights[p].value;
    const Element to = run_.tape.values()[static_cast<std::size_t>(value)].element;
    Expected expected{"weights", "weights", run_.layout.parameters()[p].name, {}};
    std::int64_t at = 0;
    for (const train::Range& r : run_.owned) {
      const std::int64_t begin = std::max(all.begin, r.begin), end = std::min(all.end, r.end);
      const std::int64_t from = at + begin - r.begin, count = end - begin;
      at += r.count();
      if (count <= 0) continue;
      const bool is_copy = to == element && (!travels || element_of(*travels) == element);
      std::vector<std::byte> bytes(static_cast<std::size_t>(count * bytes_of(to)));
      if (is_copy)
        std::memcpy(bytes.data(), master.data() + from * width, bytes.size());
      else
        parallel_for(count, 1, [&](std::int64_t i) {
          double w = load(element, master.data(), from + i);
          if (travels) w = round_to(*travels, w);
          store(to, bytes.data(), i, round_to(format_of(to), w));
        });
      expected.what.set(to, begin - all.begin, count, bytes.data());
    }
    links_.expect(value, std::move(expected));
  }
}

void StateWatch::compare() {
  const auto compare_array = [&](const char* name, const std::byte* array) {
    const Shadow* written = links_.at(train::Phase::update, array);
    if (written == nullptr) return;
    const std::vector<std::byte> now = bytes_of_array(array);
    const std::int64_t count = static_cast<std::int64_t>(now.size()) / bytes_of(written->element());
    if (const auto d = written->compared(0, count, now.data()))
      report(name, std::string(name) + ": element " + std::to_string(d->index) + " is " +
                       shortest(d->got) + ", the update wrote " + shortest(d->expected) + "; " +
                       std::to_string(d->count) + " differ");
  };
  compare_array("master weights", run_.arrays.master);
  compare_array("first moments", run_.arrays.m);
  compare_array("second moments", run_.arrays.v);
}

void StateWatch::keep() { kept_ = hashes(bytes_of_array(run_.arrays.master)); }

}  // namespace opbound::trace
