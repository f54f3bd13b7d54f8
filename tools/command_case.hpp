// Words of a command line that choose what is checked: op, precision, attributes, variants.
#pragma once

#include <string>
#include <vector>

#include "suites/suite.hpp"

namespace CLI {
class App;
}

namespace opbound {

/// What a command line says of one case.
struct CaseWords {
  std::string op, precision, direction = "forward";
  std::vector<std::string> attributes, variants;
};

/// --precision, --direction, --attribute and --variant.
void add_case_options(CLI::App& command, CaseWords& words);

/// Everything of the case but sizes and inputs. InputError that says which option is wrong;
/// `where` names the one that gives the op.
CaseSpec read_case(const std::string& where, const CaseWords& words);

/// The op of this name. InputError that begins with `where` for any other.
const Op* read_op(const std::string& where, const std::string& name);

/// storage:compute:output or one format.
Precision read_precision(const std::string& text);

/// true, 3, 0.5, or a word.
AttributeValue value_of(const std::string& word);

/// "approximate=tanh", each attribute once.
void set_attributes(CaseSpec& spec, const std::vector<std::string>& texts);

/// The named variants, or all that the attributes allow: the kernel is one of them.
std::vector<int> read_variants(const CaseSpec& spec, const std::vector<std::string>& named);

/// "scores[queries, keys]"
std::string tensor_text(const TensorSpec& tensor);

/// Where the format of a tensor comes from: "the storage format", "attribute state_format",
/// "always".
std::string format_origin(const Op& op, const TensorSpec& tensor);

}  // namespace opbound
