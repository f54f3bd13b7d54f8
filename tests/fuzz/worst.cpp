// Lists of worst cases: hexadecimal numbers, one a line.
#include "suites/input.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void worst(Bytes input) {
  InputSpec spec;
  spec.kind = "worst";
  spec.path = put("worst.txt", input);
  for (const Element element : {Element::fp64, Element::bf16})
    reads([&] {
      Tensor tensor(element, {7});
      fill_input(tensor, spec, 1, "x");
    });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(worst)
