// opbound check: judges a user's tensors, as a kernel of the op gave them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "reports/error.hpp"
#include "reports/history.hpp"
#include "reports/table.hpp"
#include "reports/text.hpp"
#include "suites/run.hpp"
#include "suites/stored.hpp"
#include "tools/command_case.hpp"
#include "tools/command_files.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options : CaseWords {
  std::string order = "any", functions = "cuda", record;
  std::vector<std::string> in, out, sizes;
};

/// "y[3, 17]": an element by its place in the op's dimensions.
std::string element_name(const CaseSpec& spec, const Record& record) {
  const auto& tensors = spec.op->pass(spec.direction).tensors;
  const TensorSpec& tensor = *std::find_if(
      tensors.begin(), tensors.end(), [&](const TensorSpec& t) { return t.name == record.part; });
  auto index = static_cast<std::int64_t>(record.worst->index);
  std::string place;
  for (int axis = tensor.rank() - 1; axis >= 0; --axis) {
    const auto d = std::find(spec.op->dims.begin(), spec.op->dims.end(),
                             tensor.dims[static_cast<std::size_t>(axis)]) -
                   spec.op->dims.begin();
    const std::int64_t size = spec.sizes[static_cast<std::size_t>(d)];
    place = std::to_string(index % size) + (place.empty() ? "" : ", ") + place;
    index /= size;
  }
  return record.part + "[" + place + "]";
}

/// The worst element in three lines.
std::string worst_text(const CaseSpec& spec, const Record& record) {
  const Worst& w = *record.worst;
  const auto both = [](double x) { return shortest(x) + " (" + hexadecimal(x) + ")"; };
  std::string text = element_name(spec, record);
  text += record.counts.exceeds > 0 ? " exceeds its bound: " : " is the worst element: ";
  text += "error / bound = " + (record.ratio ? legible(*record.ratio) : std::string("unknown"));
  text += " (element " + std::to_string(w.index) + " of the file)\n ";
  for (const auto& [name, value] : w.input) text += " " + name + " = " + both(value);
  text += "  got " + both(w.got) + "\n  exact in [" + hexadecimal(w.low) + ", " +
          hexadecimal(w.high) + "], near " + shortest(w.low) + "; bound " + shortest(w.bound) +
          "\n";
  return text;
}

int check(const Options& options) {
  CaseSpec spec = read_case("--op", options);
  StoredOrder order = read_order(options.order);
  spec.inputs = assign("--in", options.in, spec, read_tensors(spec));
  const Files results = assign("--out", options.out, spec, written_tensors(spec));
  take_files(spec, results, options.sizes);
  if (order.order == Contract::Order::tree) require_fit(order.revealed, order.file, spec);

  std::optional<RecordWriter> writer;
  if (!options.record.empty()) writer.emplace(options.record);
  const auto provider =
      stored_provider(results, std::move(order),
                      options.functions == "cuda" ? cuda_function_errors : exact_function_errors);
  std::vector<Record> records = run_case(spec, *provider);
  std::erase_if(records, [&](const Record& r) {
    return std::none_of(results.begin(), results.end(),
                        [&](const auto& file) { return file.first == r.part; });
  });
  std::string worst;
  for (const Record& record : records) {
    if (record.worst) worst += "\n" + worst_text(spec, record);
    if (writer) writer->write(record);
  }
  if (writer) writer->close();
  print(error_table(records, {TableStyle::terminal, false, Terminal::of(1)}) + worst);
  return summary_of(records).exit_code();
}

}  // namespace

void add_check(CLI::App& program, Action& chosen) {
  CLI::App* command =
      program.add_subcommand("check", "Judge the outputs of your own kernel, kept in files");
  const auto o = std::make_shared<Options>();
  const auto list = [&](const char* name, std::vector<std::string>& to, const char* what) {
    return command->add_option(name, to, what);
  };
  command->add_option("--op", o->op, "The op, as `opbound list ops` names it")->required();
  list("--in", o->in,
       "Inputs, .npy or .safetensors; by name, or in the op's order; several after one --in, or "
       "--in again. `opbound list OP` says which, and in what formats")
      ->type_name("[TENSOR=]FILE[:NAME]")
      ->required();
  list("--out", o->out, "Outputs of your kernel, in the same way")
      ->type_name("[TENSOR=]FILE[:NAME]")
      ->required();
  add_case_options(*command, *o);
  list("--size", o->sizes, "Sizes that no tensor has")->type_name("NAME=SIZE");
  command
      ->add_option("--order", o->order,
                   "Order of sums: any, that of opbound's own kernel (own), or the one in a file "
                   "that `opbound reveal --out` wrote")
      ->type_name("any|own|FILE.json")
      ->capture_default_str();
  command
      ->add_option("--functions", o->functions,
                   "Accuracy of exp, erf, ...: as CUDA documents, or correctly rounded")
      ->check(CLI::IsMember({"cuda", "exact"}))
      ->capture_default_str();
  command->add_option("--record", o->record, "Append the records to this file")
      ->type_name("FILE.jsonl");
  command->callback([o, &chosen] { chosen = [o] { return check(*o); }; });
}

}  // namespace opbound
