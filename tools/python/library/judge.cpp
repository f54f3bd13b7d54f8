// Judgements through the C interface: a request for the session's program.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "tools/python/library/guard.hpp"
#include "tools/python/library/session.hpp"

namespace {

using namespace opbound;
using library::guarded;
using library::read_struct;
using library::require;
using library::text_of;
using wire::Json;

/// The program `opbound` beside this library.
std::string program_beside() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&opbound_session_open), &info) == 0)
    throw InputError("opbound_session_open", "this library's file is not known", "a program");
  return (std::filesystem::absolute(info.dli_fname).parent_path() / "opbound").string();
}

Json list_of(const char* const* texts, std::size_t count, const char* where) {
  Json list = Json::array();
  for (std::size_t i = 0; i < count; ++i) {
    require(texts != nullptr && texts[i] != nullptr, where, "NULL", "a text");
    list.push_back(texts[i]);
  }
  return list;
}

Json request_of(const char* ask, const opbound_judged* theirs) {
  const auto what = read_struct(theirs, "opbound_judged");
  return {{"ask", ask},
          {"op", text_of(what.op)},
          {"precision", text_of(what.precision)},
          {"direction", text_of(what.direction)},
          {"attributes", list_of(what.attributes, what.attribute_count, "attributes")},
          {"variants", list_of(what.variants, what.variant_count, "variants")}};
}

Json provider_of(const opbound_provider& p) {
  Json algorithms = Json::array(), functions = Json::array(), environment = Json::array();
  for (std::size_t i = 0; i < p.algorithm_count; ++i)
    algorithms.push_back({text_of(p.algorithms[i].op), text_of(p.algorithms[i].direction),
                          text_of(p.algorithms[i].variants)});
  for (std::size_t i = 0; i < p.function_count; ++i)
    functions.push_back({text_of(p.functions[i].function), p.functions[i].ulp});
  for (std::size_t i = 0; i < p.environment_count; ++i)
    environment.push_back({text_of(p.environment[i].name), text_of(p.environment[i].value)});
  return {{"name", text_of(p.name)},
          {"version", text_of(p.version)},
          {"algorithms", algorithms},
          {"functions", functions},
          {"environment", environment}};
}

opbound_provider checked(const opbound_provider* theirs) {
  const auto p = read_struct(theirs, "opbound_provider");
  require(p.abi_version == OPBOUND_ABI_VERSION, "opbound_provider",
          "abi_version " + std::to_string(p.abi_version), std::to_string(OPBOUND_ABI_VERSION));
  require(p.device == OPBOUND_HOST, "opbound_provider", "a device", "OPBOUND_HOST");
  return p;
}

/// The tensors as a file that goes with the object.
class TensorFile {
 public:
  TensorFile() {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code ignored;
    const auto folder = std::filesystem::is_directory(memory, ignored)
                            ? memory
                            : std::filesystem::temp_directory_path();
    path_ = (folder / "opbound-XXXXXX.safetensors").string();
    const int file = mkstemps(path_.data(), static_cast<int>(sizeof ".safetensors") - 1);
    if (file < 0) throw InputError(path_, "cannot be made", "memory for the tensors");
    close(file);
  }
  ~TensorFile() { unlink(path_.c_str()); }
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::vector<opbound_tensor>& tensors) const;

 private:
  std::string path_;
};

std::int64_t bytes_of_tensor(const opbound_tensor& t) {
  constexpr std::array<std::int64_t, 10> widths{8, 4, 4, 2, 2, 1, 1, 4, 8, 1};
  std::int64_t bytes = widths[static_cast<std::size_t>(t.element)];
  for (std::int32_t axis = 0; axis < t.rank; ++axis) bytes *= t.size[axis];
  return bytes;
}

void TensorFile::write(const std::vector<opbound_tensor>& tensors) const {
  constexpr std::array<const char*, 10> words{"F64",     "F32",     "F32", "BF16", "F16",
                                              "F8_E4M3", "F8_E5M2", "I32", "I64",  "BOOL"};
  Json head = Json::object();
  std::int64_t at = 0;
  for (const opbound_tensor& t : tensors) {
    const std::int64_t end = at + bytes_of_tensor(t);
    head[t.name] = {{"dtype", words[static_cast<std::size_t>(t.element)]},
                    {"shape", std::vector<std::int64_t>(t.size, t.size + t.rank)},
                    {"data_offsets", {at, end}}};
    at = end;
  }
  const std::string text = head.dump();
  const std::uint64_t size = text.size();
  std::ofstream file(path_, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << text;
  for (const opbound_tensor& t : tensors)
    file.write(static_cast<const char*>(t.data), bytes_of_tensor(t));
  file.close();
  if (!file) throw InputError(path_, "cannot be written", "memory for the tensors");
}

std::vector<opbound_tensor> checked(std::size_t count, const opbound_tensor* const* theirs) {
  std::vector<opbound_tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    const auto t = read_struct(theirs[i], "opbound_tensor");
    require(t.name != nullptr, "opbound_tensor", "no name", "a name");
    require(t.element >= OPBOUND_FP64 && t.element <= OPBOUND_BOOLEAN, t.name,
            "element " + std::to_string(t.element), "OPBOUND_FP64 to OPBOUND_BOOLEAN");
    require(t.rank >= 0 && t.rank <= OPBOUND_MAX_RANK, t.name, "rank " + std::to_string(t.rank),
            "0 to 8");
    std::int64_t stride = 1;
    for (std::int32_t axis = t.rank - 1; axis >= 0; stride *= t.size[axis--])
      require(t.size[axis] >= 1 && (t.size[axis] == 1 || t.stride[axis] == stride), t.name,
              "strides or sizes that are not those of contiguous elements", "contiguous ones");
    require(t.data != nullptr, t.name, "NULL", "its elements");
    tensors.push_back(t);
  }
  return tensors;
}

}  // namespace

extern "C" {

int opbound_session_open(const char* program, opbound_session** session, char* message,
                         size_t message_size) {
  return guarded(message, message_size, [&] {
    require(session != nullptr, "opbound_session_open", "NULL", "a place for the session");
    *session = std::make_unique<opbound_session>(program == nullptr ? program_beside() : program)
                   .release();
  });
}

void opbound_session_close(opbound_session* session) { delete session; }

int opbound_verify(opbound_session* session, const opbound_judged* what,
                   const opbound_suite_choice* choice, const opbound_provider* provider,
                   opbound_record_sink sink, void* user, char* message, size_t message_size) {
  return guarded(message, message_size, [&] {
    require(session != nullptr, "opbound_verify", "NULL", "a session");
    const opbound_provider kernel = checked(provider);
    require(kernel.run != nullptr, "opbound_provider", "no function run", "one");
    const auto c = read_struct(choice, "opbound_suite_choice");
    Json request = request_of("verify", what);
    request["suite"] = text_of(c.suite);
    request["tier"] = c.tier == nullptr ? "quick" : c.tier;
    request["only"] = text_of(c.only);
    request["allow_vacuous"] = text_of(c.allow_vacuous);
    request["free"] = list_of(c.free, c.free_count, "free");
    request["provider"] = provider_of(kernel);
    session->ask(request, &kernel, sink, user);
  });
}

int opbound_judge(opbound_session* session, const opbound_judged* what,
                  const opbound_call_choice* choice, const opbound_provider* provider,
                  size_t tensor_count, const opbound_tensor* const* tensors,
                  opbound_record_sink sink, void* user, char* message, size_t message_size) {
  return guarded(message, message_size, [&] {
    require(session != nullptr, "opbound_judge", "NULL", "a session");
    const auto c = read_struct(choice, "opbound_call_choice");
    const TensorFile file;
    const std::vector<opbound_tensor> given = checked(tensor_count, tensors);
    file.write(given);
    Json request = request_of("judge", what), in = Json::array(), out = Json::array();
    for (const opbound_tensor& t : given) (t.role == OPBOUND_OUT ? out : in).push_back(t.name);
    request["file"] = file.path();
    request["in"] = in;
    request["out"] = out;
    request["sizes"] = list_of(c.sizes, c.size_count, "sizes");
    request["certified"] = c.certified != 0;
    request["seed"] = c.seed;
    request["place"] = {
        {"step", c.step}, {"call", c.call}, {"layer", c.layer}, {"part", text_of(c.part)}};
    request["provider"] = provider_of(read_struct(provider, "opbound_provider"));
    session->ask(request, nullptr, sink, user);
  });
}

}  // extern "C"
