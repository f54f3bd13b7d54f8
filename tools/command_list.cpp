// opbound list: what there is to check, and with what.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "reports/error.hpp"
#include "reports/table.hpp"
#include "reports/text.hpp"
#include "suites/input.hpp"
#include "suites/rerun.hpp"
#include "suites/suggest.hpp"
#include "tools/command_case.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options {
  std::string what, folder, precision;
  std::vector<std::string> attributes;
};

constexpr std::array<std::string_view, 6> whats{"ops",     "variants", "inputs",
                                                "formats", "suites",   "cases"};

std::string terminal(const Table& table) { return table.terminal(Terminal::of(1)); }

std::string role_text(Role role) {
  constexpr std::array<const char*, 6> words{"in", "index", "mask", "saved", "scratch", "out"};
  return words[static_cast<std::size_t>(role)];
}

/// "in x[rows, n]  out y[rows, n]"
std::string tensors_text(const PassInfo& pass) {
  std::string text;
  for (const TensorSpec& t : pass.tensors) {
    if (t.role == Role::scratch) continue;
    text.append(text.empty() ? "" : "   ").append(role_text(t.role)).append(" ");
    text += tensor_text(t);
  }
  return text;
}

/// A long line under a title, as the terminal's width allows.
std::string entry(const std::string& title, const std::string& text) {
  const std::size_t columns = Terminal::of(1).columns;
  std::string all, start = "\n  " + title;
  start.resize(std::max<std::size_t>(start.size(), 16), ' ');
  for (const std::string& line : wrapped(text, columns - (start.size() - 1))) {
    all += start + line;
    start = "\n" + std::string(start.size() - 1, ' ');
  }
  return all;
}

/// What one attribute may be: the words of its list, or true and false; no numbers.
std::vector<std::string> choices_of(const AttributeSpec& a) {
  constexpr std::string_view list = "one of ";
  if (a.expected == "true or false") return {"true", "false"};
  std::vector<std::string> words;
  if (!a.expected.starts_with(list)) return words;
  std::string_view left = std::string_view(a.expected).substr(list.size());
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(", "), left.size());
    words.emplace_back(left.substr(0, end));
    left.remove_prefix(std::min(end + 2, left.size()));
  }
  return words;
}

/// Of a variant that the defaults do not allow, the attributes one of which allows it.
std::string needs_text(const Op& op, int variant) {
  if (op.allows(op.default_attributes, variant)) return {};
  std::string text;
  for (const AttributeSpec& a : op.attributes)
    for (const std::string& word : choices_of(a)) {
      AttributeBytes changed = op.default_attributes;
      if (!a.set(changed, value_of(word)) || !op.allows(changed, variant)) continue;
      text.append(text.empty() ? "; needs " : " or ").append(a.name).append("=").append(word);
    }
  return text.empty() ? "; needs several attributes" : text;
}

std::string op_text(const Op& op) {
  std::string text(op.name), dims;
  for (const std::string_view d : op.dims) dims.append(dims.empty() ? "" : ", ").append(d);
  text += entry("math", std::string(op.math)) + entry("dimensions", dims);
  text += entry("forward", tensors_text(op.forward));
  if (op.backward) text += entry("backward", tensors_text(*op.backward));
  for (const AttributeSpec& a : op.attributes)
    text += entry("attribute", std::string(a.name) + ": " + std::string(a.expected) + "; " +
                                   text_of(a.get(op.default_attributes)) + " if not given");
  for (std::size_t v = 0; v < op.variants.size(); ++v)
    text += entry("variant", std::string(op.variants[v].name) + ": " +
                                 std::string(op.variants[v].formula) +
                                 needs_text(op, static_cast<int>(v)));
  return text + "\n";
}

std::string list_ops() {
  std::string text;
  for (const Op& op : all_ops()) text += (text.empty() ? "" : "\n") + op_text(op);
  return text;
}

/// What an index or a mask may hold.
std::string values_text(const TensorSpec& t) {
  if (t.may_be_left_out) return "may be left out: false";
  if (t.below.empty()) return {};
  std::string text("0 to ");
  text.append(t.below).append(t.also == "size" ? "" : " - 1");
  if (t.also == "any") return text + ", others mean nothing";
  return t.also.empty() || t.also == "size" ? text : text + ", or " + std::string(t.also);
}

/// An op with the format that each of its tensors has to have.
std::string list_tensors(const Op& op, const Options& options) {
  CaseSpec spec;
  spec.op = &op;
  spec.attributes = op.default_attributes;
  set_attributes(spec, options.attributes);
  spec.precision = read_precision(options.precision.empty() ? "fp32" : options.precision);
  const std::string precision = name_of(spec.precision);
  Table table({{.title = "pass"},
               {.title = "role"},
               {.title = "tensor"},
               {.title = "format in " + precision},
               {.title = "it is"},
               {.title = "values"}});
  const auto add = [&](const char* name, const PassInfo& pass) {
    table.add_rule();
    for (const TensorSpec& t : pass.tensors) {
      if (t.role == Role::scratch) continue;
      const bool is_there = op.has_tensor(spec.attributes, t.name);
      table.add_row({{name},
                     {role_text(t.role)},
                     {tensor_text(t)},
                     {is_there ? std::string(name_of(tensor_element(spec, t))) : "-"},
                     {is_there ? format_origin(op, t) : "absent with these attributes"},
                     {values_text(t)}});
    }
  };
  add("forward", op.forward);
  if (op.backward) add("backward", *op.backward);
  const std::string formats = std::string(name_of(spec.precision.storage)) + " storage, " +
                              std::string(name_of(spec.precision.compute)) + " compute, " +
                              std::string(name_of(spec.precision.output)) + " output";
  return op_text(op) + "\nPrecision " + precision + ": " + formats +
         ". int64 may be int32 in a file.\n" + terminal(table);
}

std::string list_variants() {
  Table table({{.title = "op"},
               {.title = "variant"},
               {.title = "default"},
               {.title = "formula", .least_width = 20}});
  for (const Op& op : all_ops()) {
    table.add_rule();
    for (const Variant& v : op.variants) {
      const bool is_default =
          &v == &op.variants[static_cast<std::size_t>(op.default_variant(op.default_attributes))];
      table.add_row({{std::string(op.name)},
                     {std::string(v.name)},
                     {is_default ? "yes" : ""},
                     {std::string(v.formula)}});
    }
  }
  return terminal(table);
}

std::string list_inputs() {
  Table table({{.title = "generator"},
               {.title = "parameters", .least_width = 14},
               {.title = "meaning", .least_width = 20}});
  for (const GeneratorInfo& g : all_generators())
    table.add_row({{std::string(g.kind)}, {std::string(g.parameters)}, {std::string(g.meaning)}});
  return terminal(table);
}

std::string list_formats() {
  Table table({{.title = "format"},
               {.title = "bits", .number = true},
               {.title = "significand bits", .number = true},
               {.title = "largest", .number = true},
               {.title = "smallest normal", .number = true},
               {.title = "smallest subnormal", .number = true},
               {.title = "overflow"}});
  constexpr std::array<const char*, 3> overflows{"infinity", "NaN", "largest"};
  for (const Format& f : all_formats)
    table.add_row({{std::string(name_of(f))},
                   {std::to_string(f.bits())},
                   {std::to_string(f.digits)},
                   {legible(f.largest())},
                   {legible(f.smallest_normal())},
                   {legible(f.smallest_subnormal())},
                   {overflows[static_cast<std::size_t>(f.overflow)]}});
  return terminal(table);
}

std::string list_suites(const std::string& folder) {
  Table table({{.title = "suite"},
               {.title = "quick cases", .number = true},
               {.title = "full adds", .number = true},
               {.title = "nightly adds", .number = true}});
  for (const std::string& file : suite_files(folder)) {
    std::array<std::uint64_t, 3> cases{};
    for (const CaseSpec& spec : read_suite(file).cases)
      ++cases[static_cast<std::size_t>(spec.tier)];
    table.add_row({{file},
                   {std::to_string(cases[0])},
                   {std::to_string(cases[1])},
                   {std::to_string(cases[2])}});
  }
  return terminal(table);
}

std::string list_cases(const std::string& folder) {
  std::string text;
  for (const std::string& file : suite_files(folder))
    for (const CaseSpec& spec : read_suite(file).cases)
      text += file + "  " + spec.name + ": " + identity(spec) + "\n";
  return text;
}

const Op* named_op(const std::string& name) {
  if (const Op* op = find_op(name)) return op;
  std::vector<std::string_view> known(whats.begin(), whats.end());
  for (const Op& op : all_ops()) known.push_back(op.name);
  throw InputError("list", "nothing is called " + detail::in_quotes_with_suggestion(name, known),
                   detail::one_of(known));
}

int list(const Options& options) {
  const bool is_known = options.what.empty() || std::ranges::count(whats, options.what) > 0;
  if (!is_known) {
    print(list_tensors(*named_op(options.what), options));
    return exit_clean;
  }
  if (!options.precision.empty() || !options.attributes.empty())
    throw InputError("list", "--precision and --attribute without an op", "the name of an op");
  const auto wanted = [&](const char* part) {
    return options.what.empty() || options.what == part;
  };
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "\n") + more; };
  if (wanted("ops")) add(list_ops());
  if (options.what == "variants") add(list_variants());
  if (wanted("inputs")) add(list_inputs());
  if (wanted("formats")) add(list_formats());
  if (options.what == "suites") add(list_suites(options.folder));
  if (options.what == "cases") add(list_cases(options.folder));
  print(text);
  return exit_clean;
}

}  // namespace

void add_list(CLI::App& program, Action& chosen) {
  CLI::App* command = program.add_subcommand(
      "list", "Ops, variants, inputs, formats, suites, cases; one op in full");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("what", options->what,
                   "ops, variants, inputs, formats, suites, cases, or the name of an op; "
                   "ops, inputs and formats if none is named")
      ->type_name("WHAT");
  command
      ->add_option("--precision", options->precision,
                   "With an op: what format each of its tensors then has; storage:compute:output")
      ->type_name("PRECISION");
  command->add_option("--attribute", options->attributes, "With an op: not its defaults")
      ->type_name("NAME=VALUE");
  command->add_option("--suites", options->folder, "Folder of suites")->type_name("FOLDER");
  command->callback([options, &chosen] { chosen = [options] { return list(*options); }; });
}

}  // namespace opbound
