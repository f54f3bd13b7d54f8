#include "distributed/tcp.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "distributed/rank_engine.hpp"
#include "distributed/socket.hpp"
#include "generated/version.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

template <class T>
std::span<std::byte> bytes_of_value(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// Where a rank listens for those above it.
struct Address {
  std::array<char, 64> host{};
  std::int32_t port = 0;
};

/// What precedes a message.
struct Header {
  std::int32_t tag = 0;
  std::int32_t unused = 0;
  std::uint64_t bytes = 0;
};

/// A message on its way, header first.
struct Transit {
  std::size_t peer;
  Header header;
  std::span<std::byte> bytes;
  std::size_t done = 0;

  std::span<std::byte> left() {
    const std::size_t head = sizeof header;
    return done < head ? bytes_of_value(header).subspan(done) : bytes.subspan(done - head);
  }
  bool is_done() const { return done == sizeof header + bytes.size(); }
};

/// Seconds in which all ranks have to come.
constexpr double longest_meeting = 60;

class TcpCommunicator final : public Communicator {
 public:
  TcpCommunicator(const Launched& rank, const MeetingPlace& place, double seconds)
      : rank_(rank.rank), peers_(static_cast<std::size_t>(rank.size)), seconds_(seconds) {
    if (rank.size == 1) return;
    const Deadline deadline = deadline_in(meeting_seconds());
    const Socket own = Socket::listen(0, rank.size);
    const std::vector<Address> all = meet(own, place, deadline);
    for (std::int32_t r = 0; r < rank_; ++r) {
      const Address& a = all[static_cast<std::size_t>(r)];
      at(r) = Socket::connect(a.host.data(), static_cast<std::uint16_t>(a.port), deadline);
      std::int32_t me = rank_;
      at(r).send_all(bytes_of_value(me), deadline, named(r));
    }
    for (std::int32_t above = rank_ + 1; above < size(); ++above) {
      Socket s = come_to(own, peers_, rank_ + 1, deadline);
      at(introduced(s, peers_, rank_ + 1, deadline)) = std::move(s);
    }
  }

  std::int32_t rank() const override { return rank_; }
  std::int32_t size() const override { return static_cast<std::int32_t>(peers_.size()); }

  void exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    if (is_broken_) throw ProviderFailure("tcp: it broke before");
    is_broken_ = true;  // unless it comes to its end
    std::vector<Transit> out, in;
    for (const Sent& s : sent)
      out.push_back(
          {static_cast<std::size_t>(s.to),
           {s.tag, 0, s.bytes.size()},
           {const_cast<std::byte*>(s.bytes.data()), s.bytes.size()}});  // NOLINT: only read
    for (const Received& r : received)
      in.push_back({static_cast<std::size_t>(r.from), {}, r.bytes});
    std::vector<std::int32_t> tags;
    for (const Received& r : received) tags.push_back(r.tag);
    while (!all_done(out) || !all_done(in)) {
      wait(out, in);
      for (Transit& t : out) push(t);
      for (std::size_t k = 0; k < in.size(); ++k) pull(in[k], tags[k]);
    }
    is_broken_ = false;
  }

 private:
  Socket& at(std::int32_t r) { return peers_[static_cast<std::size_t>(r)]; }
  static std::string named(std::int32_t r) { return "rank " + std::to_string(r); }
  double meeting_seconds() const { return std::min(seconds_, longest_meeting); }

  /// The next one that connects; ProviderFailure with a rank from `least` on that does not.
  Socket come_to(const Socket& door, const std::vector<Socket>& here, std::int32_t least,
                 Deadline deadline) const {
    Socket s = door.accept(deadline);
    if (s.descriptor() >= 0) return s;
    std::int32_t absent = least;
    while (here[static_cast<std::size_t>(absent)].descriptor() >= 0) ++absent;
    throw ProviderFailure("tcp: " + named(absent) + " has not come within " +
                          shortest(meeting_seconds()) + " seconds");
  }

  /// Who has connected says so first: a rank from `least` on that is not here yet.
  std::int32_t introduced(const Socket& s, const std::vector<Socket>& here, std::int32_t least,
                          Deadline deadline) const {
    std::int32_t who = -1;
    s.receive_all(bytes_of_value(who), deadline, "somebody");
    if (who < least || who >= size()) throw ProviderFailure("tcp: somebody who is no such rank");
    if (here[static_cast<std::size_t>(who)].descriptor() >= 0)
      throw ProviderFailure("tcp: " + named(who) + " has come twice");
    return who;
  }

  /// Every rank tells rank 0 where it listens, and rank 0 tells all.
  std::vector<Address> meet(const Socket& own, const MeetingPlace& place, Deadline deadline) {
    std::vector<Address> all(peers_.size());
    const auto table = std::as_writable_bytes(std::span(all));
    if (rank_ > 0) {
      const Socket zero = Socket::connect(place.host, place.port, deadline);
      std::int32_t me = rank_, port = own.port();
      zero.send_all(bytes_of_value(me), deadline, named(0));
      zero.send_all(bytes_of_value(port), deadline, named(0));
      zero.receive_all(table, deadline, named(0));
      for (Address& a : all) a.host.back() = '\0';  // a name that has no end would go on behind it
      std::strncpy(all[0].host.data(), zero.peer_host().c_str(), all[0].host.size() - 1);
      return all;
    }
    all[0].port = own.port();  // its host is where the others met it
    const Socket door = Socket::listen(place.port, size());
    std::vector<Socket> guests(peers_.size());
    for (std::size_t k = 1; k < guests.size(); ++k) {
      Socket s = come_to(door, guests, 1, deadline);
      const std::int32_t rank = introduced(s, guests, 1, deadline);
      const auto who = static_cast<std::size_t>(rank);
      s.receive_all(bytes_of_value(all[who].port), deadline, named(rank));
      std::strncpy(all[who].host.data(), s.peer_host().c_str(), all[who].host.size() - 1);
      guests[who] = std::move(s);
    }
    for (std::int32_t r = 1; r < size(); ++r)
      guests[static_cast<std::size_t>(r)].send_all(table, deadline, named(r));
    return all;
  }

  static bool all_done(const std::vector<Transit>& transits) {
    for (const Transit& t : transits)
      if (!t.is_done()) return false;
    return true;
  }

  void wait(const std::vector<Transit>& out, const std::vector<Transit>& in) const {
    std::vector<pollfd> waits;
    for (const Transit& t : out)
      if (!t.is_done()) waits.push_back({peers_[t.peer].descriptor(), POLLOUT, 0});
    for (const Transit& t : in)
      if (!t.is_done()) waits.push_back({peers_[t.peer].descriptor(), POLLIN, 0});
    const Deadline deadline = deadline_in(seconds_);
    for (;;) {
      const int ready = poll(waits.data(), waits.size(), 1000);
      if (ready > 0) return;
      if (ready < 0 && errno != EINTR)
        throw ProviderFailure(std::string("tcp: poll: ") + std::strerror(errno));
      if (std::chrono::steady_clock::now() > deadline) refuse_to_wait(out, in);
    }
  }

  [[noreturn]] void refuse_to_wait(const std::vector<Transit>& out,
                                   const std::vector<Transit>& in) const {
    std::string whom;
    for (const std::vector<Transit>* way : {&in, &out})
      for (const Transit& t : *way)
        if (!t.is_done() && whom.empty())
          whom =
              (way == &in ? "receiving from rank " : "sending to rank ") + std::to_string(t.peer);
    throw ProviderFailure(whom + ": nothing for " + shortest(seconds_) + " seconds");
  }

  /// `n` bytes more are through, or none yet.
  void count(Transit& t, ssize_t n, const char* what) const {
    if (n > 0) {
      t.done += static_cast<std::size_t>(n);
      return;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    throw ProviderFailure(std::string(what) + " rank " + std::to_string(t.peer) + ": " +
                          (n == 0 ? "it is gone" : std::strerror(errno)));
  }

  void push(Transit& t) const {
    if (t.is_done()) return;
    const auto left = t.left();
    count(t,
          send(peers_[t.peer].descriptor(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT),
          "sending to");
  }

  void pull(Transit& t, std::int32_t tag) const {
    if (t.is_done()) return;
    const auto left = t.left();
    count(t, recv(peers_[t.peer].descriptor(), left.data(), left.size(), MSG_DONTWAIT),
          "receiving from");
    if (t.done == sizeof t.header && (t.header.tag != tag || t.header.bytes != t.bytes.size()))
      throw ProviderFailure("tcp: rank " + std::to_string(t.peer) + " is at another place");
  }

  std::int32_t rank_;
  std::vector<Socket> peers_;  ///< the own one is empty
  double seconds_;
  bool is_broken_ = false;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::int64_t number(const char* name, std::int64_t most) {
  const std::string text = variable(name);
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > most)
    throw InputError(name, "'" + text + "'", "a number from 1 to " + std::to_string(most));
  return value;
}

}  // namespace

std::string first_host(const std::string& list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const std::size_t end = list.find_first_of(",-]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

MeetingPlace meeting_place() {
  MeetingPlace place{variable("MASTER_ADDR"), 0};
  if (place.host.empty()) place.host = first_host(variable("SLURM_STEP_NODELIST"));
  if (place.host.empty()) place.host = "127.0.0.1";
  constexpr std::int64_t most = 65535;
  const auto port = [](std::int64_t p) { return static_cast<std::uint16_t>(p); };
  if (!variable("OPBOUND_PORT").empty()) {
    place.port = port(number("OPBOUND_PORT", most));
  } else if (!variable("MASTER_PORT").empty()) {
    place.port = port(number("MASTER_PORT", most - 1) + 1);
  } else if (!variable("SLURM_JOB_ID").empty()) {
    place.port = port(20000 + number("SLURM_JOB_ID", std::int64_t{1} << 40) % 20000);
  } else {
    throw InputError("tcp", "no port to meet at", "MASTER_PORT or OPBOUND_PORT");
  }
  return place;
}

std::unique_ptr<Communicator> tcp_communicator(const Launched& rank, const MeetingPlace& place,
                                               double seconds) {
  return std::make_unique<TcpCommunicator>(rank, place, seconds);
}

std::unique_ptr<Engine> tcp_engine(double seconds) {
  const auto rank = launched();
  if (!rank) throw Unavailable("tcp: no launcher says which rank this is: RANK, WORLD_SIZE");
  const MeetingPlace place = rank->size == 1 ? MeetingPlace{} : meeting_place();
  return std::make_unique<RankEngine>(tcp_communicator(*rank, place, seconds),
                                      EngineTraits{.name = "tcp", .version = opbound::version});
}

}  // namespace opbound
