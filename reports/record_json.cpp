// Records as lines of JSON. `fields` lists each struct's fields once; writing and reading walk the
// same list, so neither can know a field that the other does not.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <type_traits>

#include "reports/error.hpp"
#include "reports/record.hpp"

namespace opbound {
namespace {

using Json = nlohmann::ordered_json;

/// S or const S: reading and writing share the lists below.
template <class T, class S>
concept Is = std::is_same_v<std::remove_const_t<T>, S>;

// ---- the fields, in the order of the schema
//
// v.always: present in every record. v.field: left out when it does not apply. v.exact: a number
// written in hexadecimal.

template <class V, Is<Record> R>
void fields(V& v, R& r) {
  v.always("kind", r.kind);
  v.always("op", r.op);
  v.field("part", r.part);
  v.field("direction", r.direction);
  v.field("variant", r.variant);
  v.field("precision", r.precision);
  v.field("attributes", r.attributes);
  v.field("provider", r.provider);
  v.field("provider_version", r.provider_version);
  v.field("contract", r.contract);
  v.field("device", r.device);
  v.field("environment", r.environment);
  v.field("case", r.inputs);
  v.always("verdict", r.verdict);
  v.field("allowed_vacuous", r.allowed_vacuous);
  v.field("counts", r.counts);
  v.field("ratio", r.ratio);
  v.field("acceptable_mean", r.acceptable_mean);
  v.field("acceptable_max", r.acceptable_max);
  v.field("error_ulp_max", r.error_ulp_max);
  v.field("error_ulp_mean", r.error_ulp_mean);
  v.field("bias_ulp", r.bias_ulp);
  v.field("bias_z", r.bias_z);
  v.field("p_value", r.p_value);
  v.field("alpha", r.alpha);
  v.field("ulp_histogram", r.ulp_histogram);
  v.field("rounding_share", r.rounding_share);
  v.field("method_share", r.method_share);
  v.field("bound_source", r.bound_source);
  v.field("worst", r.worst);
  v.field("blocks", r.blocks);
  v.field("rungs", r.rungs);
  v.field("nonfinite_mismatch", r.nonfinite_mismatch);
  v.field("output_hash", r.output_hash);
  v.field("in_situ", r.in_situ);
  v.field("ranks", r.ranks);
  v.field("schedule", r.schedule);
  v.field("suite", r.suite);
  v.field("commit", r.commit);
  v.field("time_ms", r.time_ms);
  v.field("reason", r.reason);
}

template <class V, Is<Case> C>
void fields(V& v, C& c) {
  v.field("shape", c.shape);
  v.field("input", c.input);
  v.field("seed", c.seed);
}

template <class V, Is<ElementCounts> C>
void fields(V& v, C& c) {
  v.always("within", c.within);
  v.always("exceeds", c.exceeds);
  v.always("undecided", c.undecided);
  v.always("vacuous", c.vacuous);
  v.always("checked", c.checked);
}

template <class V, Is<Worst> W>
void fields(V& v, W& w) {
  v.always("index", w.index);
  v.exact("input", w.input);
  v.exact("got", w.got);
  v.exact("low", w.low);
  v.exact("high", w.high);
  v.exact("bound", w.bound);
}

template <class V, Is<BlockCounts> B>
void fields(V& v, B& b) {
  v.always("total", b.total);
  v.always("certified", b.certified);
}

template <class V, Is<Rungs> R>
void fields(V& v, R& r) {
  v.always("fp64", r.fp64);
  v.always("dd", r.dd);
  v.always("mpfr", r.mpfr);
}

template <class V, Is<InSitu> S>
void fields(V& v, S& s) {
  v.always("step", s.step);
  v.always("rank", s.rank);
  v.always("layer", s.layer);
  v.always("call", s.call);
}

bool is_number_word(std::string_view s) { return s == "inf" || s == "-inf" || s == "nan"; }

// ---- writing

bool absent(const std::string& s) { return s.empty(); }
bool absent(const Case& c) { return c == Case{}; }
bool absent(const ElementCounts& c) { return c == ElementCounts{}; }
bool absent(const UlpHistogram& h) { return h.counts.empty(); }
template <class T>
bool absent(const std::optional<T>& o) {
  return !o.has_value();
}
template <class T>
bool absent(const Named<T>& list) {
  return list.empty();
}

class Writer {
 public:
  explicit Writer(Json& to) : to_(to) {}

  template <class T>
  void always(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, std::string>)
      if (value.empty()) throw std::logic_error(std::string("record without '") + name + "'");
    to_[name] = encode(value);
  }
  template <class T>
  void field(const char* name, const T& value) {
    if (!absent(value)) to_[name] = encode(value);
  }
  void exact(const char* name, double value) { to_[name] = hexadecimal(value); }
  void exact(const char* name, const Named<double>& values) {
    Named<std::string> texts;
    for (const auto& [key, value] : values) texts.emplace_back(key, hexadecimal(value));
    field(name, texts);
  }

 private:
  static Json encode(double x) { return std::isfinite(x) ? Json(x) : Json(hexadecimal(x)); }
  static Json encode(bool b) { return b; }
  static Json encode(std::int64_t i) { return i; }
  static Json encode(std::uint64_t i) { return i; }
  static Json encode(const std::string& s) { return s; }
  static Json encode(CheckKind k) { return name_of(k); }
  static Json encode(Verdict v) { return name_of(v); }
  static Json encode(const UlpHistogram& h) {
    if (h.counts.back() == 0 || h.counts.size() > UlpHistogram::most_entries)
      throw std::logic_error("malformed ulp_histogram");
    return h.counts;
  }
  static Json encode(const AttributeValue& value) {
    if (const auto* s = std::get_if<std::string>(&value); s != nullptr && is_number_word(*s))
      throw std::logic_error("attribute '" + *s + "' is a number, not a word");
    return std::visit([](const auto& v) { return encode(v); }, value);
  }
  template <class T>
  static Json encode(const std::optional<T>& o) {
    return encode(*o);
  }
  template <class T>
  static Json encode(const Named<T>& list) {
    Json object = Json::object();
    for (const auto& [name, value] : list) {
      if (object.contains(name)) throw std::logic_error("'" + name + "' stands twice in a record");
      object[name] = encode(value);
    }
    return object;
  }
  template <class S>
  static Json encode(const S& s) requires requires(Writer w) {
    fields(w, s);
  }
  {
    Json object = Json::object();
    Writer inner(object);
    fields(inner, s);
    return object;
  }

  Json& to_;
};

// ---- reading

struct Place {
  std::string_view file;
  long line;

  [[noreturn]] void refuse(const std::string& what, std::string_view expected) const {
    throw InputError(file, line, what, expected);
  }
};

class Reader {
 public:
  Reader(const Json& from, std::string prefix, Place place)
      : from_(from), prefix_(std::move(prefix)), place_(place) {}

  template <class T>
  void always(const char* name, T& value) {
    if (!from_.contains(name)) place_.refuse("no field '" + prefix_ + name + "'", "one");
    field(name, value);
  }
  template <class T>
  void field(const char* name, T& value) {
    known_.insert(name);
    const auto found = from_.find(name);
    if (found == from_.end()) return;
    decode(*found, value, prefix_ + name);
    if constexpr (std::is_same_v<T, std::string>)
      if (value.empty()) wrong(*found, prefix_ + name, "text, or no field");
  }
  void exact(const char* name, double& value) {
    std::string text;
    always(name, text);
    value = from_hexadecimal(text, prefix_ + name);
  }
  void exact(const char* name, Named<double>& values) {
    Named<std::string> texts;
    field(name, texts);
    for (const auto& [key, text] : texts)
      values.emplace_back(key, from_hexadecimal(text, prefix_ + name + "." + key));
  }

  /// To be called last: refuses what no field was read from.
  void refuse_unknown() const {
    for (const auto& [name, value] : from_.items())
      if (!known_.contains(name))
        place_.refuse("unknown field '" + prefix_ + name + "'", "a field of schema 1");
  }

 private:
  [[noreturn]] void wrong(const Json& json, const std::string& path,
                          std::string_view expected) const {
    constexpr std::size_t most_shown = 40;
    std::string shown = json.dump(-1, ' ', true);
    if (shown.size() > most_shown) shown = shown.substr(0, most_shown) + "...";
    place_.refuse("'" + path + "' is " + shown, expected);
  }

  double from_hexadecimal(const std::string& text, const std::string& path) const {
    const std::optional<double> x = parse_hexadecimal(text);
    if (!x) wrong(text, path, "a hexadecimal number such as \"0x1.8p+1\"");
    return *x;
  }

  void decode(const Json& json, std::string& to, const std::string& path) const {
    if (!json.is_string()) wrong(json, path, "a string");
    to = json.get<std::string>();
  }
  void decode(const Json& json, double& to, const std::string& path) const {
    if (json.is_number())
      to = json.get<double>();
    else if (json.is_string() && is_number_word(json.get_ref<const std::string&>()))
      to = *parse_hexadecimal(json.get_ref<const std::string&>());
    else
      wrong(json, path, "a number");
  }
  void decode(const Json& json, std::uint64_t& to, const std::string& path) const {
    if (!json.is_number_unsigned()) wrong(json, path, "an integer from 0 to 2^64 - 1");
    to = json.get<std::uint64_t>();
  }
  void decode(const Json& json, std::int64_t& to, const std::string& path) const {
    constexpr auto largest = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    const bool beyond = json.is_number_unsigned() && json.get<std::uint64_t>() > largest;
    if (!json.is_number_integer() || beyond) wrong(json, path, "an integer of 64 bits");
    to = json.get<std::int64_t>();
  }
  void decode(const Json& json, CheckKind& to, const std::string& path) const {
    for (const CheckKind k : all_check_kinds)
      if (json == name_of(k)) return void(to = k);
    wrong(json, path, "bound, exact, statistical, trajectory or agreement");
  }
  void decode(const Json& json, Verdict& to, const std::string& path) const {
    const auto v = json.is_string() ? verdict_named(json.get_ref<const std::string&>())
                                    : std::optional<Verdict>{};
    if (!v) wrong(json, path, "failed, exceeds, undecided, vacuous, skipped or within");
    to = *v;
  }
  void decode(const Json& json, UlpHistogram& to, const std::string& path) const {
    if (!json.is_array() || json.empty() || json.size() > UlpHistogram::most_entries)
      wrong(json, path, "a list of 1 to 64 counts");
    to.counts.resize(json.size());
    for (std::size_t i = 0; i < json.size(); ++i)
      decode(json[i], to.counts[i], path + "[" + std::to_string(i) + "]");
    if (to.counts.back() == 0) wrong(json, path, "a list without zeros at its end");
  }
  void decode(const Json& json, AttributeValue& to, const std::string& path) const {
    if (json.is_boolean()) {
      to = json.get<bool>();
    } else if (json.is_number_integer()) {
      decode(json, to.emplace<std::int64_t>(), path);
    } else if (json.is_string() && !is_number_word(json.get_ref<const std::string&>())) {
      to = json.get<std::string>();
    } else {
      decode(json, to.emplace<double>(), path);
    }
  }
  template <class T>
  void decode(const Json& json, std::optional<T>& to, const std::string& path) const {
    decode(json, to.emplace(), path);
  }
  template <class T>
  void decode(const Json& json, Named<T>& to, const std::string& path) const {
    if (!json.is_object() || json.empty()) wrong(json, path, "an object that is not empty");
    for (const auto& [name, value] : json.items())
      decode(value, to.emplace_back(name, T{}).second, path + "." + name);
  }
  template <class S>
  void decode(const Json& json, S& to, const std::string& path) const requires requires(Reader r) {
    fields(r, to);
  }
  {
    if (!json.is_object() || json.empty()) wrong(json, path, "an object that is not empty");
    Reader inner(json, path + ".", place_);
    fields(inner, to);
    inner.refuse_unknown();
  }

  const Json& from_;
  std::string prefix_;
  Place place_;
  std::set<std::string, std::less<>> known_;
};

/// Parses one value; refuses doubled names, which JSON leaves undefined, and deep nesting.
Json parse(std::string_view text, const Place& place) {
  constexpr int deepest = 4;  // a record needs 3
  std::vector<std::set<std::string>> names;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > deepest) place.refuse("nested too deeply", "a record of schema 1");
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second)
      place.refuse("field '" + parsed.get<std::string>() + "' stands twice", "it once");
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::parse_error& e) {
    place.refuse("not JSON at byte " + std::to_string(e.byte), "one record in each line");
  } catch (const Json::exception&) {
    place.refuse("a number beyond the range of fp64", "a record of schema 1");
  }
}

}  // namespace

std::string to_json(const Record& record) {
  if (const std::string what = contradiction(record); !what.empty()) throw std::logic_error(what);
  Json json = Json::object();
  json["schema"] = record_schema;
  Writer writer(json);
  fields(writer, record);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Record from_json(std::string_view text, std::string_view file, long line) {
  const Place place{file, line};
  const Json json = parse(text, place);
  if (!json.is_object()) place.refuse("not a JSON object", "a record of schema 1");
  Reader reader(json, "", place);
  std::int64_t schema = 0;
  reader.always("schema", schema);
  if (schema != record_schema) place.refuse("schema " + std::to_string(schema), "1");
  Record record;
  fields(reader, record);
  reader.refuse_unknown();
  if (const std::string what = contradiction(record); !what.empty())
    place.refuse(what, "a record that agrees with itself");
  return record;
}

}  // namespace opbound
