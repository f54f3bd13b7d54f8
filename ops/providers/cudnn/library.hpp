// libcudnn.so.9 as the loader finds it when the plug-in is opened, and the calls of it that its
// frontend does not make.
#pragma once

#include <cudnn.h>

#include <string>

namespace opbound::with_cudnn {

class Library {
 public:
  /// Opened at the first call; it stays open.
  static const Library& get();

  /// Why it cannot be used; empty if it can.
  const std::string& absence() const { return absence_; }
  /// "9.14.0", or "none"
  const std::string& version() const { return version_; }
  /// The CUDA runtime inside it: "13.0", or "none"
  const std::string& runtime() const { return runtime_; }

  /// A handle that runs on this stream of the current device. There is one, made when first wanted.
  cudnnHandle_t handle_on(void* stream) const;

  /// `symbol<decltype(cudnnCreate)>("cudnnCreate")`
  template <class Function>
  Function* symbol(const char* name) const {
    return reinterpret_cast<Function*>(address(name));
  }

  /// Throws what the library says: Unsupported where it says so, std::runtime_error otherwise.
  void check(cudnnStatus_t status, const char* what) const;

 private:
  Library();
  void* address(const char* name) const;

  void* library_ = nullptr;
  std::string absence_, version_ = "none", runtime_ = "none";
};

}  // namespace opbound::with_cudnn
