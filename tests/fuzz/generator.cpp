// The words of an input, as suites and records have them.
#include "suites/input.hpp"
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void generator(Bytes input) {
  reads([&] {
    const InputSpec spec = parse_input(text_of(input));
    const std::string text = to_string(spec);
    require(to_string(parse_input(text)) == text, "an input that is read as it was written");
    if (!spec.path.empty()) return;
    for (const Element element : {Element::fp32, Element::e4m3, Element::int64, Element::boolean})
      reads([&] {
        check_input(spec, element);
        Tensor tensor(element, {3, 5});
        fill_input(tensor, spec, 1, "x", 7);
      });
  });
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(generator)
