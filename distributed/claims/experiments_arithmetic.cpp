// Numbers of a text against one another.
#include <cmath>
#include <sstream>

#include "distributed/claims/experiment.hpp"
#include "reports/error.hpp"

namespace opbound::claims {
namespace {

double applied(double a, const std::string& sign, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "/") return a / b;
  if (sign == "%") return std::fmod(a, b);
  throw InputError("", "sign '" + sign + "'", "one of + - * / %, a blank on both sides");
}

/// Number, sign, number, sign, ...: from left to right.
Measured arithmetic(const Given& given, Laboratory&) {
  const std::vector<std::string> words = given.words("of");
  if (words.size() % 2 == 0) throw InputError("", "of: no number at the end", "1 + 2");
  double result = printed_number(words.front()).value;
  for (std::size_t i = 1; i + 1 < words.size(); i += 2)
    result = applied(result, words[i], printed_number(words[i + 1]).value);
  Measured measured;
  measured.add("result", result, given.text("of") + ", from left to right");
  return measured;
}

}  // namespace

Experiments arithmetic_experiments() {
  return {{"arithmetic",
           "the claim's own numbers, computed from left to right",
           {{"of", std::string("1 + 2")}},
           arithmetic}};
}

}  // namespace opbound::claims
