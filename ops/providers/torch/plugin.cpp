// libtorch as a plug-in for opbound: what opbound calls.
//
//   opbound run --provider torch
//
// Built for the host and, where torch has CUDA, once more for a device. It runs with one thread and
// with deterministic algorithms, so that a record can be made again.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "ops/provider.h"
#include "ops/providers/torch/kernels.hpp"
#ifdef OPBOUND_TORCH_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace opbound::with_torch {
namespace {

const Kernels& all_kernels() {
  static const Kernels kernels = [] {
    Kernels all;
    for (const auto add : {add_activations, add_rows, add_normalization, add_products,
                           add_attention, add_streams, add_gradients, add_adamw})
      add(all);
    return all;
  }();
  return kernels;
}

/// Is `word` one of those that stand between `|` in `list`?
bool lists(std::string_view list, std::string_view word) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find('|', begin), list.size());
    if (list.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

const Kernel& kernel_for(const opbound_call& call) {
  for (const Kernel& k : all_kernels())
    if (std::strcmp(k.op, call.op) == 0 && lists(k.variants, call.variant) &&
        (k.direction == nullptr || std::strcmp(k.direction, call.direction) == 0))
      return k;
  throw Unsupported(std::string("no kernel for ") + call.op + " " + call.direction);
}

/// The format of the call's first tensor of numbers; none of them: -1.
int stored_format(const opbound_call& call) {
  for (std::size_t i = 0; i < call.tensor_count; ++i)
    if (call.tensors[i]->element <= OPBOUND_E5M2) return call.tensors[i]->element;
  return -1;
}

/// Torch computes fp64 in fp64, fp32 in fp32, and 16 bits as the kernel says. A cast computes
/// nothing.
void require_compute(const opbound_call& call, const Kernel& kernel) {
  const int stored = stored_format(call);
  if (std::strcmp(call.op, "cast") == 0 || stored < 0) return;
  const bool is_narrow = stored == OPBOUND_BF16 || stored == OPBOUND_FP16;
  const int used = is_narrow && kernel.narrow == Narrow::in_fp32 ? OPBOUND_FP32 : stored;
  if (call.compute == used) return;
  const std::string name = name_of(scalar_type_of(stored));
  if (is_narrow && kernel.narrow == Narrow::as_stored)
    throw Unsupported("it stores what lies between the steps of " + std::string(call.op) + " " +
                      call.direction + " in " + name);
  throw Unsupported("it computes " + name + " in " + name_of(scalar_type_of(used)) +
                    ", nothing else");
}

void prepare() {
  static const bool once = [] {
    at::set_num_threads(1);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setAllowTF32CuBLAS(false);
    at::globalContext().setAllowTF32CuDNN(false);
    return true;
  }();
  static_cast<void>(once);
}

int refused(int status, const std::string& why, char* message, std::size_t size) {
  std::snprintf(message, size, "%s", why.substr(0, why.find('\n')).c_str());
  return status;
}

/// What torch checks and refuses it does not support; what it asserts of itself has failed.
bool is_refusal(const c10::Error& e) {
  return std::string(e.what_without_backtrace()).find("INTERNAL ASSERT") == std::string::npos;
}

int run(const opbound_call* call, char* message, size_t message_size) {
  try {
    prepare();
    const Kernel& kernel = kernel_for(*call);
    require_compute(*call, kernel);
#ifdef OPBOUND_TORCH_CUDA
    const auto index = static_cast<c10::DeviceIndex>(call->device_index);
    const c10::cuda::CUDAStreamGuard guard(
        c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(call->stream), index));
#endif
    kernel.run(Call(*call));
    return OPBOUND_OK;
  } catch (const Unsupported& e) {
    return refused(OPBOUND_UNSUPPORTED, e.what(), message, message_size);
  } catch (const c10::Error& e) {
    return refused(is_refusal(e) ? OPBOUND_UNSUPPORTED : OPBOUND_FAILED, e.what_without_backtrace(),
                   message, message_size);
  } catch (const std::exception& e) {
    return refused(OPBOUND_FAILED, e.what(), message, message_size);
  }
}

/// SLEEF's u10 functions and MKL's VML in its accurate mode are within 1 ulp of the exact value;
/// tails of vectors go through glibc, which is closer. Since 2.1 attention and softmax use exp_u20,
/// which is 5.71 ulp off at most: measured on every fp32 number of [-86.98, 0] with AVX512, below
/// which it gives 0. CUDA's functions are as CUDA documents them.
std::vector<opbound_function_error> function_errors() {
  if (is_on_cuda) return {};
  std::vector<opbound_function_error> errors;
  for (const char* f :
       {"exp2", "expm1", "log", "log1p", "tanh", "erf", "erfc", "sin", "cos", "rsqrt", "pow"})
    errors.push_back({f, 1});
  errors.push_back({"exp", TORCH_VERSION_MAJOR < 2 ? 1.0 : 6.0});
  return errors;
}

/// What follows `words` on a line of at::show_config().
std::string configured(const std::string& words) {
  const std::string all = at::show_config();
  const std::size_t begin = all.find(words);
  if (begin == std::string::npos) return "none";
  return all.substr(begin + words.size(), all.find('\n', begin) - begin - words.size());
}

/// "AVX512"; of CUDA its version and those of its libraries, on one line.
std::string capability() {
  if (!is_on_cuda) return configured("CPU capability usage: ");
  std::string text = at::detail::getCUDAHooks().showConfig();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

struct Description {
  std::vector<opbound_algorithm> algorithms;
  std::vector<opbound_function_error> functions = function_errors();
  std::string capability_text = capability();
  std::string mkl = configured("Intel(R) oneAPI Math Kernel Library ");
  std::string dnn = configured("Intel(R) MKL-DNN ");
  std::vector<opbound_environment> environment{
      {is_on_cuda ? "torch cuda" : "torch cpu", capability_text.c_str()},
      {"torch mkl", mkl.c_str()},
      {"torch mkl-dnn", dnn.c_str()},
      {"torch threads", "1"},
      {"torch deterministic", "true"},
      {"torch adamw", adamw_implementation()}};
  opbound_provider provider{};

  Description() {
    for (const Kernel& k : all_kernels()) algorithms.push_back({k.op, k.direction, k.variants});
    provider.struct_size = sizeof provider;
    provider.abi_version = OPBOUND_ABI_VERSION;
    provider.device = is_on_cuda ? OPBOUND_CUDA : OPBOUND_HOST;
    provider.name = "torch";
    provider.version = TORCH_VERSION;
    provider.run = run;
    provider.algorithm_count = algorithms.size();
    provider.algorithms = algorithms.data();
    provider.function_count = functions.size();
    provider.functions = functions.data();
    provider.environment_count = environment.size();
    provider.environment = environment.data();
  }
};

}  // namespace
}  // namespace opbound::with_torch

extern "C" const opbound_provider* opbound_provider_v1() {
  static const opbound::with_torch::Description description;
  return &description.provider;
}
