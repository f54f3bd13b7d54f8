/* Matrix products in fp32 on the host, each a sum in eight lanes that are added pair by pair: an
 * order that opbound reveal finds. OPBOUND_TEST_ORDER names what the order depends on: the data,
 * the call before (again), the batch (alone), or the address (unaligned). */
#include <stdint.h>
#include <stdlib.h>

#include "ops/provider.h"

static float at(const opbound_tensor* t, int64_t i, int64_t j) {
  return ((const float*)t->data)[i * t->stride[0] + j * t->stride[1]];
}

static int order_is(const char* name) {
  const char* order = getenv("OPBOUND_TEST_ORDER");
  return order != NULL && strcmp(order, name) == 0;
}

static int is_other_order(const opbound_tensor* a, int64_t i, int64_t calls) {
  if (order_is("data")) return at(a, i, a->size[1] - 1) < 0;
  if (order_is("again")) return calls % 2 == 1;
  if (order_is("alone")) return a->size[0] == 1;
  return order_is("unaligned") && (uintptr_t)a->data % 16 != 0;
}

static float dot(const opbound_tensor* a, const opbound_tensor* b, int64_t i, int64_t j,
                 int64_t calls) {
  float lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  const int64_t k = a->size[1];
  const int first = is_other_order(a, i, calls) ? 3 : 0;
  int s, t;
  int64_t p;
  for (p = 0; p < k; ++p) lane[(p + first * (p / 8)) % 8] += at(a, i, p) * at(b, p, j);
  for (s = 4; s > 0; s /= 2)
    for (t = 0; t < s; ++t) lane[t] += lane[t + s];
  return lane[0];
}

static int run(const opbound_call* call, char* message, size_t message_size) {
  const opbound_tensor* a = opbound_tensor_named(call, "a");
  const opbound_tensor* b = opbound_tensor_named(call, "b");
  const opbound_tensor* d = opbound_tensor_named(call, "d");
  static int64_t calls = 0;
  int64_t i, j;
  if (call->compute != OPBOUND_FP32 || a->element != OPBOUND_FP32 || d->element != OPBOUND_FP32 ||
      opbound_tensor_named(call, "c") != NULL || opbound_tensor_named(call, "bias") != NULL ||
      opbound_attribute_named(call, "alpha")->value.number != 1) {
    strncpy(message, "plain fp32 products only", message_size);
    return OPBOUND_UNSUPPORTED;
  }
  for (i = 0; i < d->size[0]; ++i)
    for (j = 0; j < d->size[1]; ++j)
      ((float*)d->data)[i * d->stride[0] + j * d->stride[1]] = dot(a, b, i, j, calls);
  ++calls;
  return OPBOUND_OK;
}

static const opbound_algorithm algorithms[] = {{"matmul", "forward", "sequential"}};

static const opbound_provider dots = {.struct_size = sizeof dots,
                                      .abi_version = OPBOUND_ABI_VERSION,
                                      .device = OPBOUND_HOST,
                                      .name = "dots",
                                      .version = "1.0",
                                      .run = run,
                                      .algorithm_count = 1,
                                      .algorithms = algorithms};

const opbound_provider* opbound_provider_v1(void) { return &dots; }
