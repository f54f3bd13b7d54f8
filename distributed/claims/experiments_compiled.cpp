// PyTorch's compiler: whether what it kept, or the shapes that came before, change a run's bits.
#include <filesystem>
#include <set>
#include <string>

#include "distributed/claims/experiment.hpp"
#include "distributed/claims/other_process.hpp"
#include "distributed/claims/training_lists.hpp"
#include "ops/provider.hpp"
#include "reports/error.hpp"
#include "reports/scratch_folder.hpp"

namespace opbound::claims {
namespace {

/// Compiles a block, runs it on rows of these numbers one after the other, and prints a hash of the
/// last output; "none" where there is no compiler. On a GPU its temperature behind that stands in a
/// second line, and before it are so many seconds of products.
constexpr const char* program = R"py(
import hashlib, subprocess, sys, time
device, shapes, heat = sys.argv[1], sys.argv[2], float(sys.argv[3])
try:
    import torch
    torch.compile
    if device == "cuda" and not torch.cuda.is_available(): raise ImportError
except (ImportError, AttributeError):
    print("none"); sys.exit()
def seeded(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)
weight = seeded(1, 256, 256)
def block(x):
    y = torch.nn.functional.layer_norm(x @ weight, (256,))
    return torch.log_softmax(torch.nn.functional.gelu(y), 0).mean(1)
compiled = torch.compile(block)
hot = seeded(2, 8192, 8192) if heat > 0 else weight
end = time.time() + heat
while time.time() < end: hot @ hot; torch.cuda.synchronize()
for n in map(int, shapes.split(",")): y = compiled(seeded(n, n, 256))
print(hashlib.sha256(bytes(y.cpu().view(torch.uint8).tolist())).hexdigest())
if device == "cuda":
    asked = ["nvidia-smi", "--query-gpu=temperature.gpu", "--format=csv,noheader,nounits"]
    print(subprocess.check_output(asked, text=True).split()[0])
)py";

struct Compiled {
  std::string hash;
  double temperature = 0;
};

Compiled run_compiled(const Laboratory& laboratory, const std::string& shapes, double heat,
                      const std::filesystem::path& cache) {
  const std::string device = laboratory.device == "cpu" ? "cpu" : "cuda";
  laboratory.note("compiles for " + shapes + " rows");
  std::string text;
  try {
    text = output_of(
        "/usr/bin/env", {"python3", "-c", program, device, shapes, std::to_string(heat)},
        {{"TORCHINDUCTOR_CACHE_DIR", cache.string()}, {"TORCHINDUCTOR_COMPILE_THREADS", "1"}});
  } catch (const ProviderFailure&) {
    throw Unavailable("python3 is not here, or its PyTorch cannot compile");
  }
  if (text.starts_with("none"))
    throw Unavailable(
        "needs a PyTorch with torch.compile for this device; the python3 here has none");
  const std::size_t end = text.find('\n');
  Compiled c{text.substr(0, end), 0};
  if (end + 1 < text.size()) c.temperature = std::stod(text.substr(end + 1));
  return c;
}

/// Runs of one shape, or of the same shape after others, with a cache that is empty or kept.
Measured compiled_runs(const Given& given, Laboratory& laboratory) {
  const std::vector<std::string> shapes = given.words("shapes");
  const bool is_kept = given.flag("cache_kept");
  const ScratchFolder kept;
  std::set<std::string> hashes;
  std::string first;
  double differing = 0;
  for (const std::string& of : shapes) {
    const ScratchFolder own;
    const std::string hash =
        run_compiled(laboratory, of, 0, is_kept ? kept.path() : own.path()).hash;
    if (first.empty()) first = hash;
    differing += hash == first ? 0 : 1;
    hashes.insert(hash);
  }
  Measured m;
  m.add("runs", static_cast<double>(shapes.size()),
        "processes that compile and run the same block");
  m.add("differing", differing, "of them, those whose output has other bits than the first's");
  m.add("outputs", static_cast<double>(hashes.size()), "different outputs");
  return m;
}

/// The same kernels, cold and then hot, with a cache that is kept and one that is emptied.
Measured heated_runs(const Given& given, Laboratory& laboratory) {
  if (laboratory.device == "cpu")
    throw Unavailable("needs a GPU, whose temperature is raised and read: --device cuda runs this");
  const ScratchFolder kept, emptied;
  const std::string shape = given.text("shape");
  const double seconds = given.number("seconds");
  const Compiled cold = run_compiled(laboratory, shape, 0, kept.path());
  const Compiled hot = run_compiled(laboratory, shape, seconds, kept.path());
  const Compiled compiled_hot = run_compiled(laboratory, shape, seconds, emptied.path());
  Measured m;
  m.add("rise", hot.temperature - cold.temperature, "by which the GPU was warmer", "K");
  m.add("kept", cold.hash == hot.hash ? 0 : 1,
        "1: kernels from the cold GPU's cache gave other bits on the hot one");
  m.add("compiled_hot", cold.hash == compiled_hot.hash ? 0 : 1,
        "1: kernels that were compiled on the hot GPU gave other bits than those of the cold one");
  return m;
}

}  // namespace

Experiments compiled_experiments() {
  return {{"compiled_runs",
           "processes that run PyTorch's compiler: after these shapes, with a cache kept or not",
           {{"shapes", std::string("64 64 64")}, {"cache_kept", false}},
           compiled_runs},
          {"heated_runs",
           "PyTorch's compiled kernels on a GPU before and after it is heated",
           {{"shape", std::string("64")}, {"seconds", 20.0}},
           heated_runs}};
}

}  // namespace opbound::claims
