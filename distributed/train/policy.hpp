// In which formats, by which algorithm and by whom a training run computes: read from TOML.
// suites/training/README.md describes the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "distributed/train/model.hpp"
#include "ops/attribute.hpp"
#include "ops/precision.hpp"

namespace opbound::train {

/// How an op computes. Inputs that are stored otherwise are cast first, by the op `cast`.
struct OpRule {
  Precision precision{};
  std::optional<Format> gradient;  ///< what the gradient of its output is cast to; none: it is not
  std::string variant;             ///< empty: the op's first
  std::string provider;            ///< empty: own
  std::vector<std::pair<std::string, AttributeValue>> attributes;  ///< e.g. p_format of attention

  bool operator==(const OpRule&) const = default;
};

/// What is told of a rule by one table; what is not told stays.
struct OpRuleChange {
  std::vector<int> layers;  ///< empty: all, and what belongs to no layer
  std::string op;  ///< empty: every op of the model. "head": the matmul of the logits; "mlp": the
                   ///< ops of the MLP; "mlp:gelu": that one of them
  std::optional<Precision> precision;
  std::optional<Format> gradient;
  std::optional<std::string> variant, provider;
  std::vector<std::pair<std::string, AttributeValue>> attributes;
  std::string where;  ///< file and line, for messages
};

enum class LossScale : std::uint8_t { none, fixed, dynamic };
enum class Checkpointing : std::uint8_t { none, attention, all };

inline constexpr std::array<std::string_view, 3> loss_scale_names{"none", "fixed", "dynamic"};
inline constexpr std::array<std::string_view, 3> checkpointing_names{"none", "attention", "all"};

struct Policy {
  std::string name;
  std::vector<OpRuleChange> rules;  ///< later ones win

  Format master = fp32;     ///< weights and moments of the optimizer
  bool stochastic = false;  ///< master weights are stored with stochastic rounding
  Format gradient = fp32;   ///< of weights, and of their sum over micro-batches
  Format reduction = fp32;  ///< on the wire between ranks
  /// Every node of the sum over micro-batches stands in one tree, whatever the number of ranks.
  bool reproducible_sum = false;

  LossScale loss_scale = LossScale::none;
  double initial_scale = 65536;
  double growth_factor = 2, backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;

  double dropout = 0;
  Checkpointing checkpointing = Checkpointing::none;
  Format stored_input = fp32;  ///< of a checkpointed segment

  /// `part`: the op's name, "head" or "mlp:" and the op's name; layer -1: of no layer.
  ///
  /// Where no table says otherwise, an op of the model computes in fp32; one of the update
  /// (unscale, accumulate, global_norm, clip, adamw, loss_scaler) takes and gives what `gradient`
  /// names and computes in fp32, or in fp64 where that or `master` is fp64. A table without an op
  /// is of the model only.
  OpRule rule(std::string_view part, int layer) const;

  /// File and line of the table that says whose kernel a part gets; empty where none does.
  std::string place_of_provider(std::string_view part, int layer) const;
};

/// A ready policy by name, a file suites/training/policies/<name>.toml, or a TOML file, whose name
/// has a dot or a slash. Throws InputError with file, line and what was expected, also where an op
/// has no kernel in the precision or of the variant that it would get.
Policy read_policy(const std::string& name_or_file);

/// The names of the ready ones.
std::vector<std::string> ready_policies();
/// Those of them that need no plug-in: they compute everywhere.
std::vector<std::string> own_policies();

/// Throws InputError, saying `where`, if the policy does not go with the model: a layer that it
/// does not have, a variant of another activation.
void require_fits(const Policy& policy, const ModelSpec& model, const std::string& where);

}  // namespace opbound::train
