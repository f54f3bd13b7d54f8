// .npy files; what was read is written and read again.
#include <algorithm>

#include "suites/tensor_file.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void npy(Bytes input) {
  const std::string path = put("x.npy", input);
  for (const std::optional<Element> wanted :
       {std::optional<Element>(), std::optional(Element::fp32), std::optional(Element::bf16),
        std::optional(Element::e4m3), std::optional(Element::int64)})
    reads([&] {
      const Tensor tensor = read_tensor(path, {"", wanted});
      const std::string copy = (scratch() / "copy.npy").string();
      write_npy(copy, tensor);
      const Tensor again = read_tensor(copy, {"", tensor.element()});
      require(again.shape() == tensor.shape() && std::ranges::equal(again.bytes(), tensor.bytes()),
              "a tensor that is read as it was written");
    });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(npy)
