// A session: the program `opbound serve` in a process of its own, and what it is asked.
#pragma once

#include <sys/types.h>

#include <string>

#include "tools/python/library/opbound.h"
#include "tools/python/library/wire.hpp"

/// One at a time asks.
struct opbound_session {
  /// Starts the program. Throws std::runtime_error.
  explicit opbound_session(const std::string& program);
  ~opbound_session();
  opbound_session(const opbound_session&) = delete;
  opbound_session& operator=(const opbound_session&) = delete;

  /// Answers the program's messages until it is done. `provider` runs the calls, if there are any.
  /// Throws std::runtime_error with the program's line, or with what became of it.
  void ask(const opbound::wire::Json& request, const opbound_provider* provider,
           opbound_record_sink sink, void* user);

 private:
  [[noreturn]] void bury();
  opbound::wire::Json run(const opbound::wire::Json& call, const opbound_provider& provider);

  std::string program_;
  opbound::wire::Descriptor socket_, file_;
  opbound::wire::Memory memory_;
  pid_t child_ = -1;
};
