// One check, as it is kept: what was run, on what, how it was judged, and the numbers behind the
// verdict. One record is one line of a JSON Lines file (schema 1); reports are made from records
// only. reports/README.md explains every field.
//
// A text that does not apply is empty here and absent in JSON; so is an empty list, and `counts`
// when nothing was counted. A number that does not apply is an empty optional, never a made-up 0.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bounds/ulp_histogram.hpp"
#include "bounds/verdict.hpp"
#include "ops/attribute.hpp"

namespace opbound {

inline constexpr int record_schema = 1;

/// An ordered list of name and value; names are unique.
template <class T>
using Named = std::vector<std::pair<std::string, T>>;

/// "true", "3", "0.5", or the word.
std::string text_of(const AttributeValue& value);

/// "eps=1e-05 affine=true", in their order.
std::string attributes_text(const Named<AttributeValue>& attributes);

/// What kind of claim a check tests.
enum class CheckKind : std::uint8_t {
  bound,        ///< every element's error against its bound
  exact,        ///< equal bits
  statistical,  ///< a test statistic: p_value against alpha
  trajectory,   ///< state carried along many steps
  agreement     ///< ranks, batches, runs or devices against each other
};

inline constexpr std::array<CheckKind, 5> all_check_kinds{
    CheckKind::bound, CheckKind::exact, CheckKind::statistical, CheckKind::trajectory,
    CheckKind::agreement};

constexpr std::string_view name_of(CheckKind k) {
  constexpr std::array<std::string_view, 5> names{"bound", "exact", "statistical", "trajectory",
                                                  "agreement"};
  return names[static_cast<std::size_t>(k)];
}

/// What was fed in, so that the inputs can be made again.
struct Case {
  Named<std::int64_t> shape;  ///< the op's dimensions in its own order: {{"rows", 64}, {"n", 1024}}
  std::string input;          ///< the generator with its parameters, or the file
  std::optional<std::uint64_t> seed;

  bool operator==(const Case&) const = default;
};

/// Elements by the verdict that each would get alone; an element counts once, for the worst of
/// them. Their sum is at most `checked`, and equals it in checks of kind `bound`.
struct ElementCounts {
  std::uint64_t within = 0;
  std::uint64_t exceeds = 0;
  std::uint64_t undecided = 0;
  std::uint64_t vacuous = 0;
  std::uint64_t checked = 0;

  bool operator==(const ElementCounts&) const = default;
};

/// The element with the largest ratio.
struct Worst {
  std::uint64_t index = 0;  ///< in the output tensor, row-major
  Named<double> input;      ///< the inputs that this element depends on, where they are few
  double got = 0;           ///< the stored value under test
  double low = 0;           ///< the exact value lies in [low, high]
  double high = 0;
  double bound = 0;  ///< bound of |got - exact| before the store rounding, in units of the output
};

/// Independent groups of outputs: how many there are, and how many the reference certified.
struct BlockCounts {
  std::uint64_t total = 0;
  std::uint64_t certified = 0;

  bool operator==(const BlockCounts&) const = default;
};

/// Elements by the reference that decided them.
struct Rungs {
  std::uint64_t fp64 = 0;  ///< plain fp64 with a running bound
  std::uint64_t dd = 0;    ///< double-double with a running bound
  std::uint64_t mpfr = 0;  ///< intervals over MPFR

  bool operator==(const Rungs&) const = default;
};

/// Where in a training run the call was made.
struct InSitu {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::int64_t layer = 0;
  std::int64_t call = 0;

  bool operator==(const InSitu&) const = default;
};

/// Field names are those of the JSON. Only `op` has to be filled in.
struct Record {
  CheckKind kind = CheckKind::bound;
  std::string op;         ///< "softmax"
  std::string part;       ///< block family or output: "y", "dx"
  std::string direction;  ///< "forward", "backward_local", "backward_full"
  std::string variant;    ///< the algorithm under test: "erfc", "two_pass"
  std::string precision;  ///< storage:compute:output, "bf16:fp32:bf16"; one name when all agree
  Named<AttributeValue> attributes;  ///< no word may be "inf", "-inf" or "nan": these are numbers
  std::string provider;              ///< whose kernel
  std::string provider_version;
  std::string contract;            ///< what the provider declares: algorithm, order, inner formats
  std::string device;              ///< "cpu", "NVIDIA H200"
  Named<std::string> environment;  ///< compiler, driver, libraries, flags
  Case inputs;                     ///< the field `case`
  Verdict verdict = Verdict::within;
  std::string allowed_vacuous;  ///< the suite's reason for allowing `vacuous` here
  ElementCounts counts;
  std::optional<double> ratio;            ///< largest error over its bound; may be infinite
  std::optional<double> acceptable_mean;  ///< stored values that would have passed, per element
  std::optional<double> acceptable_max;
  std::optional<double> error_ulp_max;  ///< against the exact value, ulp of the output format
  std::optional<double> error_ulp_mean;
  std::optional<double> bias_ulp;  ///< mean of the signed error
  std::optional<double> bias_z;    ///< that mean over its standard error
  std::optional<double> p_value;
  std::optional<double> alpha;
  UlpHistogram ulp_histogram;
  std::optional<double> rounding_share;  ///< part of the error that rounding makes, in [0, 1]
  std::optional<double> method_share;    ///< part that the algorithm makes without any rounding
  std::string bound_source;              ///< "tracked, any order", or the theorem's name
  std::optional<Worst> worst;
  std::optional<BlockCounts> blocks;
  std::optional<Rungs> rungs;
  std::optional<std::uint64_t> nonfinite_mismatch;  ///< elements: NaN or inf against the reference
  std::string output_hash;                          ///< of the output's bytes, NaN canonical
  std::optional<InSitu> in_situ;
  std::optional<std::int64_t> ranks;
  std::string schedule;
  std::string suite;   ///< the suite's file
  std::string commit;  ///< of opbound
  std::optional<double> time_ms;
  std::string reason;  ///< why it failed, was skipped or stayed undecided
};

/// How a record whose fields are each well formed contradicts itself; empty if it does not.
std::string contradiction(const Record& record);

/// The record as one line of JSON without the newline: fields in a fixed order, equal records give
/// equal bytes. Values of `worst` are hexadecimal strings ("0x1.8p+1"), other numbers have enough
/// digits to be read back exactly; non-finite numbers are "inf", "-inf", "nan" in both.
/// Bytes that are not UTF-8 become U+FFFD. Throws std::logic_error for a record that from_json
/// would refuse.
std::string to_json(const Record& record);

/// The record of one line. Throws InputError, naming `file` and `line`, for anything but schema 1:
/// an unknown, missing or doubled field, a wrong type, counts that contradict the verdict.
Record from_json(std::string_view text, std::string_view file = "record", long line = 1);

/// The record for a reader: every field, the worst element in decimal and in hexadecimal, and how
/// the verdict follows from its numbers. Ends with a newline.
std::string print_record(const Record& record);

/// x in hexadecimal ("-0x1.8p+1", "inf", "-inf", "nan"); exact.
std::string hexadecimal(double x);

/// The number that `hexadecimal` wrote, or nothing.
std::optional<double> parse_hexadecimal(std::string_view text);

}  // namespace opbound
