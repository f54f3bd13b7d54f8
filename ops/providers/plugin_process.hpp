// The processes of one plug-in. A supervisor is forked once, before this process has anything that
// a fork must not inherit (CUDA above all), and never touches the library itself. It forks a worker
// that opens the library and answers; when one dies or is late, the next request gets a fresh one.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "ops/providers/plugin_request.hpp"

namespace opbound::detail {

struct PluginSetup {
  std::string file;     ///< with its whole path
  double seconds = 60;  ///< for each answer
  int device = 0;       ///< number of the CUDA device
};

class PluginProcess {
 public:
  /// Throws ProviderFailure where the system refuses what is needed.
  explicit PluginProcess(const PluginSetup& setup);
  ~PluginProcess();
  PluginProcess(const PluginProcess&) = delete;
  PluginProcess& operator=(const PluginProcess&) = delete;

  /// Memory of this size that the worker shares, its contents unspecified; what was there before is
  /// lost. Throws ProviderFailure.
  std::span<std::byte> memory(std::uint64_t bytes);

  /// One answer of the worker about the memory. A worker that dies or is late has `failed`.
  Answer ask(Step step);

  /// Ends the worker: it may have broken itself.
  void discard();

 private:
  void unmap();

  pid_t supervisor_ = -1;
  int socket_ = -1;
  int file_ = -1;  ///< of the shared memory
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// What a worker has: its end of a connection, the shared memory, and the plug-in.
struct WorkerSetup {
  PluginSetup plugin;
  int socket = -1;
  int memory = -1;
};

/// A worker's life: opens the library and answers until the connection ends.
[[noreturn]] void run_worker(const WorkerSetup& setup);

/// One message of the connection; false when it has ended.
bool send_answer(int socket, const Answer& answer);
bool receive_answer(int socket, Answer& answer);

}  // namespace opbound::detail
