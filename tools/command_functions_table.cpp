#include "tools/command_functions_table.hpp"

#include <algorithm>

#include "reference/cuda_functions.hpp"
#include "reports/text.hpp"

namespace opbound {
namespace {

/// The function that a record is of; nullptr for a conversion.
const CudaFunctionInfo* function_of(const Record& r) {
  const auto all = cuda_functions();
  const auto found = std::find_if(all.begin(), all.end(), [&](const CudaFunctionInfo& f) {
    return f.name == r.op && name_of(f.format) == r.precision;
  });
  return found == all.end() ? nullptr : &*found;
}

/// What it was judged by. A conversion's contract says what is right.
std::string documented(const Record& r) {
  constexpr std::string_view begin = "documented: ";
  if (r.contract.starts_with(begin)) return r.contract.substr(begin.size());
  return function_of(r) == nullptr ? r.contract : "";
}

std::string text_of(const std::optional<double>& x) { return x ? shortest(*x) : ""; }

std::vector<Cell> row_of(const Record& r) {
  const CudaFunctionInfo* f = function_of(r);
  const XlaError xla = f == nullptr ? XlaError{} : xla_error(f->computes, f->format);
  const bool has_input = r.worst && !r.worst->input.empty();
  const Colour colour = r.verdict == Verdict::within    ? Colour::good
                        : r.verdict == Verdict::vacuous ? Colour::plain
                                                        : Colour::bad;
  return {{r.op},
          {r.precision},
          {attributes_text(r.attributes)},
          {r.error_ulp_max ? legible(*r.error_ulp_max) : ""},
          {r.verdict == Verdict::vacuous ? "" : legible(r.counts.exceeds)},
          {has_input ? hexadecimal(r.worst->input[0].second) : ""},
          {documented(r)},
          {text_of(xla.measured)},
          {text_of(xla.allowed)},
          {r.verdict == Verdict::vacuous ? "" : std::string(name_of(r.verdict)), colour}};
}

/// Where the figures are from, and how ulps are counted.
constexpr std::string_view sources =
    "max ulp: from the exact value, on every input; of a double's conversion on its neighbours of\n"
    "the format's values and midpoints. documented: CUDA C++ Programming Guide, from the rounded\n"
    "value. XLA: from the exact value on an H100 and a B200, subnormal numbers taken as 0\n"
    "(docs/accuracy.md of jax-ml/jax, reviewed 2026-09-18). XLA's tests: allowed from the rounded\n"
    "value at chosen inputs (xla/codegen/intrinsic/accuracy/accuracy_budget.h of openxla/xla).\n";

}  // namespace

std::string functions_table(std::span<const Record> records, const TableOptions& options) {
  Table table({{.title = "function"},
               {.title = "format"},
               {.title = "attributes"},
               {.title = "max ulp", .number = true},
               {.title = "wrong", .number = true},
               {.title = "worst or first wrong x", .least_width = 12, .dispensable = 2},
               {.title = "documented", .least_width = 12, .dispensable = 1},
               {.title = "XLA", .number = true},
               {.title = "XLA's tests", .number = true, .dispensable = 3},
               {.title = "verdict"}});
  for (const Record& r : records)
    if (r.counts.checked > 0) table.add_row(row_of(r));
  const bool is_markdown = options.style == TableStyle::markdown;
  return (is_markdown ? table.markdown() : table.terminal(options.terminal)) + "\n" +
         std::string(sources) + "\n";
}

}  // namespace opbound
