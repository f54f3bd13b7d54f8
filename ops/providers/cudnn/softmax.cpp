// Softmax and log-softmax, by the functions that cuDNN has had from its beginning: a graph of them
// would be one of exp and sums.
#include <string>

#include "ops/providers/cudnn/kernels.hpp"
#include "ops/providers/cudnn/library.hpp"

namespace opbound::with_cudnn {
namespace {

cudnnDataType_t type_of(int element) {
  switch (element) {
    case OPBOUND_FP64:
      return CUDNN_DATA_DOUBLE;
    case OPBOUND_FP32:
      return CUDNN_DATA_FLOAT;
    case OPBOUND_BF16:
      return CUDNN_DATA_BFLOAT16;
    case OPBOUND_FP16:
      return CUDNN_DATA_HALF;
    default:
      throw Unsupported("its softmax has no format " + name_of(element));
  }
}

/// A matrix as cuDNN takes it: one image a row, one channel a column.
class Descriptor {
 public:
  explicit Descriptor(const opbound_tensor& t) {
    const Library& l = Library::get();
    l.check(l.symbol<decltype(cudnnCreateTensorDescriptor)>("cudnnCreateTensorDescriptor")(&made_),
            "cudnnCreateTensorDescriptor");
    const auto rows = static_cast<int>(t.size[0]), n = static_cast<int>(t.size[1]);
    const auto row = static_cast<int>(t.stride[0]), column = static_cast<int>(t.stride[1]);
    const auto set =
        l.symbol<decltype(cudnnSetTensor4dDescriptorEx)>("cudnnSetTensor4dDescriptorEx");
    try {
      l.check(set(made_, type_of(t.element), rows, n, 1, 1, row, column, 1, 1),
              "cudnnSetTensor4dDescriptorEx");
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~Descriptor() { destroy(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  cudnnTensorDescriptor_t get() const { return made_; }

 private:
  void destroy() {
    Library::get().symbol<decltype(cudnnDestroyTensorDescriptor)>("cudnnDestroyTensorDescriptor")(
        made_);
  }

  cudnnTensorDescriptor_t made_ = nullptr;
};

void forward(const Call& c, cudnnSoftmaxAlgorithm_t algorithm, const void* one, const void* zero) {
  const Library& l = Library::get();
  const opbound_tensor &x = c.tensor("x"), &y = c.tensor("y");
  const Descriptor of_x(x), of_y(y);
  l.check(l.symbol<decltype(cudnnSoftmaxForward)>("cudnnSoftmaxForward")(
              l.handle_on(c.get().stream), algorithm, CUDNN_SOFTMAX_MODE_INSTANCE, one, of_x.get(),
              x.data, zero, of_y.get(), y.data),
          "cudnnSoftmaxForward");
}

void backward(const Call& c, cudnnSoftmaxAlgorithm_t algorithm, const void* one, const void* zero) {
  const Library& l = Library::get();
  const opbound_tensor &y = c.tensor("y"), &dy = c.tensor("dy"), &dx = c.tensor("dx");
  const Descriptor of_y(y), of_dy(dy), of_dx(dx);
  l.check(l.symbol<decltype(cudnnSoftmaxBackward)>("cudnnSoftmaxBackward")(
              l.handle_on(c.get().stream), algorithm, CUDNN_SOFTMAX_MODE_INSTANCE, one, of_y.get(),
              y.data, of_dy.get(), dy.data, zero, of_dx.get(), dx.data),
          "cudnnSoftmaxBackward");
}

void softmax(const Call& c) {
  c.require_elements();
  const opbound_call& call = c.get();
  for (std::size_t i = 0; i < call.tensor_count; ++i) {
    require_aligned(*call.tensors[i]);
    require(call.tensors[i]->element == call.tensors[0]->element, "its softmax has one format");
  }
  // its two factors are doubles for fp64 and floats for everything else
  const double one = 1, zero = 0;
  const float narrow_one = 1, narrow_zero = 0;
  const bool is_wide = call.tensors[0]->element == OPBOUND_FP64;
  const void* factors[] = {&one, &zero};
  const void* narrow[] = {&narrow_one, &narrow_zero};
  const void* const* used = is_wide ? factors : narrow;
  (c.is_backward() ? backward : forward)(
      c, c.flag("log") ? CUDNN_SOFTMAX_LOG : CUDNN_SOFTMAX_ACCURATE, used[0], used[1]);
}

}  // namespace

// CUDNN_SOFTMAX_ACCURATE and _LOG subtract the maximum (cudnnSoftmaxAlgorithm_t in the
// documentation of cuDNN). Whether a row's sum divides or its reciprocal multiplies, and whether
// maximum and sum are made in one pass, is not said: it is one of these. The backward pass has the
// y it is given, and one form for all of them.
void add_softmax(Kernels& kernels) {
  kernels.push_back(
      {"softmax", nullptr, "division|reciprocal|log_of_sum|online", true, nullptr, softmax});
}

}  // namespace opbound::with_cudnn
