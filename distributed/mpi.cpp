#include "distributed/mpi.hpp"

#include <cstdio>

#include "distributed/module.hpp"
#include "distributed/modules/mpi_transport.hpp"
#include "distributed/rank_engine.hpp"
#include "ops/provider.hpp"

namespace opbound {
namespace {

/// MPI from its start to its end, which come once in a process.
class Mpi {
 public:
  Mpi() {
    void* start = open_module("mpi", "libopbound_mpi.so", "opbound_mpi_start");
    if (const char* error = reinterpret_cast<StartMpi>(start)(&transport_))
      throw ProviderFailure(std::string("mpi: ") + error);
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  /// Other ranks wait for one whose transport broke: it takes them with it.
  ~Mpi() {
    if (is_broken_) transport_.abort(1);
    if (const char* error = transport_.finish()) std::fprintf(stderr, "opbound: %s\n", error);
  }

  const MpiTransport& transport() const { return transport_; }

  /// Nothing more goes through a transport that broke.
  void require_whole() const {
    if (is_broken_) throw ProviderFailure("mpi: it broke before");
  }
  void require(const char* error) {
    if (error == nullptr) return;
    is_broken_ = true;
    throw ProviderFailure("rank " + std::to_string(transport_.rank) + ": " + error);
  }

 private:
  MpiTransport transport_;
  bool is_broken_ = false;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(Mpi& mpi, double seconds) : mpi_(mpi), seconds_(seconds) {}

  std::int32_t rank() const override { return mpi_.transport().rank; }
  std::int32_t size() const override { return mpi_.transport().size; }
  void exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    mpi_.require_whole();
    mpi_.require(mpi_.transport().exchange(sent, received, seconds_));
  }

 private:
  Mpi& mpi_;
  double seconds_;
};

class MpiEngine : public RankEngine {
 public:
  explicit MpiEngine(double seconds) : communicator_(mpi_, seconds) {}

  std::string name() const override { return "mpi"; }
  std::string version() const override { return mpi_.transport().version; }
  std::vector<std::pair<std::string, std::string>> environment() const override { return {}; }

 protected:
  Mpi& mpi() { return mpi_; }
  Communicator& communicator() override { return communicator_; }
  const Communicator& communicator() const override { return communicator_; }

 private:
  Mpi mpi_;
  MpiCommunicator communicator_;
};

class MpiLibraryEngine final : public MpiEngine {
 public:
  using MpiEngine::MpiEngine;

  std::string name() const override { return "mpi_library"; }
  std::vector<std::pair<std::string, std::string>> environment() const override {
    if (offset_ == 0) return {};
    return {{"offset", std::to_string(offset_)}};
  }
  bool keeps_order() const override { return false; }
  bool set_offset(std::int64_t elements) override {
    offset_ = elements;
    return true;
  }

  void run(const Schedule& schedule, const Reducer& reducer, Buffers& buffers) override {
    std::vector<double>& own = buffers.front();
    const Element element = element_of(reducer.wire);
    const std::int64_t count = std::ssize(own), shard = chunk_of(schedule, count, 0).count;
    if (adds(schedule.collective) && !(reducer.wire == reducer.compute))
      throw Unavailable("MPI adds in the format that it moves");
    std::vector<std::byte> bytes(static_cast<std::size_t>((count + offset_) * bytes_of(element)));
    void* data = bytes.data() + offset_ * bytes_of(element);
    for (std::int64_t i = 0; i < count; ++i)
      store(element, data, i, reducer.kept(own[static_cast<std::size_t>(i)]));
    call(schedule.collective, reducer, element, data, count, shard);
    for (std::int64_t i = 0; i < count; ++i) {
      const double v = load(element, data, i);
      own[static_cast<std::size_t>(i)] =
          adds(schedule.collective) ? reducer.kept(reducer.finished(v)) : v;
    }
  }

 private:
  void call(Collective collective, const Reducer& reducer, Element element, void* data,
            std::int64_t count, std::int64_t shard) {
    const MpiTransport& t = mpi().transport();
    if (!is_moved_and_added(element)) throw Unavailable("no MPI type for this format");
    mpi().require_whole();
    switch (collective) {
      case Collective::all_reduce:
        return mpi().require(t.all_reduce(element, reducer.reduction, data, count));
      case Collective::reduce_scatter:
        return mpi().require(t.reduce_scatter(element, reducer.reduction, data, count, shard));
      case Collective::all_gather:
        return mpi().require(t.all_gather(element, data, count, shard));
      case Collective::broadcast:
        return mpi().require(t.broadcast(element, data, count));
    }
  }

  std::int64_t offset_ = 0;
};

}  // namespace

std::unique_ptr<Engine> mpi_engine(double seconds) { return std::make_unique<MpiEngine>(seconds); }
std::unique_ptr<Engine> mpi_library_engine(double seconds) {
  return std::make_unique<MpiLibraryEngine>(seconds);
}

}  // namespace opbound
