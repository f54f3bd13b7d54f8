// A planted fault: the fuzzer has to find it, else it finds nothing.
#include "tests/fuzz/target.hpp"

namespace opbound::fuzz {

void canary(Bytes input) {
  const std::string_view planted = "opb!";
  std::size_t same = 0;
  while (same < input.size() && same < planted.size() &&
         static_cast<char>(input[same]) == planted[same])
    ++same;
  require(same < planted.size(), "the planted fault");
}

}  // namespace opbound::fuzz

OPBOUND_FUZZ_TARGET(canary)
