// What a record says in words, and the small types it is made of.
#include "reports/record.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "ops/format.hpp"
#include "ops/op.hpp"
#include "ops/precision.hpp"
#include "reports/text.hpp"

namespace opbound {

std::string text_of(const AttributeValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value)) return shortest(*number);
  return std::get<std::string>(value);
}

std::string attributes_text(const Named<AttributeValue>& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes)
    text += (text.empty() ? "" : " ") + name + "=" + text_of(value);
  return text;
}

std::string contradiction(const Record& r) {
  const ElementCounts& c = r.counts;
  const auto sum = static_cast<unsigned __int128>(c.within) + c.exceeds + c.undecided + c.vacuous;
  if (sum > c.checked) return "counts add up to more than 'checked'";
  if (r.kind == CheckKind::bound && sum != c.checked) return "counts do not add up to 'checked'";
  if (c.exceeds > 0 && r.verdict > Verdict::exceeds)
    return "'" + std::string(name_of(r.verdict)) + "' although elements exceed";
  if (c.undecided > 0 && r.verdict > Verdict::undecided)
    return "'" + std::string(name_of(r.verdict)) + "' although elements are undecided";
  if (r.ratio && !(*r.ratio >= 0)) return "'ratio' is not at least 0";
  if (r.p_value && !(*r.p_value >= 0 && *r.p_value <= 1)) return "'p_value' is not in [0, 1]";
  if (r.blocks && r.blocks->certified > r.blocks->total)
    return "more blocks certified than there are";
  return {};
}

std::string hexadecimal(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  std::array<char, 32> digits{};  // 1.fffffffffffffp-1022 has 22
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), std::abs(x),
                                 std::chars_format::hex);
  return (std::signbit(x) ? "-0x" : "0x") + std::string(digits.data(), end.ptr);
}

std::optional<double> parse_hexadecimal(std::string_view text) {
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  double magnitude = std::numeric_limits<double>::infinity();
  if (text != "inf") {
    if (!text.starts_with("0x") || text.size() < 3 || text[2] == '-') return std::nullopt;
    text.remove_prefix(2);
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), magnitude, std::chars_format::hex);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    if (!std::isfinite(magnitude)) return std::nullopt;
  }
  return negative ? -magnitude : magnitude;
}

namespace {

/// What the judged output is stored in: the precision's output, or what an attribute says of that
/// tensor ("stream" of a residual connection), of its gradient too.
Format stored_in(const Record& r, const Precision& precision) {
  const Op* op = find_op(r.op);
  if (op == nullptr) return precision.output;
  for (const TensorSpec& t : op->forward.tensors) {
    if (r.part != t.name && r.part != "d" + std::string(t.name)) continue;
    for (const auto& [name, value] : r.attributes)
      if (name == t.element)
        if (const auto* word = std::get_if<std::string>(&value))
          return format_named(*word).value_or(precision.output);
  }
  return precision.output;
}

/// The last rounding of a stored output, or nothing where rule (A) has none: where the output
/// format is the compute format, or the precision is not written in the usual way.
std::optional<Format> store_rounding(const Record& r) {
  const std::optional<Precision> precision = precision_named(r.precision);
  if (!precision) return std::nullopt;
  Format output = stored_in(r, *precision);
  if (!store_rounds(precision->compute, output)) return std::nullopt;
  output.overflow = Overflow::to_infinity;  // overflow of e4m3 is judged as an infinity
  return output;
}

std::string both(double x) { return shortest(x) + " (" + hexadecimal(x) + ")"; }

/// An interval with its ends; computed in fp64, so the last digits may be off.
std::string interval(const std::optional<Format>& store, double from, double to) {
  const auto end = [&](double x) { return shortest(store ? round_to(*store, x) : x); };
  return "[" + end(from) + ", " + end(to) + "]";
}

/// How the worst element's numbers lead to the verdict, by rule (A).
std::string why(const Record& r, const Worst& w) {
  if (r.precision.ends_with("fp64"))  // their distance to exact is far below what fp64 can show
    return "  fp64 outputs are judged by got - exact, enclosed by itself; low and high are that\n"
           "  enclosure rounded outward.\n";
  const std::optional<Format> store = store_rounding(r);
  const auto rounded = [&](const std::string& x) { return store ? "RN(" + x + ")" : x; };
  const std::string sure = "[" + rounded("high - bound") + ", " + rounded("low + bound") +
                           "] = " + interval(store, w.high - w.bound, w.low + w.bound);
  const std::string possible = "[" + rounded("low - bound") + ", " + rounded("high + bound") +
                               "] = " + interval(store, w.low - w.bound, w.high + w.bound);
  std::string text = "  exact lies in [low, high]; before the store got may be off by bound";
  text += store ? ";\n  RN is the store's rounding to " + std::string(name_of(*store)) + ".\n"
                : ",\n  which contains the last rounding.\n";
  if (std::isinf(w.bound))
    return text + "  The bound is infinite: every value of got would pass.\n";
  if (r.counts.exceeds > 0)
    return text + "  got lies outside " + possible +
           ",\n  wherever exact is: it exceeds its bound" +
           (std::isfinite(w.got) ? "" : " (NaN or infinite where no such value is accepted)") +
           ".\n";
  if (r.counts.undecided > 0)
    return text + "  got lies in " + possible + "\n  but not in " + sure +
           ":\n  whether it is within depends on where in [low, high] exact is.\n";
  return text + "  got lies in " + sure + ",\n  wherever exact is: it is within its bound.\n";
}

/// The sentence that the verdict stands for.
std::string meaning(const Record& r) {
  const auto of_checked = [&](std::uint64_t n) {
    return std::to_string(n) + " of " + std::to_string(r.counts.checked) + " elements";
  };
  switch (r.verdict) {
    case Verdict::failed:
      return "the check could not be carried out";
    case Verdict::skipped:
      return "what the check needs is absent here";
    case Verdict::undecided:
      return "the reference could not tell for " + of_checked(r.counts.undecided);
    case Verdict::vacuous:
      return "the bound says nothing for " + of_checked(r.counts.vacuous) +
             (r.allowed_vacuous.empty() ? "" : "; allowed by the suite: " + r.allowed_vacuous);
    case Verdict::exceeds:
      if (r.kind == CheckKind::statistical && r.p_value && r.alpha)
        return "p_value " + shortest(*r.p_value) + " is below alpha " + shortest(*r.alpha);
      return of_checked(r.counts.exceeds) + (r.kind == CheckKind::bound
                                                 ? " have an error larger than the bound"
                                                 : " break the claim");
    case Verdict::within:
      break;
  }
  if (r.kind == CheckKind::statistical && r.p_value && r.alpha)
    return "p_value " + shortest(*r.p_value) + " is not below alpha " + shortest(*r.alpha);
  if (r.kind != CheckKind::bound) return "the claim holds";
  std::string text = "the error is within the bound for " + of_checked(r.counts.within);
  if (r.counts.vacuous > 0)
    text += ", and the bound says nothing for " + of_checked(r.counts.vacuous);
  return text;
}

/// One field in a line, an object's members in lines of their own.
void print_field(std::string& to, const std::string& name, const nlohmann::ordered_json& value) {
  constexpr std::size_t column = 22;
  if (value.is_object()) {
    for (const auto& [member, inner] : value.items()) print_field(to, name + "." + member, inner);
    return;
  }
  std::string label = "  " + name;
  label.resize(std::max(label.size() + 2, column + 2), ' ');
  to += printable(label + (value.is_string() ? value.get<std::string>() : value.dump()), true);
  to += "\n";
}

std::string print_worst(const Record& r, const Worst& w) {
  std::string text = "\nworst element, number " + std::to_string(w.index) + " of the output";
  if (r.ratio && std::isfinite(*r.ratio))
    text += "; it would just pass with " + shortest(*r.ratio) + " times its bound";
  else if (r.ratio)
    text += "; no multiple of its bound would let it pass";
  text += "\n";
  const auto line = [&](const std::string& name, double x) { print_field(text, name, both(x)); };
  for (const auto& [name, value] : w.input) line("input " + name, value);
  const bool no_infinity = r.precision.ends_with(name_of(e4m3));
  print_field(text, "got",
              both(w.got) + (no_infinity && std::isinf(w.got) ? ", stored as NaN" : ""));
  line("low", w.low);
  line("high", w.high);
  line("bound", w.bound);
  return r.kind == CheckKind::bound ? text + why(r, w) : text;
}

}  // namespace

std::string print_record(const Record& record) {
  auto json = nlohmann::ordered_json::parse(to_json(record));
  std::string text = record.op;
  for (const std::string* part :
       {&record.part, &record.direction, &record.variant, &record.precision})
    if (!part->empty()) text += " " + *part;
  text += ": " + std::string(name_of(record.verdict));
  text = printable(text, true) + "\n  " + printable(meaning(record), true) + "\n";
  if (record.worst) text += print_worst(record, *record.worst);
  json.erase("worst");
  text += "\nfields\n";
  for (const auto& [name, value] : json.items()) print_field(text, name, value);
  return text;
}

}  // namespace opbound
