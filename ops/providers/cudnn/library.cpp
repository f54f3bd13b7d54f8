#include "ops/providers/cudnn/library.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <stdexcept>

#include "ops/providers/cudnn/call.hpp"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // where the frontend looks its functions up
}

namespace opbound::with_cudnn {
namespace {

constexpr const char* library_name = "libcudnn.so.9";

/// Opens a library, or says in `why_not` that it is not here.
void* opened(const char* name, std::string& why_not) {
  void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (library != nullptr) return library;
  const char* reason = dlerror();
  why_not = std::string("no ") + name + ": " + (reason == nullptr ? "unknown error" : reason);
  return nullptr;
}

}  // namespace

const Library& Library::get() {
  static const Library library;
  return library;
}

Library::Library() {
  // The frontend loads a CUDA runtime by name, the oldest it finds; that of our headers is meant.
  static const std::string cudart = "libcudart.so." + std::to_string(CUDART_VERSION / 1000);
  setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", cudart.c_str(), /*overwrite=*/0);
  const char* runtime = std::getenv("CUDNN_FRONTEND_CUDART_LIB_NAME");
  library_ = opened(library_name, absence_);
  if (library_ == nullptr) return;
  cudnn_frontend::cudnn_dlhandle = library_;
  version_ = version_text(symbol<decltype(cudnnGetVersion)>("cudnnGetVersion")());
  runtime_ = runtime_text(symbol<decltype(cudnnGetCudartVersion)>("cudnnGetCudartVersion")());
  opened(runtime, absence_);
}

void* Library::address(const char* name) const {
  void* found = dlsym(library_, name);
  if (found == nullptr) throw Unsupported(version_ + " has no " + name);
  return found;
}

void Library::check(cudnnStatus_t status, const char* what) const {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::string text = std::string(what) + ": " +
                     symbol<decltype(cudnnGetErrorString)>("cudnnGetErrorString")(status);
  std::array<char, 400> more{};
  symbol<decltype(cudnnGetLastErrorString)>("cudnnGetLastErrorString")(more.data(), more.size());
  more.back() = '\0';
  if (more.front() != '\0') text += std::string(", ") + more.data();
  if (CUDNN_STATUS_CATEGORY(static_cast<int>(status)) == CUDNN_STATUS_NOT_SUPPORTED)
    throw Unsupported(text);
  throw std::runtime_error(text);
}

cudnnHandle_t Library::handle_on(void* stream) const {
  static cudnnHandle_t handle = nullptr;  // ends with the process
  if (handle == nullptr)
    check(symbol<decltype(cudnnCreate)>("cudnnCreate")(&handle), "cudnnCreate");
  check(
      symbol<decltype(cudnnSetStream)>("cudnnSetStream")(handle, static_cast<cudaStream_t>(stream)),
      "cudnnSetStream");
  return handle;
}

}  // namespace opbound::with_cudnn
