// What a policy may name, and whether its tables go together.
#pragma once

#include <span>
#include <string_view>

#include "distributed/train/policy.hpp"
#include "ops/op.hpp"

namespace opbound::train {

/// The ops that a policy may have rules for, those of forward and backward pass and those of the
/// update. What a cast converts between follows from them: a rule says whose it is, and only one
/// that names it.
inline constexpr std::string_view cast_part = "cast";
std::span<const std::string_view> ops_of_model();
std::span<const std::string_view> ops_of_update();
/// Those of the model that the MLP calls.
std::span<const std::string_view> ops_of_mlp();

bool is_of_update(std::string_view op);

/// The op behind a part: of "head" matmul, of "mlp:gelu" gelu, of
/// "gradient_sum" residual.
std::string_view op_of(std::string_view part);

/// Throws InputError with the place of the table where an op has no kernel for what it would get.
void require_possible(const Policy& policy);

}  // namespace opbound::train
