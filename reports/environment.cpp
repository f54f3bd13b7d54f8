#include "reports/environment.hpp"

#include <dlfcn.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "generated/version.hpp"

namespace opbound {
namespace {

using Facts = std::vector<EnvironmentFact>;

constexpr const char* absent = "not found";

/// The first line of /proc/cpuinfo with this name.
std::string of_processor(const std::string& name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name))
      if (const std::size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return absent;
}

/// Of its flags those that arithmetic may hang on.
std::string features() {
  constexpr std::array known{"sse4_2",   "avx",         "fma",         "avx2",     "avx512f",
                             "avx512bw", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_tile"};
  std::istringstream stream(of_processor("flags"));
  const std::set<std::string> flags{std::istream_iterator<std::string>(stream), {}};
  std::string text;
  for (const char* name : known)
    if (flags.contains(name)) text.append(text.empty() ? "" : " ").append(name);
  return text.empty() ? absent : text;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : absent;
}

/// A library that the loader finds; it stays loaded.
void* opened(const std::vector<const char*>& names) {
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL); library != nullptr) return library;
  return nullptr;
}

/// What `T f()` says, as libraries have it whose version is a number.
template <class T>
std::string returned(const std::vector<const char*>& names, const char* function) {
  void* library = opened(names);
  void* symbol = library == nullptr ? nullptr : dlsym(library, function);
  if (symbol == nullptr) return absent;
  return std::to_string(reinterpret_cast<T (*)()>(symbol)());
}

/// What `int f(int*)` writes.
std::string written(const std::vector<const char*>& names, const char* function) {
  void* library = opened(names);
  void* symbol = library == nullptr ? nullptr : dlsym(library, function);
  int version = 0;
  if (symbol == nullptr || reinterpret_cast<int (*)(int*)>(symbol)(&version) != 0) return absent;
  return std::to_string(version);
}

/// MPI may be asked for this before it is initialised (MPI 3.1, 8.1.1).
std::string mpi_version() {
  void* library = opened({"libmpi.so.40", "libmpi.so.12", "libmpi.so"});
  void* symbol = library == nullptr ? nullptr : dlsym(library, "MPI_Get_library_version");
  if (symbol == nullptr) return absent;
  std::array<char, 8192> text{};
  int length = 0;
  if (reinterpret_cast<int (*)(char*, int*)>(symbol)(text.data(), &length) != 0) return absent;
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, std::min(all.find_first_of(",\n"), all.size()));
}

void add_processor(Facts& facts) {
  facts.push_back({"processor", "model", of_processor("model name")});
  facts.push_back({"processor", "features", features()});
  facts.push_back({"processor", "threads", std::to_string(std::thread::hardware_concurrency())});
  for (const auto& [name, value] : floating_point_mode())
    facts.push_back({"floating point", name, value});
}

void add_build(Facts& facts, const Named<std::string>& own) {
  facts.push_back({"build", "version", version});
  facts.push_back({"build", "commit", commit});
#ifdef __FAST_MATH__
  facts.push_back({"build", "fast math", "on"});
#else
  facts.push_back({"build", "fast math", "off"});
#endif
#ifdef __FMA__
  facts.push_back({"build", "fma in hardware", "yes"});
#else
  facts.push_back({"build", "fma in hardware", "no"});
#endif
  facts.push_back({"build", "FLT_EVAL_METHOD", std::to_string(__FLT_EVAL_METHOD__)});
#ifdef OPBOUND_WITH_CUDA
  facts.push_back({"build", "CUDA", "yes"});
#else
  facts.push_back({"build", "CUDA", "no"});
#endif
  for (const auto& [name, value] : own) facts.push_back({"provider", name, value});
}

void add_libraries(Facts& facts) {
  facts.push_back({"libraries", "MPI", mpi_version()});
  facts.push_back({"gpu", "driver", first_line("/proc/driver/nvidia/version")});
  facts.push_back({"gpu", "CUDA of the driver", written({"libcuda.so.1"}, "cuDriverGetVersion")});
  facts.push_back(
      {"gpu", "CUDA runtime",
       written({"libcudart.so.13", "libcudart.so.12", "libcudart.so"}, "cudaRuntimeGetVersion")});
  facts.push_back(
      {"gpu", "cuBLAS",
       returned<std::size_t>({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
                             "cublasLtGetVersion")});
  facts.push_back(
      {"gpu", "cuDNN", returned<std::size_t>({"libcudnn.so.9", "libcudnn.so"}, "cudnnGetVersion")});
  facts.push_back({"gpu", "NCCL", written({"libnccl.so.2", "libnccl.so"}, "ncclGetVersion")});
}

/// Variables that decide numbers, or are believed to; then all others of the same libraries.
void add_variables(Facts& facts) {
  constexpr std::array known{"CUBLAS_WORKSPACE_CONFIG",
                             "NVIDIA_TF32_OVERRIDE",
                             "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
                             "NCCL_ALGO",
                             "NCCL_PROTO",
                             "NCCL_NVLS_ENABLE",
                             "NCCL_IB_DISABLE",
                             "OMP_NUM_THREADS",
                             "MKL_CBWR",
                             "OPENBLAS_NUM_THREADS",
                             "PYTHONHASHSEED"};
  constexpr std::array prefixes{"CUBLAS",  "CUDA_",    "CUDNN_", "GOMP_",    "MKL_",
                                "NCCL_",   "NVIDIA_",  "OMP_",   "OPBOUND_", "OPENBLAS_",
                                "ONEDNN_", "PYTORCH_", "TORCH_"};
  for (const char* name : known) {
    const char* value = std::getenv(name);
    facts.push_back({"variables", name, value == nullptr ? "not set" : value});
  }
  std::set<std::string> others;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string word = *entry;
    const std::string name = word.substr(0, word.find('='));
    const bool is_listed = std::find(known.begin(), known.end(), name) != known.end();
    const bool belongs = std::any_of(prefixes.begin(), prefixes.end(),
                                     [&](const char* p) { return name.starts_with(p); });
    if (belongs && !is_listed) others.insert(word);
  }
  for (const std::string& word : others)
    facts.push_back({"variables", word.substr(0, word.find('=')), word.substr(word.find('=') + 1)});
}

}  // namespace

Named<std::string> floating_point_mode() {
  const unsigned mode = _mm_getcsr();
  constexpr std::array<const char*, 4> rounding{"to nearest even", "down", "up", "toward zero"};
  return {{"flush to zero", (mode & 0x8000U) != 0 ? "on" : "off"},
          {"denormals are zero", (mode & 0x0040U) != 0 ? "on" : "off"},
          {"rounding", rounding[(mode >> 13U) & 3U]}};
}

std::vector<EnvironmentFact> environment_facts(const Named<std::string>& own) {
  Facts facts;
  add_processor(facts);
  add_build(facts, own);
  add_libraries(facts);
  add_variables(facts);
  return facts;
}

std::string environment_fingerprint(const std::vector<EnvironmentFact>& facts) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  const auto take = [&](const std::string& text) {
    for (const char c : text + '\n') {
      hash ^= static_cast<unsigned char>(c);
      hash *= 0x100000001b3U;
    }
  };
  for (const EnvironmentFact& f : facts) {
    take(f.topic);
    take(f.name);
    take(f.value);
  }
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += digits[(hash >> shift) & 15U];
  return text;
}

std::string environment_json(const std::vector<EnvironmentFact>& facts) {
  nlohmann::ordered_json json{
      {"schema", 1}, {"kind", "environment"}, {"fingerprint", environment_fingerprint(facts)}};
  for (const EnvironmentFact& f : facts) json["facts"][f.topic][f.name] = f.value;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace opbound
