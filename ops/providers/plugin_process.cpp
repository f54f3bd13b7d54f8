#include "ops/providers/plugin_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "ops/provider.hpp"

namespace opbound::detail {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void give_up(const char* call) {
  throw ProviderFailure(std::string("no process for the plug-in: ") + call + ": " +
                        std::strerror(errno));
}

/// Packets keep their borders, so that a message is one call. The ends do not outlive an exec.
void connect_pair(int (&ends)[2]) {
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) give_up("socketpair");
}

/// A signal that interrupts the wait is no answer.
template <class F>
auto again_if_interrupted(F call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

bool send_message(int socket, const Message& message) {
  return again_if_interrupted([&] {
           return send(socket, &message, sizeof message, MSG_NOSIGNAL);
         }) == static_cast<ssize_t>(sizeof message);
}

std::string death_text(int status) {
  if (WIFSIGNALED(status))
    return std::string("it crashed: ") + strsignal(WTERMSIG(status)) + " (signal " +
           std::to_string(WTERMSIG(status)) + ")";
  return "it ended its process with exit code " + std::to_string(WEXITSTATUS(status));
}

/// The supervisor's view of a worker.
class Worker {
 public:
  explicit Worker(const WorkerSetup& setup) : setup_(setup) {}

  void stop() {
    if (pid_ < 0) return;
    kill(-pid_, SIGKILL);  // with whatever it has forked
    kill(pid_, SIGKILL);
    reap();
  }

  /// Answers the message, by what becomes of the worker if it has to. False when opbound is gone.
  bool ask(const Message& message, Answer& answer) {
    if (pid_ < 0) start();
    if (!send_message(socket_, message)) return buried(answer);
    const auto limit = std::chrono::duration<double>(setup_.plugin.seconds);
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
    for (;;) {
      std::array<pollfd, 2> ends{pollfd{socket_, POLLIN, 0}, pollfd{setup_.socket, 0, 0}};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left <= 0) break;
      poll(ends.data(), ends.size(), static_cast<int>(std::min<std::int64_t>(left, 1 << 30)));
      if (ends[1].revents != 0) return false;
      if (ends[0].revents != 0) return receive_answer(socket_, answer) ? true : buried(answer);
    }
    stop();
    std::array<char, 32> seconds{};
    std::snprintf(seconds.data(), seconds.size(), "%g", setup_.plugin.seconds);
    answer = {Outcome::failed, std::string("it gave no answer within ") + seconds.data() + " s"};
    return true;
  }

 private:
  void start() {
    int ends[2];
    connect_pair(ends);
    pid_ = fork();
    if (pid_ < 0) give_up("fork");
    if (pid_ == 0) {
      close(ends[0]);
      close(setup_.socket);
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      run_worker({setup_.plugin, ends[1], setup_.memory});
    }
    setpgid(pid_, pid_);  // whoever comes first
    close(ends[1]);
    socket_ = ends[0];
  }

  bool buried(Answer& answer) {
    answer = {Outcome::failed, death_text(reap())};
    return true;
  }

  int reap() {
    int status = 0;
    again_if_interrupted([&] { return waitpid(pid_, &status, 0); });
    close(socket_);
    pid_ = socket_ = -1;
    return status;
  }

  const WorkerSetup& setup_;
  pid_t pid_ = -1;
  int socket_ = -1;
};

/// Its own process group: an interrupt at the terminal is opbound's, which finishes the check.
void detach() {
  setpgid(0, 0);
  signal(SIGINT, SIG_DFL);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // opbound's output is its own
}

[[noreturn]] void supervise(const WorkerSetup& setup) {
  detach();
  Worker worker(setup);
  for (;;) {
    Message message;
    const auto size =
        again_if_interrupted([&] { return recv(setup.socket, &message, sizeof message, 0); });
    if (size != static_cast<ssize_t>(sizeof message)) break;
    if (message.step == Step::discard) {
      worker.stop();
      continue;
    }
    Answer answer;
    try {
      if (!worker.ask(message, answer)) break;
    } catch (const ProviderFailure& e) {
      answer = {Outcome::failed, e.what()};
    }
    if (answer.outcome == Outcome::failed) worker.stop();  // it may have broken itself
    if (!send_answer(setup.socket, answer)) break;
  }
  worker.stop();
  _exit(0);
}

}  // namespace

bool send_answer(int socket, const Answer& answer) {
  std::string packet(1, static_cast<char>(answer.outcome));
  packet.append(answer.text, 0, longest_answer - 1);
  return again_if_interrupted([&] {
           return send(socket, packet.data(), packet.size(), MSG_NOSIGNAL);
         }) == static_cast<ssize_t>(packet.size());
}

bool receive_answer(int socket, Answer& answer) {
  std::string packet(longest_answer, '\0');
  const auto size =
      again_if_interrupted([&] { return recv(socket, packet.data(), packet.size(), 0); });
  if (size <= 0) return false;
  answer = {static_cast<Outcome>(packet.front()),
            packet.substr(1, static_cast<std::size_t>(size) - 1)};
  return true;
}

PluginProcess::PluginProcess(const PluginSetup& setup) {
  file_ = memfd_create("opbound-plugin", MFD_CLOEXEC);
  if (file_ < 0) give_up("memfd_create");
  int ends[2];
  connect_pair(ends);
  all_ops();             // made at its first use: from here on it is where the worker has it
  std::fflush(nullptr);  // what is still in a buffer must not be written twice
  supervisor_ = fork();
  if (supervisor_ < 0) give_up("fork");
  if (supervisor_ == 0) {
    close(ends[0]);
    supervise({setup, ends[1], file_});
  }
  close(ends[1]);
  socket_ = ends[0];
}

PluginProcess::~PluginProcess() {
  shutdown(socket_, SHUT_RDWR);  // later supervisors have a copy of this end: close() is no end
  close(socket_);
  int status = 0;
  again_if_interrupted([&] { return waitpid(supervisor_, &status, 0); });
  unmap();
  close(file_);
}

void PluginProcess::unmap() {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
}

std::span<std::byte> PluginProcess::memory(std::uint64_t bytes) {
  unmap();
  bytes_ = bytes;
  const auto all = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes > all)
    throw ProviderFailure("the plug-in's tensors and workspace need " + std::to_string(bytes) +
                          " bytes, this machine has " + std::to_string(all));
  if (ftruncate(file_, static_cast<off_t>(bytes)) != 0) give_up("ftruncate");
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (data == MAP_FAILED) give_up("mmap");
  data_ = static_cast<std::byte*>(data);
  return {data_, bytes_};
}

Answer PluginProcess::ask(Step step) {
  Answer answer;
  if (send_message(socket_, {step, bytes_}) && receive_answer(socket_, answer)) return answer;
  throw ProviderFailure("the process that watches over the plug-in has ended");
}

void PluginProcess::discard() { send_message(socket_, {Step::discard, 0}); }

}  // namespace opbound::detail
