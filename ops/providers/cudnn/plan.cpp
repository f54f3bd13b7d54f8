#include "ops/providers/cudnn/plan.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ops/providers/cudnn/kernels.hpp"
#include "ops/providers/cudnn/library.hpp"

namespace opbound::with_cudnn {
namespace {

namespace fe = cudnn_frontend;

fe::DataType_t type_of(int element) {
  switch (element) {
    case OPBOUND_FP32:
      return fe::DataType_t::FLOAT;
    case OPBOUND_BF16:
      return fe::DataType_t::BFLOAT16;
    case OPBOUND_FP16:
      return fe::DataType_t::HALF;
    default:
      throw Unsupported("its graphs are of fp32, bf16 and fp16, not of " + name_of(element));
  }
}

/// What the frontend says, on one line that is not long: its first words, and the first reason that
/// cuDNN gives for one of its engines.
std::string short_text(std::string text) {
  const std::string prefix = "[cudnn_frontend] Error: ";
  if (text.rfind(prefix, 0) == 0) text.erase(0, prefix.size());
  const std::size_t reason = text.find("Reason: ");
  const std::size_t end = reason == std::string::npos ? 300 : std::min(text.find('\n'), reason);
  std::string words = text.substr(0, std::min<std::size_t>(end, 300));
  if (reason != std::string::npos)
    words +=
        "; " + text.substr(reason, std::min<std::size_t>(text.find('\n', reason) - reason, 300));
  std::replace(words.begin(), words.end(), '\n', ' ');
  return words;
}

/// Does an answer while a graph is built say that no kernel takes it? A kernel that takes it and
/// cannot be compiled or loaded is a failure.
bool is_refusal(fe::error_t& answer) {
  const std::string text = answer.get_message();
  for (const char* trouble : {"EXECUTION_FAILED", "INTERNAL_ERROR", "ALLOCATION_FAILED"})
    if (text.find(trouble) != std::string::npos) return false;
  switch (answer.get_code()) {
    case fe::error_code_t::ATTRIBUTE_NOT_SET:  // what the frontend demands of SDPA's tensors
    case fe::error_code_t::GRAPH_NOT_SUPPORTED:
    case fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED:
    case fe::error_code_t::HEURISTIC_QUERY_FAILED:
    case fe::error_code_t::INVALID_VALUE:
      return true;
    case fe::error_code_t::CUDNN_BACKEND_API_FAILED:
      return text.find("NOT_SUPPORTED") != std::string::npos;
    default:
      return false;
  }
}

void require_good(fe::error_t answer, bool is_building) {
  if (answer.is_good()) return;
  const std::string text = short_text(answer.get_message());
  if (is_building && is_refusal(answer)) throw Unsupported(text);
  throw std::runtime_error(text);
}

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Plan::Plan() {
  graph_.set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
}

std::int64_t Plan::describe(const Tensor& t, int element, const Layout& layout) {
  t->set_uid(++last_uid_)
      .set_dim(layout.size)
      .set_stride(layout.stride)
      .set_data_type(type_of(element));
  return last_uid_;
}

Tensor Plan::input(const Call& call, const char* name, const Layout& layout) {
  const Tensor t = graph_.tensor(fe::graph::Tensor_attributes().set_name(name));
  bound_.push_back({describe(t, call.tensor(name).element, layout), name});
  return t;
}

Tensor Plan::constant(double value) {
  return graph_.tensor(fe::graph::Tensor_attributes(static_cast<float>(value)));
}

void Plan::output(const Tensor& t, const Call& call, const char* name, const Layout& layout) {
  t->set_output(true);
  bound_.push_back({describe(t, call.tensor(name).element, layout), name});
}

void Plan::discard(const Tensor& t, const Call& call, const char* like, const Layout& layout) {
  t->set_output(true);
  std::size_t bytes = sizeof(float);
  for (const std::int64_t n : layout.size) bytes *= static_cast<std::size_t>(n);
  discarded_.push_back({describe(t, call.tensor(like).element, layout), bytes, 0});
}

void Plan::build(cudnnHandle_t handle) {
  require_good(graph_.build(handle, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), true);
  std::int64_t bytes = 0;
  require_good(graph_.get_workspace_size(bytes), true);
  workspace_ = static_cast<std::size_t>(bytes);
  for (Discarded& d : discarded_) {
    d.offset = aligned(workspace_);
    workspace_ = d.offset + d.bytes;
  }
}

void Plan::execute(const Call& call, cudnnHandle_t handle) const {
  std::unordered_map<std::int64_t, void*> addresses;
  for (const Bound& b : bound_) {
    const opbound_tensor& t = call.tensor(b.name.c_str());
    require_aligned(t);
    addresses.emplace(b.uid, t.data);
  }
  if (call.get().workspace_size < workspace_) throw std::logic_error("the workspace is too small");
  auto* workspace = static_cast<char*>(call.get().workspace);
  for (const Discarded& d : discarded_) addresses.emplace(d.uid, workspace + d.offset);
  require_good(graph_.execute(handle, addresses, workspace), false);
}

namespace {

/// A plan, or why there is none: asking takes cuDNN milliseconds, building up to seconds.
struct Built {
  std::unique_ptr<Plan> plan;
  std::string refusal;
};

constexpr std::size_t kept_plans = 256;  // each holds code on the device

const Plan& plan_for(const Call& call, const Kernel& kernel, cudnnHandle_t handle) {
  static std::map<std::string, Built> plans;
  const std::string signature = call.signature();
  auto place = plans.find(signature);
  if (place == plans.end()) {
    if (plans.size() >= kept_plans) plans.clear();
    Built built{std::make_unique<Plan>(), {}};
    try {
      kernel.describe(call, *built.plan);
      built.plan->build(handle);
    } catch (const Unsupported& e) {
      built = {nullptr, e.what()};
    }
    place = plans.emplace(signature, std::move(built)).first;
  }
  require(place->second.plan != nullptr, place->second.refusal);
  return *place->second.plan;
}

}  // namespace

std::size_t workspace_of(const Call& call, const Kernel& kernel) {
  return plan_for(call, kernel, Library::get().handle_on(call.get().stream)).workspace();
}

void execute(const Call& call, const Kernel& kernel) {
  const cudnnHandle_t handle = Library::get().handle_on(call.get().stream);
  plan_for(call, kernel, handle).execute(call, handle);
}

}  // namespace opbound::with_cudnn
