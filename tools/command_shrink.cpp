#include "tools/command_shrink.hpp"

#include <algorithm>
#include <cmath>

#include "generated/version.hpp"
#include "ops/precision.hpp"
#include "reports/record.hpp"
#include "reports/text.hpp"
#include "suites/rerun.hpp"
#include "suites/tensor_file.hpp"

namespace opbound {
namespace {

/// The tensors that the kernel read: not outputs that are kept with them.
std::vector<std::string> inputs_of(const Failure& failure) {
  std::vector<std::string> names;
  const auto take = [&](const PassInfo& pass) {
    for (const TensorSpec& t : pass.tensors) {
      const bool is_own =
          t.role == Role::saved && failure.spec.direction != Direction::backward_local;
      const std::string name(t.name);
      if (!t.is_written() && !is_own && failure.tensors.contains(name) &&
          std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
    }
  };
  if (failure.spec.direction != Direction::backward_local) take(failure.spec.op->forward);
  if (failure.spec.direction != Direction::forward) take(*failure.spec.op->backward);
  return names;
}

std::string output_name(const Failure& failure) {
  return std::string(failure.spec.op->pass(failure.spec.direction).tensors[failure.place].name);
}

std::string element_name(const Failure& failure) {
  return output_name(failure) + "[" + std::to_string(failure.worst.index) + "]";
}

Store store_of(const CaseSpec& spec, std::size_t place) {
  const Format format =
      format_of(tensor_element(spec, spec.op->pass(spec.direction).tensors[place]));
  return {format, store_rounds(spec.precision.compute, format)};
}

/// high + low +- radius rounded outward to doubles by at most one step more than needed.
std::pair<double, double> interval(const Exact& e) {
  if (e.kind != Exact::Class::finite) return {e.high, e.high};
  const double low = e.high + (e.low - e.radius), high = e.high + (e.low + e.radius);
  const bool is_exact = e.low == 0 && e.radius == 0;
  return is_exact ? std::pair{low, high}
                  : std::pair{std::nextafter(low, -INFINITY), std::nextafter(high, INFINITY)};
}

std::string literal(double x) {
  if (std::isnan(x)) return "NAN";
  if (std::isinf(x)) return x < 0 ? "-INFINITY" : "INFINITY";
  return hexadecimal(x);
}

std::string array_text(const std::string& name, const Tensor& tensor) {
  std::string text = "// shape " + detail::text_of(tensor.shape()) + ", " +
                     std::string(name_of(tensor.element())) + "\nconst double " + name + "[] = {";
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    text += (i % 4 == 0 ? "\n    " : " ") + literal(tensor.at(i)) + ",";
  return text + "\n};\n";
}

std::string declared_names(const CaseSpec& spec) {
  std::string text;
  for (const int v : spec.declared)
    text.append(text.empty() ? "" : " or ")
        .append(spec.op->variants[static_cast<std::size_t>(v)].name);
  return text;
}

constexpr const char* program_main = R"(
void show(const char* name, double value) { std::printf("%-9s %24a  %.17g\n", name, value, value); }

int main() {
@SHOW_INPUTS@  show("got", got);
  show("exact >=", exact_low);
  show("exact <=", exact_high);
  show("bound", bound);
  show("lowest", lowest);
  show("highest", highest);
  const bool is_correct =
      std::isnan(lowest) ? std::isnan(got) : lowest <= got && got <= highest;
  std::puts(is_correct ? "got is what a correct kernel may store"
                       : "VIOLATION: no correct kernel stores got");
  return is_correct ? 0 : 1;
}
)";

}  // namespace

std::string describe(const Shrunk& shrunk) {
  const Failure& failure = shrunk.failure;
  std::string text = "smallest failing input found, " + std::to_string(shrunk.runs) + " runs\n ";
  for (std::size_t d = 0; d < failure.spec.op->dims.size(); ++d)
    text.append(" ")
        .append(failure.spec.op->dims[d])
        .append(" = ")
        .append(std::to_string(failure.spec.sizes[d]));
  text += "\n";
  for (const std::string& name : inputs_of(failure)) {
    const Tensor& tensor = failure.tensors.find(name)->second;
    for (std::int64_t i = 0; i < tensor.count(); ++i)
      text += "  " + name + "[" + std::to_string(i) + "] = " + hexadecimal(tensor.at(i)) + "  (" +
              shortest(tensor.at(i)) + ")\n";
  }
  const auto [low, high] = interval(failure.worst.exact);
  const Accepted accepted = accepted_values(failure.worst.exact, failure.worst.bound,
                                            store_of(failure.spec, failure.place));
  text += "  " + element_name(failure) + " = " + hexadecimal(failure.worst.got) + "  (" +
          shortest(failure.worst.got) + ")\n";
  text += "  exact in [" + hexadecimal(low) + ", " + hexadecimal(high) + "]\n";
  text += "  bound " + hexadecimal(failure.worst.bound) + "; a correct kernel stores a value in [" +
          hexadecimal(accepted.lowest) + ", " + hexadecimal(accepted.highest) + "]\n";
  return text;
}

std::string program_text(const Failure& failure) {
  const CaseSpec& spec = failure.spec;
  const Probed& worst = failure.worst;
  const auto [low, high] = interval(worst.exact);
  const Store store = store_of(spec, failure.place);
  const Accepted accepted = accepted_values(worst.exact, worst.bound, store);
  std::string text = "// Made by opbound " + std::string(version) + " (" + commit + ").\n";
  text += "// " + std::string(spec.op->name) + " " + std::string(name_of(spec.direction)) + " in " +
          name_of(spec.precision) + ": the smallest input found for which " +
          element_name(failure) + " exceeds its bound.\n";
  text += "// " + std::string(spec.op->math) + "\n";
  text += "// The values are the kernel's and opbound's; nothing is computed again here.\n";
  text += "#include <cmath>\n#include <cstdio>\n\n";
  std::string shows;
  for (const std::string& name : inputs_of(failure)) {
    text += array_text(name, failure.tensors.find(name)->second);
    shows += "  for (double value : " + name + ") show(\"" + name + "\", value);\n";
  }
  text += "\n// " + element_name(failure) + " as the kernel stored it in " +
          std::string(name_of(store.format)) + "\n";
  text += "const double got = " + literal(worst.got) + ";\n";
  text += "// The exact value lies in [exact_low, exact_high].\n";
  text += "const double exact_low = " + literal(low) + ";\n";
  text += "const double exact_high = " + literal(high) + ";\n";
  text += "// No correct kernel of the algorithm " + declared_names(spec) +
          "\n// is farther from exact before the store.\n";
  text += "const double bound = " + literal(worst.bound) + ";\n";
  text += "// So it stores a value from lowest to highest (none: lowest > highest).\n";
  text += "const double lowest = " + literal(accepted.lowest) + ";\n";
  text += "const double highest = " + literal(accepted.highest) + ";\n";
  std::string main_text = program_main;
  constexpr std::string_view mark = "@SHOW_INPUTS@";
  main_text.replace(main_text.find(mark), mark.size(), shows);
  return text + main_text;
}

}  // namespace opbound
