// opbound check: judges a user's tensors, as a kernel of the op gave them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <optional>

#include "reports/history.hpp"
#include "reports/table.hpp"
#include "reports/text.hpp"
#include "suites/error.hpp"
#include "suites/run.hpp"
#include "suites/stored.hpp"
#include "suites/suggest.hpp"
#include "suites/suite_case.hpp"
#include "suites/tensor_file.hpp"
#include "tools/command_line.hpp"
#include "tools/commands.hpp"

namespace opbound {
namespace {

struct Options {
  std::string op, precision, direction = "forward", order = "any", functions = "cuda", record;
  std::vector<std::string> in, out, attributes, sizes, variants;
};

using Files = std::vector<std::pair<std::string, InputSpec>>;

/// "x.npy", "x.safetensors:name"
InputSpec file_at(const std::string& text) {
  constexpr std::string_view mark = ".safetensors:";
  InputSpec file{"file", {}, text, {}};
  if (const std::size_t at = text.find(mark); at != std::string::npos) {
    file.path = text.substr(0, at + mark.size() - 1);
    file.tensor = text.substr(at + mark.size());
  }
  return file;
}

/// "y=y.npy": the tensor's name, or nothing where a path stands alone.
std::optional<std::string_view> tensor_in(std::string_view text) {
  const std::size_t sign = text.find('=');
  const bool is_name = sign != std::string_view::npos &&
                       text.substr(0, sign).find_first_of("/.\\") == std::string_view::npos;
  return is_name ? std::optional(text.substr(0, sign)) : std::nullopt;
}

/// The file of every tensor, in the op's order; a path alone goes to the first that has none.
Files assign(const std::string& option, const std::vector<std::string>& texts,
             const std::vector<std::string_view>& tensors) {
  std::vector<std::optional<InputSpec>> files(tensors.size());
  const auto put = [&](std::size_t at, const std::string& text, const std::string& path) {
    if (at >= tensors.size())
      throw InputError(option, "'" + text + "'", "TENSOR=FILE with " + detail::one_of(tensors));
    if (files[at]) throw InputError(option, std::string(tensors[at]) + " twice", "each once");
    files[at] = file_at(path);
  };
  for (const std::string& text : texts)
    if (const auto name = tensor_in(text)) {
      const auto at = std::find(tensors.begin(), tensors.end(), *name) - tensors.begin();
      put(static_cast<std::size_t>(at), text, text.substr(name->size() + 1));
    }
  for (const std::string& text : texts)
    if (!tensor_in(text)) {
      const auto at = std::find(files.begin(), files.end(), std::nullopt) - files.begin();
      put(static_cast<std::size_t>(at), text, text);
    }
  Files given;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (files[t]) given.emplace_back(tensors[t], *files[t]);
  return given;
}

/// What a direction reads from outside: the saved tensors too where it does not make them itself.
std::vector<const TensorSpec*> read_tensors(const CaseSpec& spec) {
  const Op& op = *spec.op;
  const Direction direction = spec.direction;
  std::vector<const TensorSpec*> tensors;
  const auto add = [&](const PassInfo& pass, bool saved) {
    for (const TensorSpec& t : pass.tensors) {
      const bool is_new =
          std::none_of(tensors.begin(), tensors.end(),
                       [&](const TensorSpec* known) { return known->name == t.name; });
      if (is_new && !t.is_written() && (saved || t.role != Role::saved) &&
          op.has_tensor(spec.attributes, t.name))
        tensors.push_back(&t);
    }
  };
  if (direction != Direction::backward_local) add(op.forward, false);
  if (direction != Direction::forward) add(*op.backward, direction == Direction::backward_local);
  return tensors;
}

std::vector<const TensorSpec*> written_tensors(const CaseSpec& spec) {
  std::vector<const TensorSpec*> tensors;
  for (const TensorSpec& t : spec.op->pass(spec.direction).tensors)
    if (t.is_judged() && spec.op->has_tensor(spec.attributes, t.name)) tensors.push_back(&t);
  return tensors;
}

std::vector<std::string_view> names_of(const std::vector<const TensorSpec*>& tensors) {
  std::vector<std::string_view> names;
  for (const TensorSpec* t : tensors) names.push_back(t->name);
  return names;
}

AttributeValue value_of(const std::string& word) {
  if (word == "true" || word == "false") return word == "true";
  std::int64_t whole = 0;
  double number = 0;
  const char* end = word.data() + word.size();
  if (std::from_chars(word.data(), end, whole).ptr == end) return whole;
  if (std::from_chars(word.data(), end, number).ptr == end) return number;
  return word;
}

/// The sizes of the op's dimensions as the files' shapes have them.
class SizesOfFiles {
 public:
  explicit SizesOfFiles(const Op& op) : op_(op), files_(op.dims.size()) {}

  void take(const TensorSpec& tensor, const InputSpec& file, Shape shape) {
    if (shape.empty()) shape = {1};  // a scalar
    const auto rank = static_cast<std::size_t>(tensor.rank());
    if (shape.size() < rank || rank == 0)
      throw InputError(file.path, "a tensor of shape " + detail::text_of(shape),
                       std::to_string(rank) + " axes or more for " + std::string(tensor.name));
    for (const auto& [dims, path, known] : shapes_)
      if (dims == tensor.dims && known != shape)
        throw InputError(file.path, "a tensor of shape " + detail::text_of(shape),
                         detail::text_of(known) + " as in " + path);
    shapes_.push_back({tensor.dims, file.path, shape});
    const std::size_t merged = shape.size() - rank;  // leading axes that become one
    for (std::size_t axis = 0; axis < rank; ++axis) {
      std::int64_t size = shape[axis + merged];
      for (std::size_t k = 0; axis == 0 && k < merged; ++k) size *= shape[k];
      set(tensor.dims[axis], size, file.path);
    }
  }

  /// "pairs=4", of a size that no file tells.
  void take(const std::string& option) {
    const std::size_t sign = std::min(option.find('='), option.size());
    const std::string name = option.substr(0, sign);
    const AttributeValue value = value_of(option.substr(std::min(sign + 1, option.size())));
    const auto* size = std::get_if<std::int64_t>(&value);
    if (std::find(op_.dims.begin(), op_.dims.end(), name) == op_.dims.end() || size == nullptr)
      throw InputError("--size", "'" + option + "'",
                       "NAME=SIZE with " + detail::one_of({op_.dims.begin(), op_.dims.end()}));
    set(name, *size, "--size");
  }

  /// A size that no file tells is 1 only where it is the length of single numbers.
  Sizes sizes(const AttributeBytes& attributes) const {
    Sizes all = sizes_;
    for (std::size_t d = 0; d < files_.size(); ++d) {
      if (!files_[d].empty()) continue;
      if (op_.dims[d] != "one")
        throw InputError("--in", "no file tells the size " + std::string(op_.dims[d]),
                         "--size " + std::string(op_.dims[d]) + "=SIZE");
      all[d] = 1;
    }
    const std::string_view wanted = op_.refuses(attributes, all);
    if (!wanted.empty())
      throw InputError("--in", "attributes and sizes that do not fit", std::string(wanted));
    return all;
  }

 private:
  void set(std::string_view dim, std::int64_t size, const std::string& path) {
    const auto d = static_cast<std::size_t>(std::find(op_.dims.begin(), op_.dims.end(), dim) -
                                            op_.dims.begin());
    const auto is = [&](std::int64_t n) { return std::string(dim) + " = " + std::to_string(n); };
    if (size < 1 || size > detail::most_elements)
      throw InputError(path, is(size), "1 to " + std::to_string(detail::most_elements));
    if (!files_[d].empty() && sizes_[d] != size)
      throw InputError(path, is(size), is(sizes_[d]) + " as in " + files_[d]);
    sizes_[d] = size;
    files_[d] = path;
  }

  struct Known {
    std::array<std::string_view, max_axes> dims;
    std::string path;
    Shape shape;
  };
  const Op& op_;
  Sizes sizes_{};
  std::vector<std::string> files_;
  std::vector<Known> shapes_;
};

Precision read_precision(const std::string& text) {
  const std::optional<Precision> precision = precision_named(text);
  if (!precision)
    throw InputError("--precision", "'" + text + "'",
                     "storage:compute:output or one format, of fp64 fp32 tf32 bf16 fp16 e4m3 e5m2");
  if (!detail::has_kernel(precision->compute))
    throw InputError("--precision",
                     "no kernel computes in " + std::string(name_of(precision->compute)),
                     "one of fp64, fp32, bf16, fp16");
  return *precision;
}

/// "approximate=tanh"
void set_attribute(CaseSpec& spec, const std::string& text) {
  std::vector<std::string_view> names;
  for (const AttributeSpec& a : spec.op->attributes) names.push_back(a.name);
  const std::size_t sign = std::min(text.find('='), text.size());
  const auto at = std::find(names.begin(), names.end(), text.substr(0, sign)) - names.begin();
  if (at == std::ssize(names) || sign == text.size())
    throw InputError("--attribute", "'" + text + "'",
                     names.empty() ? "none" : "NAME=VALUE with " + detail::one_of(names));
  const AttributeSpec& attribute = spec.op->attributes[static_cast<std::size_t>(at)];
  if (!attribute.set(spec.attributes, value_of(text.substr(sign + 1))))
    throw InputError("--attribute", "'" + text + "'", attribute.expected);
}

/// The named variants, or all that the attributes allow: the kernel is one of them.
std::vector<int> read_variants(const CaseSpec& spec, const std::vector<std::string>& named) {
  std::vector<int> variants;
  std::vector<std::string_view> allowed;
  for (std::size_t v = 0; v < spec.op->variants.size(); ++v) {
    const std::string_view name = spec.op->variants[v].name;
    if (!spec.op->allows(spec.attributes, static_cast<int>(v))) continue;
    allowed.push_back(name);
    if (named.empty() || std::find(named.begin(), named.end(), name) != named.end())
      variants.push_back(static_cast<int>(v));
  }
  for (const std::string& name : named)
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end())
      throw InputError("--variant",
                       "variant " + detail::in_quotes_with_suggestion(name, allowed) +
                           " is unknown or not allowed by the attributes",
                       detail::one_of(allowed));
  return variants;
}

/// Everything of the case but sizes and inputs.
CaseSpec read_case(const Options& options) {
  std::vector<std::string_view> known;
  for (const Op& op : all_ops()) known.push_back(op.name);
  CaseSpec spec;
  spec.op = find_op(options.op);
  if (spec.op == nullptr)
    throw InputError("--op", "unknown op " + detail::in_quotes_with_suggestion(options.op, known),
                     detail::one_of(known));
  spec.direction = static_cast<Direction>(
      std::find(direction_names.begin(), direction_names.end(), options.direction) -
      direction_names.begin());
  if (spec.direction != Direction::forward && !spec.op->backward)
    throw InputError("--direction", options.op + " has no backward pass", "forward");
  spec.precision = read_precision(options.precision);
  const std::string_view wanted = spec.op->refuses_storage(spec.precision.storage);
  if (!wanted.empty())
    throw InputError("--precision",
                     options.op + " of " + std::string(name_of(spec.precision.storage)),
                     std::string(wanted));
  spec.attributes = spec.op->default_attributes;
  for (const std::string& text : options.attributes) set_attribute(spec, text);
  spec.declared = read_variants(spec, options.variants);
  spec.variant = spec.declared.front();
  return spec;
}

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
  CaseSpec spec = read_case(options);
  const std::vector<const TensorSpec*> inputs = read_tensors(spec);
  const std::vector<const TensorSpec*> outputs = written_tensors(spec);
  spec.inputs = assign("--in", options.in, names_of(inputs));
  const Files results = assign("--out", options.out, names_of(outputs));
  SizesOfFiles sizes(*spec.op);
  const auto take = [&](const std::vector<const TensorSpec*>& tensors, const Files& files,
                        const std::string& option, bool all) {
    for (const TensorSpec* tensor : tensors) {
      const auto found = std::find_if(files.begin(), files.end(),
                                      [&](const auto& f) { return f.first == tensor->name; });
      if (found == files.end() && all)
        throw InputError(option, "no file for " + std::string(tensor->name), "TENSOR=FILE");
      if (found == files.end()) continue;
      const Element element = tensor_element(spec, *tensor);
      const InputSpec& file = found->second;
      sizes.take(*tensor, file, read_tensor(file.path, {file.tensor, element}).shape());
    }
  };
  take(inputs, spec.inputs, "--in", true);
  take(outputs, results, "--out", false);
  for (const std::string& text : options.sizes) sizes.take(text);
  spec.sizes = sizes.sizes(spec.attributes);

  std::optional<RecordWriter> writer;
  if (!options.record.empty()) writer.emplace(options.record);
  const auto provider =
      stored_provider(results, options.order == "own" ? Contract::Order::own : Contract::Order::any,
                      options.functions == "cuda" ? cuda_function_errors : exact_function_errors);
  std::vector<Record> records = run_case(spec, *provider);
  std::erase_if(records, [&](const Record& r) {
    return std::none_of(results.begin(), results.end(),
                        [&](const auto& file) { return file.first == r.part; });
  });
  std::string worst;
  for (Record& record : records) {
    record.variant = record.contract.substr(0, record.contract.find(','));
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
    return command->add_option(name, to, what)->allow_extra_args(false);
  };
  command->add_option("--op", o->op, "The op, as `opbound list ops` names it")->required();
  command
      ->add_option("--precision", o->precision,
                   "storage:compute:output, such as bf16:fp32:bf16; one format if all agree")
      ->required();
  list("--in", o->in, "An input, .npy or .safetensors; by name, or in the op's order")
      ->type_name("[TENSOR=]FILE[:NAME]")
      ->required();
  list("--out", o->out, "An output of your kernel, in the same way")
      ->type_name("[TENSOR=]FILE[:NAME]")
      ->required();
  command->add_option("--direction", o->direction, "Which pass gave the outputs")
      ->check(CLI::IsMember({"forward", "backward_local", "backward_full"}))
      ->capture_default_str();
  list("--attribute", o->attributes, "An attribute of the op that is not its default")
      ->type_name("NAME=VALUE");
  list("--size", o->sizes, "A size that no tensor has")->type_name("NAME=SIZE");
  list("--variant", o->variants,
       "The algorithm, if known; else the bound is that of any that the attributes allow")
      ->type_name("NAME");
  command->add_option("--order", o->order, "Order of sums: any, or that of opbound's own kernel")
      ->check(CLI::IsMember({"any", "own"}))
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
