#include "distributed/nccl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "distributed/library.hpp"
#include "distributed/nccl_ranks.hpp"
#include "distributed/skew.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"

namespace opbound {
namespace {

/// A setting that is on or off; anything else would be another run than was asked for.
bool is_on(const char* name, bool usually) {
  const char* value = std::getenv(name);
  const std::string word = value == nullptr ? "" : value;
  if (word.empty()) return usually;
  if (word != "on" && word != "off") throw InputError(name, "'" + word + "'", "on or off");
  return word == "on";
}

class NcclEngine final : public Engine {
 public:
  NcclEngine(std::unique_ptr<NcclRanks> ranks, EngineTraits traits, const NcclOptions& options)
      : Engine(std::move(traits), ranks->placement()),
        ranks_(std::move(ranks)),
        options_(options) {}

  std::vector<std::byte> gather(std::span<const std::byte> own) override {
    return ranks_->gather(own);
  }
  std::string timing() override { return skew_text(*this, last_ms_); }

 private:
  void run_under(const Circumstances& circumstances, const Schedule& schedule,
                 const Reducer& reducer, Buffers& buffers) override {
    const bool is_added = adds(schedule.collective);
    if (options_.is_in_tree && is_added && schedule.ranks == 1) return;  // it has the sum
    NcclSum sum = nccl_sum_of(reducer, options_.is_in_tree && is_added);
    if (!sum.is_in_tree) require_library(schedule, reducer, sum);
    const double after = sum.is_in_tree ? 0 : sum.divisor;  // a library's sum is divided here
    const std::int64_t count = std::ssize(buffers.front());
    std::vector<Tensor> messages;
    std::vector<void*> data;
    for (const auto& own : buffers) messages.emplace_back(sum.element, Shape{count}, own);
    for (Tensor& m : messages) data.push_back(m.bytes().data());
    const std::vector<NcclPart> parts = parts_of(circumstances.late, count);
    last_ms_.assign(buffers.size(), 0);
    const NcclCall call{schedule.collective,
                        sum,
                        schedule.ranks,
                        count,
                        chunk_of(schedule, count, 0).count,
                        circumstances.offset,
                        data,
                        last_ms_,
                        parts,
                        ranks_->seconds(),
                        options_.is_symmetric,
                        options_.is_shared,
                        circumstances.disturbance != 0};
    ranks_->require(ranks_->module().run(call));
    for (std::size_t k = 0; k < buffers.size(); ++k)
      for (std::int64_t i = 0; i < count; ++i) {
        const double v = messages[k].at(i);
        buffers[k][static_cast<std::size_t>(i)] =
            after != 0 && is_added ? reducer.kept(reducer.finished(v)) : v;
      }
  }

  void require_library(const Schedule& schedule, const Reducer& reducer, NcclSum& sum) const {
    if (schedule.ranks < ranks())
      throw Unavailable("NCCL's own collectives are those of all its ranks");
    if (const std::string why = library_refusal(reducer, schedule); !why.empty())
      throw Unavailable("NCCL " + why);
    if (reducer.is_mean() && reducer.divides == all_reduce::Divides::before)
      sum.reduction = all_reduce::Reduction::mean;  // NCCL divides
  }

  std::vector<NcclPart> parts_of(const std::vector<TensorRange>& late, std::int64_t count) const {
    if (late.empty()) return {{{0, count}, false, true}};
    std::vector<NcclPart> parts;
    for (const TensorRange& t : late) {
      const bool is_waited =
          std::ranges::find(options_.unwaited, t.name) == options_.unwaited.end();
      parts.push_back({t.range, true, is_waited});
    }
    return parts;
  }

  std::unique_ptr<NcclRanks> ranks_;
  NcclOptions options_;
  std::vector<double> last_ms_;  ///< of each local rank
};

EngineTraits traits_of(const NcclRanks& ranks, const NcclOptions& options) {
  EngineTraits traits{.name = "nccl", .version = ranks.version(), .device = "cuda"};
  traits.keeps_order = options.is_in_tree;
  traits.averages = !options.is_in_tree;
  traits.has_streams = traits.has_addresses = true;
  for (const char* name : {"NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE"})
    if (const char* value = std::getenv(name)) traits.environment.emplace_back(name, value);
  if (options.is_symmetric) traits.environment.emplace_back(symmetric_variable, "on");
  if (options.is_in_tree && !options.is_shared)
    traits.environment.emplace_back(shared_variable, "off");
  for (const auto& [name, value] : traits.environment) traits.settings += ", " + name + "=" + value;
  if (!ranks.launcher().empty()) traits.environment.emplace_back("launcher", ranks.launcher());
  if (!options.unwaited.empty())
    traits.environment.emplace_back("unwaited",
                                    fmt::format("{}", fmt::join(options.unwaited, ",")));
  return traits;
}

}  // namespace

std::unique_ptr<Engine> nccl_engine(std::int32_t ranks, NcclOptions options, double seconds) {
  options.is_symmetric = is_on(symmetric_variable, false);
  options.is_shared = is_on(shared_variable, true);
  auto here = std::make_unique<NcclRanks>(ranks, seconds);
  if (options.is_in_tree && !here->module().has_kernels)
    throw Unavailable("nccl: built without nvcc, which makes the kernel that adds in a tree");
  EngineTraits traits = traits_of(*here, options);
  return std::make_unique<NcclEngine>(std::move(here), std::move(traits), options);
}

}  // namespace opbound
