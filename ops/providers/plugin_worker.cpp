// The process that opens a plug-in and calls it.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include "ops/providers/plugin.hpp"
#include "ops/providers/plugin_library.hpp"
#include "ops/providers/plugin_process.hpp"

namespace opbound::detail {
namespace {

/// The shared memory while one message is answered: its size changes between two.
class Mapping {
 public:
  Mapping(int file, std::uint64_t bytes) : bytes_(bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (data == MAP_FAILED)
      throw ProviderFailure(std::string("mmap in its process: ") + std::strerror(errno));
    data_ = static_cast<std::byte*>(data);
  }
  ~Mapping() { munmap(data_, bytes_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<std::byte> all() const { return {data_, bytes_}; }
  /// A copy, which the plug-in cannot reach.
  Request request() const {
    Request request;
    std::memcpy(&request, data_, sizeof request);
    return request;
  }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_;
};

Answer described(const PluginLibrary& library) {
  std::string text = joined(library.description());
  if (text.size() >= longest_answer)
    throw NotAPlugin("says too much of itself", "algorithms, functions and environment below " +
                                                    std::to_string(longest_answer) + " bytes");
  return {Outcome::done, std::move(text)};
}

Answer answer_to(const Message& message, std::optional<PluginLibrary>& library,
                 const WorkerSetup& setup) {
  try {
    if (!library) library.emplace(setup.plugin);
    if (message.step == Step::load) return described(*library);
    const Mapping memory(setup.memory, message.bytes);
    return message.step == Step::support ? library->support(memory.request())
                                         : library->run(memory.request(), memory.all());
  } catch (const NotAPlugin& e) {
    return {Outcome::not_usable, joined({e.what(), e.expected})};
  } catch (const std::exception& e) {
    return {Outcome::failed, e.what()};
  }
}

}  // namespace

void run_worker(const WorkerSetup& setup) {
  for (const int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) signal(crash, SIG_DFL);
  std::optional<PluginLibrary> library;
  for (;;) {
    Message message;
    const ssize_t size = recv(setup.socket, &message, sizeof message, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size != static_cast<ssize_t>(sizeof message)) break;
    const Answer answer = answer_to(message, library, setup);
    std::fflush(nullptr);  // what the plug-in has printed
    if (!send_answer(setup.socket, answer)) break;
  }
  _exit(0);
}

}  // namespace opbound::detail
