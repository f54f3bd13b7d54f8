#include "tools/python/library/session.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <vector>

extern char** environ;

namespace {

using opbound::wire::Json;

[[noreturn]] void give_up(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

int memory_file() {
  const int file = memfd_create("opbound", MFD_CLOEXEC);
  if (file < 0) give_up("memfd_create", errno);
  return file;
}

/// Descriptors of the program: standard ones, its end of the socket, the memory.
constexpr int program_socket = 3, program_memory = 4;

/// A copy of the descriptor above those that the program shall have.
int set_aside(int number) {
  const int copy = fcntl(number, F_DUPFD_CLOEXEC, program_memory + 1);
  if (copy < 0) give_up("fcntl", errno);
  return copy;
}

pid_t start(const std::string& program, int socket, int memory) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, socket, program_socket);
  posix_spawn_file_actions_adddup2(&files, memory, program_memory);
  posix_spawnattr_t own_group;  // an interrupt at the terminal is the caller's
  posix_spawnattr_init(&own_group);
  posix_spawnattr_setflags(&own_group, POSIX_SPAWN_SETPGROUP);
  std::array<std::string, 2> words{program, "serve"};
  std::array<char*, 3> arguments{words[0].data(), words[1].data(), nullptr};
  pid_t child = -1;
  const int error =
      posix_spawn(&child, program.c_str(), &files, &own_group, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&own_group);
  if (error != 0) give_up(program + " cannot be started", error);
  return child;
}

/// A call as a kernel sees it, its texts and structs kept.
class KernelCall {
 public:
  KernelCall(const Json& call, std::span<std::byte> memory) {
    for (const Json& a : call.at("attributes")) add_attribute(a);
    for (const Json& t : call.at("tensors")) add_tensor(t, memory);
    for (const opbound_attribute& a : attributes_) attribute_list_.push_back(&a);
    for (const opbound_tensor& t : tensors_) tensor_list_.push_back(&t);
    call_.struct_size = sizeof call_;
    call_.op = text(call.at("op"));
    call_.direction = text(call.at("direction"));
    call_.variant = text(call.at("variant"));
    call_.compute = call.at("compute");
    call_.device = OPBOUND_HOST;
    call_.attribute_count = attributes_.size();
    call_.attributes = attribute_list_.data();
    call_.tensor_count = tensors_.size();
    call_.tensors = tensor_list_.data();
  }

  const opbound_call* get() const { return &call_; }

 private:
  const char* text(const Json& json) { return texts_.emplace_back(json).c_str(); }

  void add_attribute(const Json& json) {
    opbound_attribute a{};
    a.struct_size = sizeof a;
    a.name = text(json.at("name"));
    const Json& value = json.at("value");
    if (value.is_boolean()) {
      a.type = OPBOUND_FLAG;
      a.value.flag = value.get<bool>() ? 1 : 0;
    } else if (value.is_number_integer()) {
      a.type = OPBOUND_WHOLE;
      a.value.whole = value;
    } else if (value.is_number()) {
      a.type = OPBOUND_NUMBER;
      a.value.number = value;
    } else {
      a.type = OPBOUND_WORD;
      a.value.word = text(value);
    }
    attributes_.push_back(a);
  }

  void add_tensor(const Json& json, std::span<std::byte> memory) {
    opbound_tensor t{};
    t.struct_size = sizeof t;
    t.name = text(json.at("name"));
    t.role = json.at("role");
    t.element = json.at("element");
    const std::vector<std::int64_t> size = json.at("size"), stride = json.at("stride");
    t.rank = static_cast<std::int32_t>(size.size());
    std::copy(size.begin(), size.end(), t.size);
    std::copy(stride.begin(), stride.end(), t.stride);
    t.data = memory.data() + json.at("offset").get<std::uint64_t>();
    tensors_.push_back(t);
  }

  std::deque<std::string> texts_;  // which does not move them
  std::vector<opbound_attribute> attributes_;
  std::vector<opbound_tensor> tensors_;
  std::vector<const opbound_attribute*> attribute_list_;
  std::vector<const opbound_tensor*> tensor_list_;
  opbound_call call_{};
};

}  // namespace

opbound_session::opbound_session(const std::string& program)
    : program_(program), file_(memory_file()), memory_(file_.number()) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    give_up("socketpair", errno);
  socket_.reset(ends[0]);
  const opbound::wire::Descriptor theirs(ends[1]);
  const opbound::wire::Descriptor socket(set_aside(theirs.number()));
  const opbound::wire::Descriptor memory(set_aside(file_.number()));
  child_ = start(program, socket.number(), memory.number());
}

opbound_session::~opbound_session() {
  socket_.reset(-1);  // with which it ends, if it has nothing to do
  if (child_ < 0) return;
  kill(child_, SIGTERM);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void opbound_session::bury() {
  int status = 0;
  while (child_ >= 0 && waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  socket_.reset(-1);
  throw std::runtime_error(program_ + " serve " +
                           (WIFSIGNALED(status)
                                ? "was ended by signal " + std::to_string(WTERMSIG(status))
                                : "ended with exit code " + std::to_string(WEXITSTATUS(status))));
}

Json opbound_session::run(const Json& call, const opbound_provider& provider) {
  const std::span<std::byte> memory = memory_.map(call.at("bytes").get<std::uint64_t>(), false);
  const KernelCall kernel_call(call, memory);
  std::array<char, 1024> message{};
  int status = OPBOUND_FAILED;
  try {
    status = provider.run(kernel_call.get(), message.data(), message.size());
  } catch (const std::exception& e) {
    std::snprintf(message.data(), message.size(), "it threw an exception: %s", e.what());
  }
  message.back() = '\0';
  return {{"status", status}, {"message", message.data()}};
}

void opbound_session::ask(const Json& request, const opbound_provider* provider,
                          opbound_record_sink sink, void* user) {
  if (child_ < 0) throw std::runtime_error("the session has ended");
  if (!opbound::wire::send(socket_.number(), request)) bury();
  for (;;) {
    const std::optional<Json> message = opbound::wire::receive(socket_.number());
    if (!message) bury();
    if (message->contains("error")) throw std::runtime_error(message->at("error"));
    if (message->contains("done")) return;
    if (message->contains("record")) {
      if (sink != nullptr) sink(user, message->at("record").get<std::string>().c_str());
    } else if (message->contains("call") && provider != nullptr) {
      if (!opbound::wire::send(socket_.number(), run(message->at("call"), *provider))) bury();
    } else {
      throw std::runtime_error(program_ + " serve says something that this library does not know");
    }
  }
}
