#include "distributed/mpi.hpp"

#include <cstdio>

#include "distributed/library.hpp"
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
    if (is_broken_) {
      std::fprintf(stderr, "opbound: mpi: %s\n", reason_.c_str());  // nobody can after abort
      transport_.abort(1);
    }
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
    reason_ = "rank " + std::to_string(transport_.rank) + ": " + error;
    throw ProviderFailure(reason_);
  }

 private:
  MpiTransport transport_;
  bool is_broken_ = false;
  std::string reason_;
};

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(double seconds) : seconds_(seconds) {}

  std::int32_t rank() const override { return mpi_.transport().rank; }
  std::int32_t size() const override { return mpi_.transport().size; }
  void exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    mpi_.require_whole();
    mpi_.require(mpi_.transport().exchange(sent, received, seconds_));
  }
  Mpi& mpi() { return mpi_; }

 private:
  Mpi mpi_;
  double seconds_;
};

EngineTraits traits_of(MpiCommunicator& communicator) {
  return {.name = "mpi", .version = communicator.mpi().transport().version};
}

class MpiLibraryEngine final : public RankEngine {
 public:
  MpiLibraryEngine(std::unique_ptr<MpiCommunicator> communicator, Mpi& mpi, EngineTraits traits)
      : RankEngine(std::move(communicator), std::move(traits)), mpi_(mpi) {}

 private:
  void run_here(const Circumstances& circumstances, const Schedule& schedule,
                const Reducer& reducer, std::vector<double>& own) override {
    const Element element = element_of(reducer.wire);
    const std::int64_t count = std::ssize(own), shard = chunk_of(schedule, count, 0).count;
    if (const std::string why = library_refusal(reducer, schedule); !why.empty())
      throw Unavailable("MPI " + why);
    const std::int64_t offset = circumstances.offset;
    std::vector<std::byte> bytes(static_cast<std::size_t>((count + offset) * bytes_of(element)));
    void* data = bytes.data() + offset * bytes_of(element);
    for (std::int64_t i = 0; i < count; ++i)
      store(element, data, i, reducer.kept(own[static_cast<std::size_t>(i)]));
    call(schedule.collective, reducer, element, data, count, shard);
    for (std::int64_t i = 0; i < count; ++i) {
      const double v = load(element, data, i);
      own[static_cast<std::size_t>(i)] =
          adds(schedule.collective) ? reducer.kept(reducer.finished(v)) : v;
    }
  }

  void call(Collective collective, const Reducer& reducer, Element element, void* data,
            std::int64_t count, std::int64_t shard) {
    const MpiTransport& t = mpi_.transport();
    mpi_.require_whole();
    switch (collective) {
      case Collective::all_reduce:
        return mpi_.require(t.all_reduce(element, reducer.reduction, data, count));
      case Collective::reduce_scatter:
        return mpi_.require(t.reduce_scatter(element, reducer.reduction, data, count, shard));
      case Collective::all_gather:
        return mpi_.require(t.all_gather(element, data, count, shard));
      case Collective::broadcast:
        return mpi_.require(t.broadcast(element, data, count));
    }
  }

  Mpi& mpi_;
};

}  // namespace

std::unique_ptr<Communicator> mpi_communicator(double seconds) {
  return std::make_unique<MpiCommunicator>(seconds);
}

std::unique_ptr<Engine> mpi_engine(double seconds) {
  auto communicator = std::make_unique<MpiCommunicator>(seconds);
  EngineTraits traits = traits_of(*communicator);
  return std::make_unique<RankEngine>(std::move(communicator), std::move(traits));
}

std::unique_ptr<Engine> mpi_library_engine(double seconds) {
  auto communicator = std::make_unique<MpiCommunicator>(seconds);
  Mpi& mpi = communicator->mpi();
  EngineTraits traits = traits_of(*communicator);
  traits.name = "mpi_library";
  traits.keeps_order = false;
  traits.has_addresses = true;
  return std::make_unique<MpiLibraryEngine>(std::move(communicator), mpi, std::move(traits));
}

}  // namespace opbound
