#include "distributed/train/checkpoint.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "reports/json.hpp"
#include "suites/safetensors.hpp"
#include "suites/sha256.hpp"
#include "suites/tensor_file.hpp"

namespace opbound::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Bytes = std::span<const std::byte>;

constexpr std::string_view extension = ".safetensors";
constexpr std::string_view stem = "step-";
constexpr const char* version_key = "opbound.checkpoint";
constexpr const char* hash_key = "sha256";
constexpr const char* state_key = "state";
constexpr const char* a_checkpoint = "a checkpoint that `opbound train` wrote";
const std::string no_hash(64, '0');
constexpr int deepest_state = 16;  // a spec and its policy need 7

// ---- files

fs::path file_of(const fs::path& folder, std::int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, 12 - std::min<std::size_t>(12, digits.size()), '0');
  return folder / (std::string(stem) + digits + std::string(extension));
}

/// The step in a checkpoint's name.
std::optional<std::int64_t> step_of(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!name.starts_with(stem) || !name.ends_with(extension)) return std::nullopt;
  const char* end = name.data() + name.size() - extension.size();
  std::int64_t step = -1;
  const auto [stop, error] = std::from_chars(name.data() + stem.size(), end, step);
  if (error != std::errc{} || stop != end || step < 0) return std::nullopt;
  return step;
}

/// Newest first.
std::vector<std::pair<std::int64_t, fs::path>> files_of(const fs::path& folder) {
  std::vector<std::pair<std::int64_t, fs::path>> files;
  std::error_code error;
  if (fs::exists(folder, error))
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
      if (const auto step = step_of(entry.path())) files.emplace_back(*step, entry.path());
  if (error) throw InputError(folder.string(), error.message(), "a folder that may be read");
  std::sort(files.rbegin(), files.rend());
  return files;
}

[[noreturn]] void refuse_write(const fs::path& path, const std::string& what) {
  throw InputError(path.string(), what, "a folder with room that may be written");
}
[[noreturn]] void refuse_write(const fs::path& path) {
  refuse_write(path, std::string("cannot be written: ") + std::strerror(errno));
}

/// A file descriptor of the path. An error is told of `named`.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, const fs::path& named)
      : named_(named), value_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (value_ < 0) refuse_write(named_);
  }
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(Bytes bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(value_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) refuse_write(named_);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  void force_to_disk() {
    if (::fsync(value_) != 0) refuse_write(named_);
  }
  /// A file system that cannot do this for folders keeps their names in order itself.
  void force_folder_to_disk() {
    if (::fsync(value_) != 0 && errno != EINVAL) refuse_write(named_);
  }
  /// Some file systems tell only here that there was no room.
  void close() {
    if (::close(std::exchange(value_, -1)) != 0) refuse_write(named_);
  }

 private:
  const fs::path named_;
  int value_;
};

/// After this the file stands under its name with all its bytes, whatever happens to the machine.
void write_durably(const fs::path& path, const std::vector<Bytes>& parts) {
  const fs::path temporary = path.parent_path() / "writing.partial";
  try {
    Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC, path);
    for (const Bytes part : parts) file.write(part);
    file.force_to_disk();
    file.close();
    if (std::rename(temporary.c_str(), path.c_str()) != 0) refuse_write(path);
    Descriptor(path.parent_path(), O_RDONLY | O_DIRECTORY, path).force_folder_to_disk();
  } catch (const InputError&) {
    std::error_code ignored;
    fs::remove(temporary, ignored);  // its room may be what is missing
    throw;
  }
}

// ---- contents

/// Where the digits of a hash stand in the head; texts of the state have a \ before their quotes.
std::size_t place_of(const std::string& head, std::string_view digits) {
  const std::string entry = "\"" + std::string(hash_key) + "\":\"";
  const std::size_t at = head.find(entry + std::string(digits) + "\"");
  return at == std::string::npos ? at : at + entry.size();
}

std::string hash_of(SafetensorsFile& file, std::string_view told) {
  std::string head = file.head();
  head.replace(place_of(head, told), told.size(), no_hash);
  Sha256 hash;
  hash.take(std::as_bytes(std::span(head)));
  std::vector<std::byte> piece(std::size_t{1} << 20);
  for (std::uint64_t at = file.head().size(), end = file.file().size(); at < end;) {
    const std::span<std::byte> bytes =
        std::span(piece).first(std::min<std::uint64_t>(piece.size(), end - at));
    file.file().read(at, bytes);
    hash.take(bytes);
    at += bytes.size();
  }
  return hash.digest();
}

const std::string& text_at(const SafetensorsFile& file, const InputFile& input, const char* key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    input.refuse("no \"" + std::string(key) + "\" in __metadata__", a_checkpoint);
  return found->second;
}

}  // namespace

bool is_checkpoint(const fs::path& path) {
  return SafetensorsFile(path).metadata().contains(version_key);
}

Checkpoint read_checkpoint(const fs::path& path) {
  SafetensorsFile file(path);
  const InputFile& input = file.file();
  const std::string& version = text_at(file, input, version_key);
  if (version != std::to_string(checkpoint_version))
    input.refuse("a checkpoint of version " + detail::in_quotes(version),
                 "version " + std::to_string(checkpoint_version));
  const std::string& told = text_at(file, input, hash_key);
  if (told.size() != no_hash.size() ||
      told.find_first_not_of("0123456789abcdef") != std::string::npos ||
      place_of(file.head(), told) == std::string::npos)
    input.refuse("SHA-256 " + detail::in_quotes(told), "64 hexadecimal digits");
  if (const std::string found = hash_of(file, told); found != told)
    input.refuse("changed or torn: SHA-256 " + found, told);

  // From here on every byte is as it was written; what does not fit was not written here.
  Checkpoint checkpoint;
  const Json state = detail::parse_json<Json>(text_at(file, input, state_key), deepest_state);
  if (!state.is_object() || !state.contains("step") || !state["step"].is_number_integer() ||
      state["step"].get<std::int64_t>() < 0 || !state.contains("metadata"))
    input.refuse("state without step or metadata", a_checkpoint);
  checkpoint.step = state["step"].get<std::int64_t>();
  checkpoint.metadata = state["metadata"];
  for (const SafetensorsEntry& entry : file.entries())
    checkpoint.tensors.emplace(entry.name, file.read(entry));
  return checkpoint;
}

CheckpointFolder::CheckpointFolder(fs::path folder, int keep)
    : folder_(std::move(folder)), keep_(keep) {
  detail::require(keep >= 1, "at least the newest checkpoint is kept");
}

CheckpointFolder::~CheckpointFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void CheckpointFolder::claim() {
  if (lock_ >= 0) return;
  std::error_code error;
  if (fs::create_directories(folder_, error)) {
    const fs::path above = fs::absolute(folder_).parent_path();
    Descriptor(above, O_RDONLY | O_DIRECTORY, folder_).force_folder_to_disk();
  }
  if (error) refuse_write(folder_, "cannot be made: " + error.message());
  lock_ = ::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) refuse_write(folder_);
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int why = errno;
  ::close(std::exchange(lock_, -1));
  if (why == EWOULDBLOCK)
    throw InputError(folder_.string(), "another run writes its checkpoints here",
                     "a folder for each run");
  refuse_write(folder_, std::string("cannot be locked: ") + std::strerror(why));
}

fs::path CheckpointFolder::write(const Checkpoint& checkpoint) {
  detail::require(checkpoint.step >= 0, "a checkpoint's step");
  claim();
  const Json state{{"step", checkpoint.step}, {"metadata", checkpoint.metadata}};
  SafetensorsParts parts(checkpoint.tensors,
                         {{version_key, std::to_string(checkpoint_version)},
                          {state_key, state.dump(-1, ' ', true, Json::error_handler_t::replace)},
                          {hash_key, no_hash}});
  std::vector<Bytes> all{std::as_bytes(std::span(parts.head))};
  all.insert(all.end(), parts.elements.begin(), parts.elements.end());
  Sha256 hash;
  for (const Bytes part : all) hash.take(part);
  parts.head.replace(place_of(parts.head, no_hash), no_hash.size(), hash.digest());
  all.front() = std::as_bytes(std::span(parts.head));
  const fs::path path = file_of(folder_, checkpoint.step);
  write_durably(path, all);

  int kept = 0;
  for (const auto& [step, file] : files_of(folder_)) {
    std::error_code ignored;  // one too many is no reason to end a run
    if (step <= checkpoint.step && ++kept > keep_) fs::remove(file, ignored);
  }
  return path;
}

std::optional<Checkpoint> CheckpointFolder::newest(std::vector<std::string>& refused) const {
  for (const auto& [step, file] : files_of(folder_)) {
    try {
      return read_checkpoint(file);
    } catch (const InputError& e) {
      refused.emplace_back(e.what());
    }
  }
  return std::nullopt;
}

}  // namespace opbound::train
