// .safetensors files, all of their tensors; and as weights of a model.
#include "suites/safetensors.hpp"
#include "distributed/train/weights.hpp"
#include "suites/tensor_file.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void safetensors(Bytes input) {
  const std::string path = put("x.safetensors", input);
  reads([&] {
    SafetensorsFile file(path);
    std::uint64_t bytes = 0;
    for (const SafetensorsEntry& entry : file.entries()) {
      reads([&] { bytes += file.read(entry).bytes().size(); });
      reads([&] { read_tensor(path, {entry.name, Element::int64}); });
    }
    require(bytes <= input.size(), "tensors that are not larger than their file");
  });
  reads([&] { train::read_weights(path, train::model_named("nano"), bf16); });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(safetensors)
