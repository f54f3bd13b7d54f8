#include "distributed/train/weights.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "distributed/train/checkpoint.hpp"
#include "suites/safetensors.hpp"
#include "suites/suggest.hpp"
#include "suites/tensor_file.hpp"

namespace opbound::train {
namespace {

constexpr std::string_view prefix = "transformer.";
constexpr std::string_view table = "wte.weight";
constexpr std::string_view head = "lm_head.weight";

std::string_view without_prefix(std::string_view name) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

bool is_mask(std::string_view name) {
  return name.starts_with("h.") &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

std::string tensor_text(const SafetensorsEntry& entry) {
  return "tensor " + detail::in_quotes(entry.name);
}

Tensor rounded(const Tensor& values, const Format& format) {
  if (values.element() == element_of(format)) return values;
  Tensor result(format, values.shape());
  for (std::int64_t i = 0, n = values.count(); i < n; ++i) result.set(i, values.at(i));
  return result;
}

Tensor read_parameter(SafetensorsFile& file, const SafetensorsEntry& entry, const Shape& shape,
                      const Format& format) {
  if (entry.shape != shape)
    file.file().refuse(tensor_text(entry) + ": shape " + detail::text_of(entry.shape),
                       detail::text_of(shape) + " for this model");
  const Tensor values = file.read(entry);
  if (!is_float(values.element()))
    file.file().refuse(tensor_text(entry) + ": holds " + std::string(name_of(values.element())),
                       "floating-point numbers");
  return rounded(values, format);
}

/// Tied weights are one tensor, which other programs may have written twice.
void require_tied(SafetensorsFile& file, const SafetensorsEntry& entry, const Shape& shape,
                  const Format& format, const std::map<std::string, Tensor>& read) {
  const Tensor values = read_parameter(file, entry, shape, format);
  const auto tied = read.find(std::string(table));
  if (tied == read.end() || !std::ranges::equal(values.bytes(), tied->second.bytes()))
    file.file().refuse(tensor_text(entry) + ": differs from " + detail::in_quotes(table),
                       "the same, since this model ties its head");
}

/// The rest of a checkpoint are moments.
std::map<std::string, Tensor> parameters_in(const Checkpoint& checkpoint, const std::string& where,
                                            const std::vector<ParameterSpec>& parameters,
                                            const Format& format) {
  std::map<std::string, Tensor> read;
  for (const ParameterSpec& p : parameters) {
    const auto found = checkpoint.tensors.find(p.name);
    const std::string expected = detail::text_of(p.shape) + " for this model";
    if (found == checkpoint.tensors.end())
      throw InputError(where, "no tensor " + detail::in_quotes(p.name), expected);
    if (found->second.shape() != p.shape)
      throw InputError(where,
                       "tensor " + detail::in_quotes(p.name) + ": shape " +
                           detail::text_of(found->second.shape()),
                       expected);
    read.emplace(p.name, rounded(found->second, format));
  }
  return read;
}

Checkpoint newest_in(const std::filesystem::path& folder) {
  std::vector<std::string> refused;
  std::optional<Checkpoint> found = CheckpointFolder(folder).newest(refused);
  if (found) return std::move(*found);
  if (!refused.empty()) throw InputError(refused.front());
  throw InputError(folder.string(), "no checkpoint in this folder", "one of a training run");
}

/// A file of something else is not told of by what its header would be alone.
SafetensorsFile opened(const std::filesystem::path& path) {
  try {
    return SafetensorsFile(path);
  } catch (const InputError& e) {
    const std::string words = e.what(), place = path.string() + ": ";
    const std::size_t begin = words.starts_with(place) ? place.size() : 0;
    throw InputError(path.string(),
                     "no weights (" + words.substr(begin, words.find(", expected ") - begin) + ")",
                     "a .safetensors file of parameters under GPT-2's names, a checkpoint, or a "
                     "folder of them");
  }
}

std::map<std::string, Tensor> weights_in(SafetensorsFile& file, const ModelSpec& m,
                                         const std::vector<ParameterSpec>& parameters,
                                         const Format& format) {
  std::map<std::string_view, const ParameterSpec*> known;
  std::vector<std::string_view> names;
  for (const ParameterSpec& p : parameters) {
    known[p.name] = &p;
    names.push_back(p.name);
  }

  std::map<std::string, Tensor> read;
  const SafetensorsEntry* second_head = nullptr;
  for (const SafetensorsEntry& entry : file.entries()) {
    const std::string_view name = without_prefix(entry.name);
    if (const auto found = known.find(name); found != known.end()) {
      if (read.contains(std::string(name)))
        file.file().refuse(tensor_text(entry) + ": there twice, with and without 'transformer.'",
                           "each parameter once");
      read.emplace(name, read_parameter(file, entry, found->second->shape, format));
    } else if (m.tied_head && name == head) {
      second_head = &entry;
    } else if (!is_mask(name)) {
      file.file().refuse("tensor " + detail::in_quotes_with_suggestion(entry.name, names) +
                             ": no parameter of this model",
                         std::to_string(names.size()) + " parameters of " + m.name);
    }
  }
  for (const ParameterSpec& p : parameters)
    if (!read.contains(p.name))
      file.file().refuse("no tensor " + detail::in_quotes(p.name),
                         "one of shape " + detail::text_of(p.shape));
  if (second_head != nullptr)
    require_tied(file, *second_head, known.at(table)->shape, format, read);
  return read;
}

}  // namespace

std::map<std::string, Tensor> read_weights(const std::filesystem::path& path, const ModelSpec& m,
                                           const Format& format) {
  const std::vector<ParameterSpec> parameters = parameters_of(m);
  std::error_code ignored;  // what cannot be looked at cannot be opened either
  if (std::filesystem::is_directory(path, ignored))
    return parameters_in(newest_in(path), path.string(), parameters, format);
  SafetensorsFile file = opened(path);
  if (is_checkpoint(path))
    return parameters_in(read_checkpoint(path), path.string(), parameters, format);
  return weights_in(file, m, parameters, format);
}

void write_weights(const std::filesystem::path& path, const ModelSpec& m,
                   const std::map<std::string, Tensor>& tensors) {
  std::map<std::string, Tensor> written;
  for (const ParameterSpec& p : parameters_of(m)) {
    const auto found = tensors.find(p.name);
    detail::require(found != tensors.end() && found->second.shape() == p.shape,
                    "a parameter of the model is written");
    written.emplace(p.name, found->second);
  }
  write_safetensors(path, written);
}

}  // namespace opbound::train
