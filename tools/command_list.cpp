// opbound list: what there is to check, and with what.
#include <CLI/CLI.hpp>
#include <array>

#include "reports/table.hpp"
#include "reports/text.hpp"
#include "suites/input.hpp"
#include "suites/rerun.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options {
  std::string what, folder;
};

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
    text.append(text.empty() ? "" : "   ").append(role_text(t.role)).append(" ").append(t.name);
    for (int axis = 0; axis < t.rank(); ++axis)
      text.append(axis == 0 ? "[" : ", ").append(t.dims[static_cast<std::size_t>(axis)]);
    text += t.rank() > 0 ? "]" : "";
  }
  return text;
}

std::string default_of(const Op& op, const AttributeSpec& a) {
  const AttributeValue value = a.get(op.default_attributes);
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  return shortest(std::get<double>(value));
}

std::string list_ops() {
  std::string text;
  for (const Op& op : all_ops()) {
    text.append(text.empty() ? "" : "\n").append(op.name).append("\n  ").append(op.math);
    text += "\n  dimensions   ";
    for (const std::string_view d : op.dims) text.append(d).append(d == op.dims.back() ? "" : ", ");
    text += "\n  forward      " + tensors_text(op.forward);
    if (op.backward) text += "\n  backward     " + tensors_text(*op.backward);
    for (const AttributeSpec& a : op.attributes)
      text.append("\n  attribute    ")
          .append(a.name)
          .append(": ")
          .append(a.expected)
          .append("; " + default_of(op, a) + " if not given");
    for (const Variant& v : op.variants)
      text.append("\n  variant      ").append(v.name).append(": ").append(v.formula);
    text += "\n";
  }
  return text;
}

std::string list_variants() {
  Table table({{.title = "op"}, {.title = "variant"}, {.title = "default"}, {.title = "formula"}});
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
  Table table({{.title = "generator"}, {.title = "parameters"}, {.title = "meaning"}});
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

int list(const Options& options) {
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
  CLI::App* command =
      program.add_subcommand("list", "Ops, variants, inputs, formats, suites, cases");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("what", options->what,
                   "ops, variants, inputs, formats, suites or cases; "
                   "ops, inputs and formats if none is named")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"ops", "variants", "inputs", "formats", "suites", "cases"}));
  command->add_option("--suites", options->folder, "Folder of suites")->type_name("FOLDER");
  command->callback([options, &chosen] { chosen = [options] { return list(*options); }; });
}

}  // namespace opbound
