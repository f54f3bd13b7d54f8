// Traces through the C interface.
#include "distributed/trace/trace.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "distributed/trace/full_print.hpp"
#include "distributed/trace/spectrum.hpp"
#include "generated/version.hpp"
#include "tools/python/library/guard.hpp"
#include "tools/python/library/opbound.h"

namespace {

using namespace opbound;
using library::guarded;
using library::read_struct;
using library::require;
using library::text_of;

static_assert(OPBOUND_SKETCH_WIDTH == trace::sketch_width);
static_assert(OPBOUND_LARGEST == trace::positions_kept);
static_assert(OPBOUND_SHARES == trace::largest_values);

Element element_named(std::int32_t number) {
  require(number >= OPBOUND_FP64 && number <= OPBOUND_BOOLEAN, "element", std::to_string(number),
          "OPBOUND_FP64 to OPBOUND_BOOLEAN");
  return static_cast<Element>(number);
}

trace::GradientSums sums_of(const opbound_gradient& g) {
  trace::GradientSums sums{g.count, g.nonfinite, g.sum, g.square, g.hash, {}};
  std::copy(std::begin(g.sketch), std::end(g.sketch), sums.sketch.begin());
  return sums;
}

opbound_gradient gradient_of(const trace::GradientSums& sums) {
  opbound_gradient g{0, sums.count, sums.nonfinite, sums.sum, sums.square, sums.hash, {}};
  std::copy(sums.sketch.begin(), sums.sketch.end(), std::begin(g.sketch));
  return g;
}

Shape shape_of(std::int32_t rank, const std::int64_t* sizes, const char* where) {
  require(rank >= 0 && rank <= TensorView::max_rank && (rank == 0 || sizes != nullptr), where,
          "rank " + std::to_string(rank), "0 to 4 sizes");
  Shape shape(sizes, sizes + rank);
  for (const std::int64_t n : shape)
    require(n >= 0, where, "a size of " + std::to_string(n), "0 or more");
  return shape;
}

Tensor tensor_of(std::int32_t element, const Shape& shape, const void* data) {
  Tensor t(element_named(element), shape);
  require(data != nullptr || t.count() == 0, "data", "NULL", "the elements");
  if (t.count() > 0) std::memcpy(t.bytes().data(), data, t.bytes().size());
  return t;
}

trace::FullPrint full_print_of(const opbound_full_print& p) {
  require(p.largest_count >= 0 && p.largest_count <= OPBOUND_LARGEST && p.share_count >= 0 &&
              p.share_count <= OPBOUND_SHARES,
          "opbound_full_print", "too many places or shares", "at most 10 and 8");
  return {{p.largest, p.largest + p.largest_count},
          {p.shares, p.shares + p.share_count},
          p.update_to_weight,
          p.lost_updates,
          p.weight_hash};
}

opbound_full_print print_of(const trace::FullPrint& full) {
  opbound_full_print p{};
  p.largest_count = std::ssize(full.largest);
  p.share_count = std::ssize(full.shares);
  std::copy(full.largest.begin(), full.largest.end(), std::begin(p.largest));
  std::copy(full.shares.begin(), full.shares.end(), std::begin(p.shares));
  p.update_to_weight = full.update_to_weight;
  p.lost_updates = full.lost_updates;
  p.weight_hash = full.weight_hash;
  return p;
}

std::vector<trace::TraceParameter> parameters_of(const opbound_trace_head& head) {
  std::vector<trace::TraceParameter> all;
  for (std::size_t i = 0; i < head.parameter_count; ++i) {
    const auto p = read_struct(head.parameters[i], "opbound_trace_parameter");
    require(p.name != nullptr && *p.name != '\0', "opbound_trace_parameter", "no name", "a name");
    all.push_back({p.name, text_of(p.op), p.layer, {p.shape, p.shape + p.rank}});
    require(p.rank >= 0 && (p.rank == 0 || p.shape != nullptr), p.name,
            "rank " + std::to_string(p.rank), "its sizes");
  }
  return all;
}

}  // namespace

/// With the state that one writer keeps.
struct opbound_trace {
  trace::TraceFile file;
  std::size_t parameters = 0;
};

extern "C" {

const char* opbound_version(void) {
  static const std::string text = std::string("opbound ") + version + " " + commit;
  return text.c_str();
}

int opbound_add_gradient(const char* parameter, int64_t first, int64_t count, int32_t element,
                         const void* data, opbound_gradient* sums, char* message,
                         size_t message_size) {
  return guarded(message, message_size, [&] {
    require(parameter != nullptr, "parameter", "NULL", "a name");
    require(first >= 0 && count >= 0 && (data != nullptr || count == 0), parameter,
            std::to_string(count) + " elements from " + std::to_string(first),
            "a part of it, and its elements");
    trace::GradientSums all = sums_of(read_struct(sums, "opbound_gradient"));
    all += trace::sums_of(trace::sketch_key(parameter), first, count, element_named(element), data);
    library::write_struct(sums, gradient_of(all));
  });
}

int opbound_add_sums(int64_t count, const opbound_gradient* parts, opbound_gradient* sums,
                     char* message, size_t message_size) {
  return guarded(message, message_size, [&] {
    require(count >= 0 && (parts != nullptr || count == 0), "parts",
            std::to_string(count) + " of them", "0 or more, and where they lie");
    trace::GradientSums all;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto stride = static_cast<std::int64_t>(parts->struct_size);
      const char* part = reinterpret_cast<const char*>(parts) + i * stride;
      all += sums_of(read_struct(reinterpret_cast<const opbound_gradient*>(part), "parts"));
    }
    trace::GradientSums total = sums_of(read_struct(sums, "opbound_gradient"));
    total += all;
    library::write_struct(sums, gradient_of(total));
  });
}

int opbound_print_in_full(const char* parameter, int32_t rank, const int64_t* shape,
                          int32_t gradient_element, const void* gradient, int32_t weight_element,
                          const void* before, const void* after, opbound_full_print* print,
                          char* message, size_t message_size) {
  return guarded(message, message_size, [&] {
    require(parameter != nullptr, "parameter", "NULL", "a name");
    read_struct(print, "opbound_full_print");
    const Shape sizes = shape_of(rank, shape, parameter);
    const Tensor g = tensor_of(gradient_element, sizes, gradient);
    const Tensor then = tensor_of(weight_element, sizes, before);
    const Tensor now = tensor_of(weight_element, sizes, after);
    trace::FullPrint full;
    full.largest = trace::largest_places(g);
    full.weight_hash = trace::hash_of(now);
    trace::compare_weights(g, then, now, full);
    if (sizes.size() == 2) full.shares = trace::largest_shares(g, trace::sketch_key(parameter));
    library::write_struct(print, print_of(full));
  });
}

int opbound_trace_open(const opbound_trace_head* theirs, opbound_trace** made, char* message,
                       size_t message_size) {
  return guarded(message, message_size, [&] {
    const auto head = read_struct(theirs, "opbound_trace_head");
    require(head.path != nullptr && made != nullptr, "opbound_trace_open", "NULL", "a path");
    require(head.ranks >= 1, head.path, std::to_string(head.ranks) + " ranks", "1 or more");
    const std::vector<trace::TraceParameter> parameters = parameters_of(head);
    trace::TraceHead h{
        "", text_of(head.source), text_of(head.device), text_of(head.data_sha256), head.ranks, {},
        {}};
    for (std::size_t i = 0; i < head.environment_count; ++i)
      h.environment.emplace_back(head.environment[i].name, head.environment[i].value);
    using Open = trace::TraceFile::Open;
    auto opened = std::make_unique<opbound_trace>(opbound_trace{
        {head.path, head.goes_on != 0 ? Open::go_on : Open::make}, parameters.size()});
    if (head.goes_on == 0)
      opened->file.write_head(h, parameters);
    else if (opened->file.parameters() != parameters)
      throw InputError(head.path, "a trace of other parameters", "that of this model");
    *made = opened.release();
  });
}

int64_t opbound_trace_last_step(opbound_trace* trace) {
  int64_t last = -1;
  guarded(nullptr, 0, [&] { last = trace->file.last_step(); });
  return last;
}

int opbound_trace_write(opbound_trace* trace, const opbound_trace_step* theirs, char* message,
                        size_t message_size) {
  return guarded(message, message_size, [&] {
    const auto s = read_struct(theirs, "opbound_trace_step");
    require(trace != nullptr, "opbound_trace_write", "NULL", "a trace");
    const std::string& path = trace->file.path();
    require(s.step >= 0, path.c_str(), "step " + std::to_string(s.step), "0 or more");
    require(s.parameter_count == trace->parameters && s.gradients != nullptr, path.c_str(),
            std::to_string(s.parameter_count) + " gradients",
            std::to_string(trace->parameters) + ", one for each parameter");
    trace::TraceStep step;
    step.step = s.step;
    step.loss = s.loss;
    step.loss_scale = s.loss_scale;
    step.lr = s.lr;
    step.time_ms = s.time_ms;
    step.is_skipped = s.is_skipped != 0;
    step.tokens = s.tokens;
    step.sample_hash = s.sample_hash;
    step.random_hash = s.random_hash;
    double square = 0;
    std::int64_t nonfinite = 0;
    for (std::size_t p = 0; p < s.parameter_count; ++p) {
      step.gradients.push_back(sums_of(read_struct(s.gradients[p], "opbound_gradient")));
      square += step.gradients.back().square;
      nonfinite += step.gradients.back().nonfinite;
      if (s.full != nullptr)
        step.full.push_back(full_print_of(read_struct(s.full[p], "opbound_full_print")));
    }
    step.gradient_norm = nonfinite > 0 ? NAN : std::sqrt(square);
    if (trace->file.last_step() >= s.step) trace->file.drop_from(s.step);
    trace->file.write(step, {});
  });
}

void opbound_trace_close(opbound_trace* trace) { delete trace; }

}  // extern "C"
