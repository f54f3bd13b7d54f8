#include "tools/command_files.hpp"

#include <algorithm>
#include <optional>

#include "reports/error.hpp"
#include "suites/suggest.hpp"
#include "suites/suite_case.hpp"
#include "suites/tensor_file.hpp"
#include "tools/command_case.hpp"

namespace opbound {
namespace {

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

const TensorSpec* tensor_named(const Op& op, std::string_view name) {
  for (const PassInfo* pass : {&op.forward, op.backward ? &*op.backward : nullptr})
    if (pass != nullptr)
      for (const TensorSpec& t : pass->tensors)
        if (t.name == name && t.role != Role::scratch) return &t;
  return nullptr;
}

/// Why a word of the command line names no tensor that a file is wanted for.
std::string why_not(const CaseSpec& spec, std::optional<std::string_view> name) {
  if (!name) return " is one file too many";
  if (tensor_named(*spec.op, *name) == nullptr) return " names no tensor";
  if (!spec.op->has_tensor(spec.attributes, *name))
    return ": " + std::string(*name) + " takes no part with these attributes";
  return ": " + std::string(*name) + " is none of them in direction " +
         std::string(name_of(spec.direction));
}

/// "--in m[n] in fp32 (attribute state_format)"
std::string place_of(const std::string& option, const CaseSpec& spec, const TensorSpec& tensor) {
  const std::string origin = format_origin(*spec.op, tensor);
  return option + " " + tensor_text(tensor) + " in " +
         std::string(name_of(tensor_element(spec, tensor))) +
         (origin == "always" ? "" : " (" + origin + ")");
}

template <class F>
void naming(const std::string& place, F action) {
  try {
    action();
  } catch (const InputError& e) {
    throw InputError(place, e.what());
  }
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
                       std::to_string(rank) + " axes or more");
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

  /// A size that no file tells is 1 where it is the length of single numbers, or of tensors that
  /// the attributes leave out.
  Sizes sizes(const AttributeBytes& attributes) const {
    Sizes all = sizes_;
    for (std::size_t d = 0; d < files_.size(); ++d) {
      if (!files_[d].empty()) continue;
      if (op_.dims[d] != "one" && !is_left_out(op_.dims[d], attributes))
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
  /// Is it an axis of tensors, all of which the attributes leave out?
  bool is_left_out(std::string_view dim, const AttributeBytes& attributes) const {
    bool is_axis = false;
    std::vector<TensorSpec> tensors(op_.forward.tensors.begin(), op_.forward.tensors.end());
    if (op_.backward)
      tensors.insert(tensors.end(), op_.backward->tensors.begin(), op_.backward->tensors.end());
    for (const TensorSpec& t : tensors) {
      if (std::find(t.dims.begin(), t.dims.end(), dim) == t.dims.end()) continue;
      if (op_.has_tensor(attributes, t.name)) return false;
      is_axis = true;
    }
    return is_axis;
  }

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

/// Indices as a file holds them, looked at once the sizes are known.
struct Indices {
  const TensorSpec* tensor;
  std::string path;
  Tensor values;
};

/// "[3, 17]"
std::string position(const Shape& shape, std::int64_t index) {
  std::string text;
  for (auto size = shape.rbegin(); size != shape.rend(); index /= *size++)
    text = std::to_string(index % *size) + (text.empty() ? "" : ", ") + text;
  return "[" + text + "]";
}

/// An index that the op gives no meaning is the user's mistake, not the kernel's.
void require_in_range(const CaseSpec& spec, const Indices& indices) {
  const TensorSpec& t = *indices.tensor;
  if (t.below.empty() || t.also == "any") return;
  const std::int64_t last = size_of(spec, t.below) - (t.also == "size" ? 0 : 1);
  std::optional<std::int64_t> other;
  for (const AttributeSpec& a : spec.op->attributes)
    if (a.name == t.also) other = std::get<std::int64_t>(a.get(spec.attributes));
  for (std::int64_t i = 0, n = indices.values.count(); i < n; ++i) {
    const std::int64_t index = indices.values.index_at(i);
    if ((index >= 0 && index <= last) || index == other) continue;
    std::string allowed = "0 to " + std::to_string(last);
    if (other)
      allowed += ", or " + std::to_string(*other) + " (attribute " + std::string(t.also) + ")";
    throw InputError(
        indices.path,
        "element " + position(indices.values.shape(), i) + " is " + std::to_string(index), allowed);
  }
}

}  // namespace

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

Files assign(const std::string& option, const std::vector<std::string>& texts, const CaseSpec& spec,
             const std::vector<const TensorSpec*>& tensors) {
  std::vector<std::string_view> names;
  for (const TensorSpec* t : tensors) names.push_back(t->name);
  std::vector<std::optional<InputSpec>> files(tensors.size());
  const auto put = [&](std::ptrdiff_t place, const std::string& text, const std::string& path) {
    const auto at = static_cast<std::size_t>(place);
    if (at >= files.size())
      throw InputError(option, "'" + text + "'" + why_not(spec, tensor_in(text)),
                       "TENSOR=FILE with " + detail::one_of(names));
    if (files[at]) throw InputError(option, std::string(names[at]) + " twice", "each once");
    files[at] = file_at(path);
  };
  for (const std::string& text : texts)
    if (const auto name = tensor_in(text))
      put(std::find(names.begin(), names.end(), *name) - names.begin(), text,
          text.substr(name->size() + 1));
  for (const std::string& text : texts)
    if (!tensor_in(text))
      put(std::find(files.begin(), files.end(), std::nullopt) - files.begin(), text, text);
  Files given;
  for (std::size_t t = 0; t < tensors.size(); ++t)
    if (files[t]) given.emplace_back(names[t], *files[t]);
  return given;
}

void take_files(CaseSpec& spec, const Files& results, const std::vector<std::string>& size_words) {
  SizesOfFiles sizes(*spec.op);
  std::vector<Indices> indices;
  const auto take = [&](const TensorSpec& tensor, const InputSpec& file,
                        const std::string& option) {
    naming(place_of(option, spec, tensor), [&] {
      Tensor read = read_tensor(file.path, {file.tensor, tensor_element(spec, tensor)});
      sizes.take(tensor, file, read.shape());
      if (tensor.role == Role::index) indices.push_back({&tensor, file.path, std::move(read)});
    });
  };
  const auto file_of = [](const Files& files, const TensorSpec& tensor) {
    return std::find_if(files.begin(), files.end(),
                        [&](const auto& f) { return f.first == tensor.name; });
  };
  Files inputs;
  for (const TensorSpec* tensor : read_tensors(spec)) {
    const auto found = file_of(spec.inputs, *tensor);
    if (found != spec.inputs.end()) {
      take(*tensor, found->second, "--in");
      inputs.push_back(*found);
    } else if (tensor->may_be_left_out) {
      inputs.emplace_back(tensor->name, InputSpec{"mask", {{"p", 0}}, {}, {}});
    } else {
      throw InputError(place_of("--in", spec, *tensor), "no file",
                       std::string(tensor->name) + "=FILE");
    }
  }
  for (const TensorSpec* tensor : written_tensors(spec))
    if (const auto found = file_of(results, *tensor); found != results.end())
      take(*tensor, found->second, "--out");
  spec.inputs = std::move(inputs);
  for (const std::string& word : size_words) sizes.take(word);
  spec.sizes = sizes.sizes(spec.attributes);
  for (const Indices& given : indices)
    naming(place_of("--in", spec, *given.tensor), [&] { require_in_range(spec, given); });
}

}  // namespace opbound
