#include "distributed/module.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "ops/provider.hpp"

namespace opbound {

void* open_module(const std::string& what, const std::string& file, const char* function) {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const auto& folder : {program, program.parent_path()}) {
    if (!std::filesystem::exists(folder / file, ignored)) continue;
    void* module = dlopen((folder / file).c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* symbol = module == nullptr ? nullptr : dlsym(module, function);
    if (symbol == nullptr) throw Unavailable(what + ": " + dlerror());
    return symbol;
  }
  throw Unavailable(what + ": this build has no " + file);
}

}  // namespace opbound
