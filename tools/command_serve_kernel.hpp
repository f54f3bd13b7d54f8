// Providers of `opbound serve`: a kernel that runs at the other end of the connection, and tensors
// that one has read and written already.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/provider.hpp"
#include "ops/providers/plugin_description.hpp"
#include "tools/command_files.hpp"
#include "tools/python/library/wire.hpp"

namespace opbound {

/// What a request says of a provider. InputError where it says what opbound does not know.
detail::Description described(const wire::Json& request);

/// Runs calls at the other end. Its memory is guarded as a plug-in's: what writes outside of its
/// tensors, or into an input, has failed. `run` throws std::runtime_error when the end is gone.
std::unique_ptr<Provider> remote_provider(detail::Description about, int socket,
                                          wire::Memory& memory);

/// The outputs as files hold them.
std::unique_ptr<Provider> given_provider(detail::Description about, Files outputs);

}  // namespace opbound
