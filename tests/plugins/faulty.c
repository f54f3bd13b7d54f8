/* GELU as gelu.c has it, broken in the way that OPBOUND_TEST_FAULT names: where the fault is one of
 * a call, in calls on 64 elements only. */
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "ops/provider.h"

static int fault_is(const char* name) {
  const char* fault = getenv("OPBOUND_TEST_FAULT");
  return fault != NULL && strcmp(fault, name) == 0;
}

static void set_mode(unsigned bits) {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | bits);
#else
  (void)bits;
  fesetround(FE_TOWARDZERO);
#endif
}

static void hang(void) {
  for (;;) getenv("OPBOUND_TEST_FAULT");
}

/* What fast-math start-up code does, and what may go wrong in it. */
__attribute__((constructor)) static void load(void) {
  if (fault_is("ftz at load")) set_mode(0x8040);
  if (fault_is("crash at load")) abort();
  if (fault_is("hang at load")) hang();
}

static int64_t elements; /* of the call */

static int breaks_by(const char* name) { return elements == 64 && fault_is(name); }

static void misbehave(const opbound_call* call, const opbound_tensor* x, const opbound_tensor* y) {
  float* out = (float*)y->data;
  const int64_t n = elements;
  if (breaks_by("crash")) *(volatile int*)NULL = 1;
  if (breaks_by("crash far away")) out[(int64_t)1 << 40] = 1;
  if (breaks_by("hang")) hang();
  if (breaks_by("exit")) exit(3);
  if (breaks_by("prints")) puts("a line of its own");
  if (breaks_by("nan")) out[n / 2] = NAN;
  if (breaks_by("behind")) out[n] = 1;
  if (breaks_by("before")) out[-3] = 1;
  if (breaks_by("next tensor")) memset(out + n, 0, 5000);
  if (breaks_by("input")) ((float*)x->data)[1] = 1;
  if (breaks_by("workspace")) ((char*)call->workspace)[call->workspace_size] = 1;
  if (breaks_by("shape")) ((opbound_tensor*)y)->size[0] = n / 2;
  if (breaks_by("ftz")) set_mode(0x8000);
  if (breaks_by("daz")) set_mode(0x0040);
  if (breaks_by("rounding")) fesetround(FE_UPWARD);
}

static int run(const opbound_call* call, char* message, size_t message_size) {
  const opbound_tensor* x = opbound_tensor_named(call, "x");
  const opbound_tensor* y = opbound_tensor_named(call, "y");
  const float* in = (const float*)x->data;
  int64_t i;
  elements = y->size[0];
  if (breaks_by("liar")) return OPBOUND_UNSUPPORTED;
  if (breaks_by("status")) return 7;
  if (breaks_by("says so")) {
    strncpy(message, "no luck today", message_size);
    return OPBOUND_FAILED;
  }
  if (breaks_by("unwritten")) return OPBOUND_OK;
  for (i = 0; i < elements; ++i) {
    const float value = in[i * x->stride[0]];
    ((float*)y->data)[i * y->stride[0]] = value / 2 * erfcf(-value * 0.707106781F);
  }
  misbehave(call, x, y);
  return OPBOUND_OK;
}

static int supports(const opbound_call* call, char* message, size_t message_size) {
  const opbound_tensor* y = opbound_tensor_named(call, "y");
  if (fault_is("crash in supports")) abort();
  if (y != NULL && y->element == OPBOUND_FP32 && strcmp(call->direction, "forward") == 0)
    return OPBOUND_OK;
  strncpy(message, "fp32 only, forward", message_size);
  return OPBOUND_UNSUPPORTED;
}

static size_t workspace_size(const opbound_call* call) {
  (void)call;
  return fault_is("greedy") ? (size_t)-1 : 100;
}

const opbound_provider* opbound_provider_v1(void) {
  static opbound_algorithm algorithms[] = {{"gelu", "forward", "erfc|one_plus_erf"}};
  static opbound_function_error functions[] = {{"erfc", 4}};
  static const opbound_environment environment[] = {{"mood", "bad"}};
  static opbound_provider p = {.struct_size = sizeof p,
                               .abi_version = OPBOUND_ABI_VERSION,
                               .name = "faulty",
                               .run = run,
                               .supports = supports,
                               .workspace_size = workspace_size,
                               .algorithm_count = 1,
                               .algorithms = algorithms,
                               .function_count = 1,
                               .functions = functions,
                               .environment_count = 1,
                               .environment = environment};
  if (fault_is("null")) return NULL;
  if (fault_is("refusal")) p.refusal = "FAULTY_SETTING is 'perhaps', expected on or off";
  if (fault_is("struct_size")) p.struct_size = 16;
  if (fault_is("abi_version")) p.abi_version = 2;
  if (fault_is("device")) p.device = 5;
  if (fault_is("nameless")) p.name = NULL;
  if (fault_is("named own")) p.name = "own";
  if (fault_is("no run")) p.run = NULL;
  if (fault_is("op")) algorithms[0].op = "gleu";
  if (fault_is("direction")) algorithms[0].direction = "sideways";
  if (fault_is("variant")) algorithms[0].variants = "erfc|tanhh";
  if (fault_is("function")) functions[0].function = "erfcf";
  if (fault_is("ulp")) functions[0].ulp = -1;
  if (fault_is("old")) p.struct_size = offsetof(opbound_provider, algorithm_count);
  return &p;
}
