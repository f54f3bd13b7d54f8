// How a plug-in's tensors are laid out, and how a write to what is not its own is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/providers/plugin.hpp"
#include "ops/providers/plugin_call.hpp"
#include "ops/providers/plugin_request.hpp"
#include "ops/providers/processor_mode.hpp"
#include "suites/run.hpp"
#include "tests/faulty_kernel.hpp"

namespace opbound {
namespace {

using detail::Request;

struct Laid {
  Prepared prepared;
  Request request;
  std::vector<std::byte> memory;

  explicit Laid(const CaseSpec& spec, std::uint64_t workspace = 0) : prepared(prepare(spec)) {
    request = detail::make_request(*spec.op, prepared.call, false, views());
    memory.resize(detail::place_workspace(request, workspace));
    detail::fill_memory(request, views(), memory);
  }
  std::span<const TensorView> views() const { return prepared.call.forward; }
  std::string trespass() const { return detail::trespass(request, views(), memory); }
  const detail::SharedTensor& tensor(std::string_view name) const {
    return *std::find_if(request.all().begin(), request.all().end(),
                         [&](const auto& t) { return request.name_of(t) == name; });
  }
};

CaseSpec softmax_case() {
  CaseSpec spec = case_of("softmax", Direction::forward, "fp32", {3, 5}, {});
  spec.inputs = {{"x", InputSpec{}}};
  return spec;
}

TEST(PluginRequest, nothing_is_wrong_before_anything_was_written) {
  for (const std::uint64_t workspace : {0, 1, 1000}) {
    const Laid laid(softmax_case(), workspace);
    EXPECT_EQ(laid.trespass(), "");
    EXPECT_EQ(laid.tensor("x").offset % 256, 0U);
    EXPECT_EQ(laid.request.workspace % 256, 0U);
  }
}

TEST(PluginRequest, in_this_process_a_call_has_the_tensors_where_they_are) {
  const Laid laid(softmax_case(), 64);
  std::byte scratch[64];
  const detail::PluginCall call(laid.request, laid.views(), scratch);
  for (const char* name : {"x", "y"}) {
    const auto place = static_cast<std::size_t>(laid.tensor(name).place);
    EXPECT_EQ(opbound_tensor_named(call.get(), name)->data, laid.views()[place].data);
  }
  EXPECT_EQ(call.get()->workspace, scratch);
  EXPECT_EQ(call.get()->workspace_size, 64U);
}

TEST(PluginRequest, what_is_not_for_cuda_does_not_run_in_this_process) {
  const auto refusal = [](const std::string& file) -> std::string {
    try {
      plugin_in_process(file, {}, "");
      return "";
    } catch (const NotAPlugin& e) {
      return std::string(e.what()) + ", expected " + e.expected;
    }
  };
  EXPECT_EQ(refusal(OPBOUND_PLUGINS "/gelu.so"),
            "is for the CPU, expected a plug-in for CUDA, as the run is on a device");
  EXPECT_EQ(refusal(OPBOUND_PLUGINS "/none.so"), "no such file, expected a shared library");
}

TEST(PluginRequest, every_byte_outside_of_the_tensors_is_watched) {
  Laid laid(softmax_case(), 100);
  const auto is_free = [&](std::uint64_t at) {
    const auto& y = laid.tensor("y");
    return (at >= y.offset && at < y.end()) ||
           (at >= laid.request.workspace && at < laid.request.workspace + 100);
  };
  for (std::uint64_t at = 0; at < laid.memory.size(); ++at) {
    const std::byte before = laid.memory[at];
    laid.memory[at] = ~before;
    EXPECT_EQ(laid.trespass().empty(), is_free(at)) << at;
    laid.memory[at] = before;
  }
}

TEST(PluginRequest, tells_where_a_wrong_write_went) {
  const auto after_writing = [](std::string_view tensor, std::int64_t at) {
    Laid laid(softmax_case());
    laid.memory[laid.tensor(tensor).offset + static_cast<std::uint64_t>(at)] = std::byte{1};
    return laid.trespass();
  };
  EXPECT_EQ(after_writing("y", 60), "it wrote outside of its tensors: 1 byte behind the end of y");
  EXPECT_EQ(after_writing("y", -8),
            "it wrote outside of its tensors: 8 bytes before the beginning of y");
  EXPECT_EQ(after_writing("x", -1),
            "it wrote outside of its tensors: 1 byte before the beginning of x");
  EXPECT_EQ(after_writing("x", 4), "it changed its input x");
}

/// A kernel that reads past the end of a tensor must not find numbers there.
TEST(PluginRequest, guard_zones_are_no_numbers) {
  const Laid laid(softmax_case());
  for (const Element e : {Element::fp64, Element::fp32, Element::bf16, Element::fp16}) {
    const double x = load(e, laid.memory.data() + laid.tensor("y").offset - 64, 0);
    EXPECT_NE(x, x) << name_of(e);
  }
}

TEST(PluginRequest, inputs_keep_their_layout) {
  CaseSpec spec = softmax_case();
  for (const Layout layout : {Layout::transposed, Layout::broadcast, Layout::unaligned}) {
    spec.inputs.front().second.layout = layout;
    const Laid laid(spec);
    TensorView there = laid.tensor("x").view;
    there.data = const_cast<std::byte*>(  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        laid.memory.data() + laid.tensor("x").offset);
    for (std::int64_t i = 0; i < 15; ++i) EXPECT_EQ(there.at(i), laid.views()[0].at(i));
    EXPECT_EQ(laid.tensor("x").offset % 16, layout == Layout::unaligned ? 4U : 0U);
  }
}

TEST(PluginRequest, outputs_are_taken_and_nothing_else) {
  Laid laid(softmax_case());
  const double one = 1;
  for (std::int64_t i = 0; i < 15; ++i)
    store(Element::fp32, laid.memory.data() + laid.tensor("y").offset, i, one);
  const double x = laid.views()[0].at(0);
  detail::take_outputs(laid.request, laid.views(), laid.memory);
  EXPECT_EQ(laid.views()[1].at(14), 1);
  EXPECT_EQ(laid.views()[0].at(0), x);
}

/// Scratch and tensors that the attributes leave out are not a plug-in's business.
TEST(PluginRequest, every_op_is_laid_out) {
  for (const Op& op : all_ops()) {
    const CaseSpec spec = case_of(op.name, Direction::forward, "fp32", {}, {});
    std::vector<TensorView> views;
    for (const TensorSpec& t : op.forward.tensors)
      views.push_back(contiguous_view(tensor_element(spec, t), tensor_shape(spec, t), nullptr));
    Call call;
    call.attributes = spec.attributes;
    call.variant = spec.variant;
    const Request request = detail::make_request(op, call, false, views);
    for (const auto& t : request.all()) {
      const TensorSpec& tensor = op.forward.tensors[static_cast<std::size_t>(t.place)];
      EXPECT_NE(tensor.role, Role::scratch) << op.name;
      EXPECT_TRUE(op.has_tensor(spec.attributes, tensor.name)) << op.name << " " << tensor.name;
    }
  }
}

TEST(PluginRequest, texts_come_back_as_they_were) {
  const std::vector<std::string> texts{"", "a", "", "b c", ""};
  EXPECT_EQ(detail::split(detail::joined(texts)), texts);
  EXPECT_EQ(detail::split("").size(), 0U);
}

#if defined(__x86_64__)
TEST(ProcessorMode, names_what_has_changed) {
  const auto mode = detail::ProcessorMode::now();
  const auto with = [&](std::uint32_t bits) {
    detail::ProcessorMode other = mode;
    other.sse ^= bits;
    return mode.changes(other);
  };
  EXPECT_EQ(with(0), "");
  EXPECT_EQ(with(0x8000), "flush to zero (FTZ)");
  EXPECT_EQ(with(0x8040), "flush to zero (FTZ), denormals are zero (DAZ)");
  EXPECT_EQ(with(0x2000), "the rounding mode");
  EXPECT_EQ(with(0x0080), "floating-point traps");
  std::fesetround(FE_UPWARD);
  EXPECT_NE(mode.changes(detail::ProcessorMode::now()), "");
  mode.restore();
  EXPECT_EQ(detail::ProcessorMode::now(), mode);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}
#endif

}  // namespace
}  // namespace opbound
