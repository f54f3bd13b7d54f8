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
#include <cstring>

#include "ops/providers/plugin_side.hpp"
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
  const int used = is_narrow(stored) && kernel.narrow == Narrow::in_fp32 ? OPBOUND_FP32 : stored;
  if (call.compute == used) return;
  const std::string name = name_of(scalar_type_of(stored));
  if (is_narrow(stored) && kernel.narrow == Narrow::as_stored)
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

void compute(const opbound_call& call) {
  prepare();
  const Kernel& kernel = kernel_for(all_kernels(), call);
  require_compute(call, kernel);
#ifdef OPBOUND_TORCH_CUDA
  const auto index = static_cast<c10::DeviceIndex>(call.device_index);
  const c10::cuda::CUDAStreamGuard guard(
      c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(call.stream), index));
#endif
  kernel.run(Call(call));
}

/// Of torch's many lines the first says what it is.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// What torch checks and refuses it does not support; what it asserts of itself has failed.
int run(const opbound_call* call, char* message, size_t message_size) {
  return guarded(message, message_size, [&] {
    try {
      compute(*call);
    } catch (const Unsupported&) {
      throw;
    } catch (const c10::Error& e) {
      const std::string text = e.what_without_backtrace();
      require(text.find("INTERNAL ASSERT") != std::string::npos, first_line(text));
      throw std::runtime_error(first_line(text));
    } catch (const std::exception& e) {
      throw std::runtime_error(first_line(e.what()));
    }
  });
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

Description describe() {
  Description d;
  d.device = is_on_cuda ? OPBOUND_CUDA : OPBOUND_HOST;
  d.name = "torch";
  d.version = TORCH_VERSION;
  d.run = run;
  for (const Kernel& k : all_kernels()) d.algorithms.push_back({k.op, k.direction, k.variants});
  d.functions = function_errors();
  d.environment = {{is_on_cuda ? "torch cuda" : "torch cpu", capability()},
                   {"torch mkl", configured("Intel(R) oneAPI Math Kernel Library ")},
                   {"torch mkl-dnn", configured("Intel(R) MKL-DNN ")},
                   {"torch threads", "1"},
                   {"torch deterministic", "true"},
                   {"torch adamw", adamw_implementation()}};
  return d;
}

}  // namespace
}  // namespace opbound::with_torch

extern "C" OPBOUND_EXPORT const opbound_provider* opbound_provider_v1() {
  using namespace opbound;
  return plugin_side::described<with_torch::describe>();
}
