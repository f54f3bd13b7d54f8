// What somebody's kernel gave, kept in files, as a provider.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/provider.hpp"
#include "suites/reveal_file.hpp"
#include "suites/suite.hpp"

namespace opbound {

/// The order in which the kernel adds.
struct StoredOrder {
  Contract::Order order = Contract::Order::any;
  OrderFile revealed{};  ///< for Order::tree
  std::string file;      ///< that holds it; records name it
};

/// "any", "own", or the file of a revealed order. InputError as read_order_file.
StoredOrder read_order(const std::string& text);

/// What records call that file in their environment.
inline constexpr std::string_view order_file = "revealed order";

/// Outputs by name and the file that holds each; what the kernel kept to is known from elsewhere.
/// Records name the files in their environment. `run` throws InputError for a file that does not
/// fit the call.
std::unique_ptr<Provider> stored_provider(std::vector<std::pair<std::string, InputSpec>> outputs,
                                          StoredOrder order, const FunctionErrors& functions);

/// The name of such providers in records.
inline constexpr std::string_view stored_provider_name = "file";

}  // namespace opbound
