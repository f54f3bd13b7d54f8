// Checkpoints. A fuzzer never finds a SHA-256, so the right one is put into its place: what stands
// behind that check is not trusted either.
#include "distributed/train/checkpoint.hpp"
#include "suites/sha256.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {
namespace {

std::string with_hash(std::string file) {
  constexpr std::size_t digits = 64;
  const std::string key = "\"sha256\":\"";
  const std::size_t at = file.find(key);
  if (at == std::string::npos || file.size() - at - key.size() < digits) return file;
  const std::size_t place = at + key.size();
  file.replace(place, digits, digits, '0');
  return file.replace(place, digits, sha256(std::as_bytes(std::span(file))));
}

}  // namespace

void checkpoint(Bytes input) {
  const std::string path = put("step-000000000001.safetensors", with_hash(text_of(input)));
  reads([&] { train::is_checkpoint(path); });
  reads([&] {
    const train::Checkpoint read = train::read_checkpoint(path);
    require(read.step >= 0, "a checkpoint of steps that were done");
    const train::CheckpointFolder folder(scratch());
    std::vector<std::string> refused;
    const auto newest = folder.newest(refused);
    require(newest && newest->step == read.step, "the file that was read");
  });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(checkpoint)
