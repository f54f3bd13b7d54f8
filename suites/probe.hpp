// Single elements under the magnifying glass: what `opbound explain` shows of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bounds/judge.hpp"
#include "suites/run.hpp"

namespace opbound {

/// Place of the output named `part` in the pass's tensor list; InputError if there is none.
std::size_t place_of_output(const CaseSpec& spec, std::string_view part);

/// Do elements depend on inputs of their own place only?
bool is_elementwise(const CaseSpec& spec, std::size_t place);

/// One element of an output with everything that judges it.
struct Probed {
  std::int64_t index = 0;
  double got = 0;
  Exact exact;
  Exact without_rounding;  ///< what the kernel's algorithm gives in real numbers
  double bound = 0;
  Judgement judgement;
};

/// The elements of the block to which element `index` of output `place` belongs, after the provider
/// has run; the reference has 300 bits.
std::vector<Probed> probe_block(const CaseSpec& spec, const Prepared& prepared,
                                const Contract& contract, std::size_t place, std::int64_t index);

/// An elementwise case at the inputs of element `index` and with its first input at up to `reach`
/// stored values below and above; the provider runs it.
struct Neighbourhood {
  std::string_view input;      ///< whose values these are
  std::vector<double> values;  ///< ascending
  std::vector<Probed> elements;
};
Neighbourhood probe_neighbours(const CaseSpec& spec, const Prepared& prepared,
                               const Provider& provider, std::size_t place, std::int64_t index,
                               int reach);

/// got - exact in units of the last place of `format` around exact, in the two parts that make it:
/// got - without_rounding and without_rounding - exact. NaN where one is no number.
struct ErrorSplit {
  double total_ulp = 0, rounding_ulp = 0, method_ulp = 0;
};
ErrorSplit split_error(const Probed& element, const Format& format);

/// A format's finite values as consecutive whole numbers, 0 (of both signs) being 0.
std::int64_t ordinal_of(const Format& format, double value);
double value_of(const Format& format, std::int64_t ordinal);

/// The numbers that do not exceed when stored, lowest to highest; none where lowest > highest,
/// which means that an overflow is wanted. Where exact is no number, both are it.
struct Accepted {
  double lowest = 0, highest = 0;
};
Accepted accepted_values(const Exact& exact, double bound, const Store& store);

}  // namespace opbound
