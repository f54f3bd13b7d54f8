#include "reports/scratch_folder.hpp"

#include <cstdlib>
#include <string>
#include <system_error>

#include "reports/error.hpp"

namespace opbound {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  constexpr const char* drawn = "XXXXXX";  // mkdtemp puts letters there
  std::string name = (fs::temp_directory_path() / (std::string("opbound-") + drawn)).string();
  if (mkdtemp(name.data()) == nullptr)
    throw InputError(name, "cannot be made", "room for temporary files (TMPDIR)");
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace opbound
