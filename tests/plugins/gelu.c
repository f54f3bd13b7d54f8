/* GELU in fp32 on the host: the smallest plug-in that is of use. */
#include <math.h>

#include "ops/provider.h"

static int run(const opbound_call* call, char* message, size_t message_size) {
  const opbound_tensor* x = opbound_tensor_named(call, "x");
  const opbound_tensor* y = opbound_tensor_named(call, "y");
  int64_t i;
  if (strcmp(call->op, "gelu") != 0 || call->compute != OPBOUND_FP32 ||
      x->element != OPBOUND_FP32 || y->element != OPBOUND_FP32) {
    strncpy(message, "gelu in fp32 only", message_size);
    return OPBOUND_UNSUPPORTED;
  }
  for (i = 0; i < x->size[0]; ++i) {
    const float value = ((const float*)x->data)[i * x->stride[0]];
    ((float*)y->data)[i * y->stride[0]] = value / 2 * erfcf(-value * 0.707106781F);
  }
  return OPBOUND_OK;
}

static const opbound_algorithm algorithms[] = {{"gelu", "forward", "erfc"}};

static const opbound_provider gelu = {.struct_size = sizeof gelu,
                                      .abi_version = OPBOUND_ABI_VERSION,
                                      .device = OPBOUND_HOST,
                                      .name = "mygelu",
                                      .version = "1.0",
                                      .run = run,
                                      .algorithm_count = 1,
                                      .algorithms = algorithms};

const opbound_provider* opbound_provider_v1(void) { return &gelu; }
