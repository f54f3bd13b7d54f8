// What decides numbers on a machine: processor, floating-point mode, compiler, libraries, driver,
// and the variables that libraries read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/record.hpp"

namespace opbound {

struct EnvironmentFact {
  std::string topic;  ///< "processor", "floating point", "build", "libraries", "gpu", "variables"
  std::string name, value;

  bool operator==(const EnvironmentFact&) const = default;
};

/// The facts of this process, in a fixed order; what is not here has the value "not found", a
/// variable that is not set "not set". `own` is what records of this program's provider say.
/// Libraries are asked for their versions if the loader finds them; nothing is run on a GPU.
std::vector<EnvironmentFact> environment_facts(const Named<std::string>& own);

/// One JSON object:
/// {"schema":1,"kind":"environment","fingerprint":...,"facts":{topic:{name:value}}}
std::string environment_json(const std::vector<EnvironmentFact>& facts);

/// 16 hexadecimal digits that are the same where all facts are.
std::string environment_fingerprint(const std::vector<EnvironmentFact>& facts);

/// The flags of the unit that does the arithmetic: "flush to zero", "denormals are zero",
/// "rounding".
Named<std::string> floating_point_mode();

}  // namespace opbound
