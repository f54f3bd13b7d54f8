/* GELU in fp32, forward and backward, for training. With OPBOUND_TEST_FAULT "slope" the gradient is
 * a thousandth too large. */
#include <math.h>
#include <stdlib.h>

#include "ops/provider.h"

static float half_erfc(float x) { return erfcf(-x * 0.707106781F) / 2; }

static int run(const opbound_call* call, char* message, size_t message_size) {
  const opbound_tensor* x = opbound_tensor_named(call, "x");
  const opbound_tensor* y = opbound_tensor_named(call, "y");
  const opbound_tensor* dy = opbound_tensor_named(call, "dy");
  const opbound_tensor* dx = opbound_tensor_named(call, "dx");
  const char* fault = getenv("OPBOUND_TEST_FAULT");
  const int is_steep = fault != NULL && strcmp(fault, "slope") == 0;
  int64_t i;
  (void)message;
  (void)message_size;
  for (i = 0; i < x->size[0]; ++i) {
    const float v = ((const float*)x->data)[i * x->stride[0]];
    if (dx == NULL) {
      ((float*)y->data)[i * y->stride[0]] = v * half_erfc(v);
    } else {
      const float slope = half_erfc(v) + v * (0.398942280F * expf(-(v * v / 2)));
      const float g = ((const float*)dy->data)[i * dy->stride[0]] * slope;
      ((float*)dx->data)[i * dx->stride[0]] = is_steep ? g * 1.001F : g;
    }
  }
  return OPBOUND_OK;
}

static int supports(const opbound_call* call, char* message, size_t message_size) {
  if (call->compute == OPBOUND_FP32) return OPBOUND_OK;
  strncpy(message, "fp32 only", message_size);
  return OPBOUND_UNSUPPORTED;
}

static const opbound_algorithm algorithms[] = {{"gelu", "forward", "erfc"},
                                               {"gelu", "backward", "erfc"}};
static const opbound_function_error functions[] = {{"erfc", 4}, {"exp", 1}};

static const opbound_provider gelu = {.struct_size = sizeof gelu,
                                      .abi_version = OPBOUND_ABI_VERSION,
                                      .device = OPBOUND_HOST,
                                      .name = "trained_gelu",
                                      .version = "1.0",
                                      .run = run,
                                      .supports = supports,
                                      .algorithm_count = 2,
                                      .algorithms = algorithms,
                                      .function_count = 2,
                                      .functions = functions};

const opbound_provider* opbound_provider_v1(void) { return &gelu; }
