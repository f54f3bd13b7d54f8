#include "distributed/collectives.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "distributed/nccl_ranks.hpp"
#include "distributed/transport.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"

namespace opbound {
namespace {

bool is_power(std::int32_t n) { return std::has_single_bit(static_cast<unsigned>(n)); }

void require_format(const Reducer& reducer, int order, const Collectives& ranks) {
  const std::string wanted = ranks.refusal_of(reducer, order);
  if (!wanted.empty())
    throw InputError("collective", std::to_string(ranks.size()) + " ranks of " + ranks.name(),
                     wanted);
}

/// Elements come as they are, so a mean can be divided at its end only.
constexpr const char* after = "a mean that divides after it adds";
bool divides_before(const Reducer& reducer) {
  return reducer.is_mean() && reducer.divides == all_reduce::Divides::before;
}

void require_shards(std::int64_t count, std::int32_t size) {
  detail::require(count >= 0 && count % size == 0, "a count that is a multiple of the ranks");
}

// ---- ranks on CPUs

/// What an exchange is for: ranks that are at another place than others are told.
enum class Tag : std::int32_t { shards, sums, broadcast };

class HostCollectives final : public Collectives {
 public:
  HostCollectives(std::unique_ptr<Communicator> communicator, std::string name)
      : communicator_(std::move(communicator)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  std::int32_t rank() const override { return communicator_ ? communicator_->rank() : 0; }
  std::int32_t size() const override { return communicator_ ? communicator_->size() : 1; }

  std::string refusal_of(const Reducer& reducer, int order) const override {
    if (reducer.wire.kind == Kind::tf32) return "a format that is stored";
    if (divides_before(reducer)) return after;
    if (order == all_reduce::any_order || size() == 1) return "";
    return std::string(refusal({Collective::all_reduce, order, size()}));
  }

  void all_reduce(void* data, std::int64_t count, const Reducer& reducer, int order,
                  void*) override {
    require_format(reducer, order, *this);
    if (is_in_tree(order) || size() == 1) {
      reduce_shards(data, count, reducer);
      gather_shards(data, count, bytes_of(element_of(reducer.wire)));
      return;
    }
    const Element element = element_of(reducer.wire);
    std::vector<double> buffer(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      buffer[static_cast<std::size_t>(i)] = load(element, data, i);
    const int kept = order == all_reduce::any_order ? static_cast<int>(all_reduce::ring) : order;
    run_collective(*communicator_, {Collective::all_reduce, kept, size()}, reducer, buffer);
    for (std::int64_t i = 0; i < count; ++i)
      store(element, data, i, buffer[static_cast<std::size_t>(i)]);
  }

  void reduce_scatter(void* data, std::int64_t count, const Reducer& reducer, int order,
                      void* stream) override {
    require_shards(count, size());
    require_format(reducer, order, *this);
    if (is_in_tree(order)) return reduce_shards(data, count, reducer);
    all_reduce(data, count, reducer, order, stream);
  }

  void all_gather(void* data, std::int64_t count, Element element, void*) override {
    require_shards(count, size());
    gather_shards(data, count, bytes_of(element));
  }

  /// From a rank to the two below it.
  void broadcast(void* data, std::int64_t count, Element element, void*) override {
    detail::require(count >= 0, "a count of elements");
    if (!communicator_) return;
    const std::span bytes(static_cast<std::byte*>(data),
                          static_cast<std::size_t>(count * bytes_of(element)));
    constexpr auto tag = static_cast<std::int32_t>(Tag::broadcast);
    if (rank() > 0) {
      const Received above{(rank() - 1) / 2, tag, bytes};
      communicator_->exchange({}, {&above, 1});
    }
    std::vector<Sent> below;
    for (std::int32_t r = 2 * rank() + 1; r <= 2 * rank() + 2 && r < size(); ++r)
      below.push_back({r, tag, bytes});
    communicator_->exchange(below, {});
  }

  void add(void* sum, const void* term, std::int64_t count, const Reducer& reducer, bool is_last,
           void*) override {
    detail::require(count >= 0, "a count of elements");
    const bool divides =
        is_last && reducer.is_mean() && reducer.divides == all_reduce::Divides::after;
    const bool is_sum = reducer.is_mean() || reducer.reduction == all_reduce::Reduction::sum;
    if (is_sum && reducer.wire == reducer.compute && !divides) {
      if (reducer.wire == fp32) return add_as<float>(sum, term, count);
      if (reducer.wire == fp64) return add_as<double>(sum, term, count);
    }
    const Element element = element_of(reducer.wire);
    for (std::int64_t i = 0; i < count; ++i) {
      const double total = reducer.combined(load(element, sum, i), load(element, term, i));
      store(element, sum, i, reducer.kept(is_last ? reducer.finished(total) : total));
    }
  }

  void wait(void*) override {}
  std::vector<std::byte> gather(std::span<const std::byte> own) override {
    if (communicator_) return gather_all(*communicator_, own);
    return {own.begin(), own.end()};
  }

 private:
  bool is_in_tree(int order) const {
    return order == all_reduce::balanced_tree ||
           (order == all_reduce::any_order && is_power(size()));
  }
  Chunk shard(std::int32_t rank, std::int64_t count) const {
    return chunk_of({Collective::all_reduce, all_reduce::balanced_tree, size()}, count, rank);
  }
  static std::span<std::byte> bytes_in(void* data, const Chunk& part, int width) {
    return {static_cast<std::byte*>(data) + part.first * width,
            static_cast<std::size_t>(part.count * width)};
  }

  template <class T>
  static void add_as(void* sum, const void* term, std::int64_t count) {
    auto* a = static_cast<T*>(sum);
    const auto* b = static_cast<const T*>(term);
    for (std::int64_t i = 0; i < count; ++i) a[i] += b[i];
  }

  /// Every rank gets all others' elements of its shard, and adds neighbours, pairs of them, ...
  void reduce_shards(void* data, std::int64_t count, const Reducer& reducer) {
    detail::require(count >= 0, "a count of elements");
    const int width = bytes_of(element_of(reducer.wire));
    if (size() == 1) return finish(data, count, reducer);
    const Chunk own = shard(rank(), count);
    constexpr auto tag = static_cast<std::int32_t>(Tag::shards);
    std::vector<std::vector<std::byte>> come(static_cast<std::size_t>(size()));
    std::vector<void*> terms(come.size(), bytes_in(data, own, width).data());
    std::vector<Sent> sent;
    std::vector<Received> received;
    for (std::int32_t r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      auto& block = come[static_cast<std::size_t>(r)];
      block.resize(static_cast<std::size_t>(own.count * width));
      terms[static_cast<std::size_t>(r)] = block.data();
      sent.push_back({r, tag, bytes_in(data, shard(r, count), width)});
      received.push_back({r, tag, block});
    }
    communicator_->exchange(sent, received);
    for (std::size_t d = 1; d < terms.size(); d *= 2)
      for (std::size_t r = 0; r < terms.size(); r += 2 * d)
        add(terms[r], terms[r + d], own.count, reducer, 2 * d == terms.size(), nullptr);
    if (rank() > 0) std::copy(come[0].begin(), come[0].end(), bytes_in(data, own, width).begin());
  }

  void finish(void* data, std::int64_t count, const Reducer& reducer) const {
    if (!reducer.is_mean() || reducer.divides == all_reduce::Divides::before) return;
    const Element element = element_of(reducer.wire);
    for (std::int64_t i = 0; i < count; ++i)
      store(element, data, i, reducer.kept(reducer.finished(load(element, data, i))));
  }

  void gather_shards(void* data, std::int64_t count, int width) {
    if (!communicator_) return;
    constexpr auto tag = static_cast<std::int32_t>(Tag::sums);
    std::vector<Sent> sent;
    std::vector<Received> received;
    for (std::int32_t r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      sent.push_back({r, tag, bytes_in(data, shard(rank(), count), width)});
      received.push_back({r, tag, bytes_in(data, shard(r, count), width)});
    }
    communicator_->exchange(sent, received);
  }

  std::unique_ptr<Communicator> communicator_;  ///< none: one rank
  std::string name_;
};

// ---- ranks on GPUs

class DeviceCollectives final : public Collectives {
 public:
  explicit DeviceCollectives(std::unique_ptr<NcclRanks> ranks) : ranks_(std::move(ranks)) {}

  std::string name() const override { return "nccl " + ranks_->version(); }
  std::int32_t rank() const override { return ranks_->placement().first; }
  std::int32_t size() const override { return ranks_->placement().ranks; }
  int device() const override { return ranks_->first_device(); }

  std::string refusal_of(const Reducer& reducer, int order) const override {
    const bool is_in_tree = order == all_reduce::balanced_tree;
    if (divides_before(reducer)) return after;
    if (!is_in_tree && order != all_reduce::any_order)
      return "balanced_tree, or any order, which is NCCL's";
    if (is_in_tree && !is_power(size())) return "a power of two of ranks";
    if (is_in_tree && !ranks_->module().has_kernels) return "a build with nvcc";
    if (!is_in_tree && !(reducer.wire == reducer.compute) && size() > 2)
      return "the format that is moved, in which NCCL adds";
    return "";
  }

  void all_reduce(void* data, std::int64_t count, const Reducer& reducer, int order,
                  void* stream) override {
    require_format(reducer, order, *this);
    launch(Collective::all_reduce, data, count, sum_of(reducer, order), stream);
  }
  void reduce_scatter(void* data, std::int64_t count, const Reducer& reducer, int order,
                      void* stream) override {
    require_shards(count, size());
    require_format(reducer, order, *this);
    launch(Collective::reduce_scatter, data, count, sum_of(reducer, order), stream);
  }
  void all_gather(void* data, std::int64_t count, Element element, void* stream) override {
    require_shards(count, size());
    NcclSum moved;
    moved.element = element;
    launch(Collective::all_gather, data, count, moved, stream);
  }
  void broadcast(void* data, std::int64_t count, Element element, void* stream) override {
    NcclSum moved;
    moved.element = element;
    launch(Collective::broadcast, data, count, moved, stream);
  }
  void add(void* sum, const void* term, std::int64_t count, const Reducer& reducer, bool is_last,
           void* stream) override {
    detail::require(count >= 0, "a count of elements");
    NcclSum how = nccl_sum_of(reducer, true);
    if (!how.is_in_tree)
      throw InputError("collective", "a minimum or maximum", "sum or mean, which have a tree");
    if (!is_last) how.divisor = 0;
    require_stream(stream);
    ranks_->require(ranks_->module().add(sum, term, count, how, stream));
  }

  void share(void* data, std::int64_t bytes) override {
    if (size() == 1 || size() > most_sharing_ranks) return;
    struct Offer {
      std::array<std::byte, nccl_handle_bytes> handles{};
      std::array<char, 64> machine{};
      bool is_made = false;
    };
    Offer own;
    gethostname(own.machine.data(), own.machine.size() - 1);
    own.is_made = ranks_->module().offer(data, own.handles.data()) == nullptr;
    const std::vector<std::byte> told = gather(std::as_bytes(std::span(&own, 1)));
    std::vector<std::byte> handles;
    bool can_share = true;
    for (std::size_t r = 0; r < static_cast<std::size_t>(size()); ++r) {
      Offer other;
      std::memcpy(&other, told.data() + r * sizeof(Offer), sizeof(Offer));
      can_share = can_share && other.is_made && other.machine == own.machine;
      handles.insert(handles.end(), other.handles.begin(), other.handles.end());
    }
    if (!can_share) return;
    bool is_shared =
        ranks_->module().share({&data, 1}, bytes, handles, ranks_->seconds()) == nullptr;
    const std::vector<std::byte> all = gather(std::as_bytes(std::span(&is_shared, 1)));
    if (std::ranges::find(all, std::byte{0}) != all.end())
      ranks_->require(ranks_->module().unshare());
  }

  void wait(void* stream) override {
    require_stream(stream);
    ranks_->require(ranks_->module().wait(stream, ranks_->seconds()));
  }
  std::vector<std::byte> gather(std::span<const std::byte> own) override {
    return ranks_->gather(own);
  }

 private:
  static constexpr std::int32_t most_sharing_ranks = 8;  // most_near_ranks of the module

  /// CUDA's default stream is another one in each translation unit's flags.
  static void require_stream(const void* stream) {
    detail::require(stream != nullptr, "a stream that somebody made");
  }
  static NcclSum sum_of(const Reducer& reducer, int order) {
    return nccl_sum_of(reducer, order == all_reduce::balanced_tree);
  }
  void launch(Collective collective, void* data, std::int64_t count, const NcclSum& sum,
              void* stream) {
    detail::require(count >= 0, "a count of elements");
    require_stream(stream);
    if (count == 0) return;
    const NcclLaunch call{collective, sum, size(), count, {&data, 1}, {&stream, 1}};
    ranks_->require(ranks_->module().launch(call));
  }

  std::unique_ptr<NcclRanks> ranks_;
};

}  // namespace

std::unique_ptr<Collectives> join_device_ranks(int device, double seconds) {
  return std::make_unique<DeviceCollectives>(std::make_unique<NcclRanks>(1, seconds, device));
}

std::unique_ptr<Collectives> join_ranks(double seconds) {
  const auto launch = launched();
  if (!launch || launch->size == 1) return host_collectives(nullptr, "one rank");
  Transport transport = join_launched(*launch, seconds);
  return host_collectives(std::move(transport.communicator), transport.name);
}

std::unique_ptr<Collectives> host_collectives(std::unique_ptr<Communicator> communicator,
                                              std::string name) {
  return std::make_unique<HostCollectives>(std::move(communicator), std::move(name));
}

}  // namespace opbound
