#include "distributed/trace/links.hpp"

#include <algorithm>
#include <tuple>

#include "reports/text.hpp"

namespace opbound::trace {
namespace {

using train::CallPlace;
using train::Life;
using train::Phase;
using train::Ref;
using train::Step;

const std::vector<TensorView>& views_of(const Call& call) {
  return call.direction == Direction::forward ? call.forward : call.backward;
}

std::span<const TensorSpec> tensors_of(const Step& step) {
  return step.spec.op->pass(step.spec.direction).tensors;
}

std::string told(const Difference& d) {
  return "element " + std::to_string(d.index) + " is " + shortest(d.got) + ", " +
         shortest(d.expected) + " expected; " + std::to_string(d.count) +
         (d.count == 1 ? " element differs" : " elements differ");
}

void fill_in(Finding& f, const Difference& d) {
  f.index = d.index;
  f.got = d.got;
  f.low = f.high = d.expected;
  f.wrong = d.count;
}

}  // namespace

Links::Links(const train::RunView& run, Report report) : run_(run), report_(std::move(report)) {
  last_use_.assign(run.tape.values().size(), 0);
  const auto& steps = run.tape.steps();
  for (std::size_t i = 0; i < steps.size(); ++i)
    for (const Ref& r : steps[i].tensors)
      if (r.exists()) last_use_[static_cast<std::size_t>(r.value)] = i;
  find_repetitions();
}

/// A call repeats an earlier one where it is the same op at the same site on the same values, a
/// value that was computed again being the one that it repeats. Of foreign kernels nobody promises
/// the same bits.
void Links::find_repetitions() {
  using Place = std::tuple<int, Shape, Shape, std::int64_t>;
  using Key = std::tuple<std::string_view, std::string, int, int, int, std::vector<Place>>;
  std::map<Key, int> first;
  std::map<int, int> original;  // value -> the one that it repeats
  const auto& steps = run_.tape.steps();
  repeats_.assign(steps.size(), -1);
  is_repeated_.assign(steps.size(), 0);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& s = steps[i];
    if (s.spec.direction != Direction::forward) continue;
    if (!s.provider.empty() && s.provider != "own") continue;
    std::vector<Place> places;
    for (std::size_t t = 0; t < s.tensors.size(); ++t) {
      const Ref& r = s.tensors[t];
      const auto known = original.find(r.value);
      if (tensors_of(s)[t].is_written())  // told apart by what they are stored in
        places.emplace_back(
            -2, r.size, Shape{},
            r.exists() ? static_cast<std::int64_t>(run_.tape.value_of(r).element) : -1);
      else
        places.emplace_back(known == original.end() ? r.value : known->second, r.size, r.stride,
                            r.offset);
    }
    const Key key{s.spec.op->name, s.part, s.layer, s.site, s.spec.variant, std::move(places)};
    const auto [place, is_first] = first.try_emplace(key, static_cast<int>(i));
    if (is_first) continue;
    repeats_[i] = place->second;
    is_repeated_[static_cast<std::size_t>(place->second)] = 1;
    const Step& earlier = steps[static_cast<std::size_t>(place->second)];
    for (std::size_t t = 0; t < s.tensors.size(); ++t)
      if (tensors_of(s)[t].is_written() && s.tensors[t].exists())
        original[s.tensors[t].value] = earlier.tensors[t].value;
  }
}

void Links::forget(bool keep_weights) {
  hashes_.clear();
  if (!keep_weights) {
    by_value_.clear();
    by_address_.clear();
  }
  std::erase_if(entries_, [&](const auto& entry) {
    const auto& [phase, value] = entry.first;
    return !keep_weights || phase != Phase::model ||
           run_.tape.values()[static_cast<std::size_t>(value)].life != Life::parameter;
  });
}

const Shadow* Links::find(Phase phase, int value) const {
  const auto found = entries_.find({phase, value});
  return found == entries_.end() ? nullptr : &found->second.shadow;
}

const Shadow* Links::at(Phase phase, const std::byte* address) const {
  for (const auto& [key, entry] : entries_)
    if (key.first == phase && entry.base == address) return &entry.shadow;
  return nullptr;
}

Finding Links::finding(const char* check, const CallPlace& place, const Step& step,
                       std::size_t tensor) const {
  Finding f;
  f.check = check;
  f.micro_batch = place.micro_batch;
  f.layer = step.layer;
  f.call = static_cast<std::int64_t>(place.index);
  f.part = step.part;
  f.op = step.spec.op->name;
  f.direction = name_of(step.spec.direction);
  f.tensor = tensors_of(step)[tensor].name;
  if (place.phase == Phase::model) {
    const train::Value& v = run_.tape.value_of(step.tensors[tensor]);
    if (v.parameter >= 0)
      f.parameter = run_.layout.parameters()[static_cast<std::size_t>(v.parameter)].name;
  }
  return f;
}

void Links::before(const CallPlace& place, const Step& step, const Call& call) {
  const auto& views = views_of(call);
  for (std::size_t t = 0; t < views.size(); ++t) {
    const Ref& r = step.tensors[t];
    if (!r.exists() || tensors_of(step)[t].is_written() || views[t].count() == 0) continue;
    Entry& entry = entries_[{place.phase, r.value}];
    entry.base =
        static_cast<const std::byte*>(views[t].data) - r.offset * bytes_of(views[t].element);
    Shadow::Runs news;
    const auto difference = entry.shadow.read(run_.machine, views[t], r.offset, &news);
    if (difference) {
      Finding f = finding("producer", place, step, t);
      fill_in(f, *difference);
      f.text = f.tensor + " is not what was left there: " + told(*difference);
      report_(std::move(f));
    }
    if (!news.empty()) adopt(place, step, t, entry, news);
  }
}

void Links::adopt(const CallPlace& place, const Step& step, std::size_t tensor, const Entry& entry,
                  const Shadow::Runs& news) {
  const int value = step.tensors[tensor].value;
  const Expected* expected = nullptr;
  if (place.phase == Phase::model) {
    if (run_.tape.values()[static_cast<std::size_t>(value)].life == Life::temporary) {
      Finding f = finding("producer", place, step, tensor);
      f.index = news.front().first;
      f.text = f.tensor + " is read from element " + std::to_string(f.index) +
               " on, where no call wrote";
      return report_(std::move(f));
    }
    if (const auto found = by_value_.find(value); found != by_value_.end())
      expected = &found->second;
  } else if (const auto found = by_address_.find(entry.base); found != by_address_.end()) {
    expected = &found->second;
  }
  if (expected == nullptr) return;
  const std::int64_t width = bytes_of(entry.shadow.element());
  for (const auto& [first, last] : news) {
    const auto d =
        expected->what.compared(first, last - first, entry.shadow.bytes() + first * width);
    if (!d) continue;
    Finding f = finding(expected->check.c_str(), place, step, tensor);
    fill_in(f, *d);
    f.tensor = expected->tensor;
    f.parameter = expected->parameter;
    f.text = f.tensor + ": " + told(*d);
    return report_(std::move(f));
  }
}

void Links::after(const CallPlace& place, const Step& step, const Call& call) {
  const auto& views = views_of(call);
  for (std::size_t t = 0; t < views.size(); ++t) {
    const Ref& r = step.tensors[t];
    if (!r.exists() || !tensors_of(step)[t].is_written() || views[t].count() == 0) continue;
    Entry& entry = entries_[{place.phase, r.value}];
    entry.base =
        static_cast<const std::byte*>(views[t].data) - r.offset * bytes_of(views[t].element);
    entry.shadow.wrote(run_.machine, views[t], r.offset);
  }
  if (place.phase == Phase::model) compare_again(place, step);
}

void Links::compare_again(const CallPlace& place, const Step& step) {
  const int earlier = repeats_[place.index];
  if (earlier < 0 && is_repeated_[place.index] == 0) return;
  for (std::size_t t = 0; t < step.tensors.size(); ++t) {
    const Ref& r = step.tensors[t];
    if (!r.exists() || !tensors_of(step)[t].is_judged()) continue;
    const Shadow* shadow = find(Phase::model, r.value);
    if (shadow == nullptr) continue;
    if (earlier < 0) {
      hashes_[{static_cast<int>(place.index), t}] = shadow->hash();
      continue;
    }
    const auto before = hashes_.find({earlier, t});
    if (before == hashes_.end() || before->second == shadow->hash()) continue;
    Finding f = finding("recompute", place, step, t);
    f.text =
        f.tensor + " was computed again with other bits than by call " + std::to_string(earlier);
    report_(std::move(f));
  }
}

Call Links::here(const CallPlace& place, const Step& step, const Call& call) const {
  Call copy = call;
  auto& views = call.direction == Direction::forward ? copy.forward : copy.backward;
  for (std::size_t t = 0; t < views.size(); ++t) {
    const Ref& r = step.tensors[t];
    if (!r.exists() || views[t].count() == 0) continue;
    const Shadow* shadow = find(place.phase, r.value);
    if (shadow != nullptr && shadow->bytes() != nullptr)
      views[t] = shadow->here(views[t], r.offset);
  }
  return copy;
}

void Links::release(const CallPlace& place, const Step& step) {
  if (place.phase != Phase::model) return;
  for (const Ref& r : step.tensors)
    if (r.exists() && last_use_[static_cast<std::size_t>(r.value)] == place.index &&
        run_.tape.value_of(r).life == Life::temporary)
      entries_.erase({place.phase, r.value});
}

}  // namespace opbound::trace
