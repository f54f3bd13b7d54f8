/* libopbound from C: a trace of two steps, a kernel judged over its suite, a call judged on its
 * tensors. Prints what is not as it should be; exit code 1 then.
 *
 *   cc -std=c99 -I <opbound> client.c -L build -lopbound -lm */
#include <math.h>
#include <stdio.h>

#include "tools/python/library/opbound.h"

static char message[1024];
static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s (%s)\n", what, message);
  ++failures;
}

static void write_trace(const char* path) {
  const int64_t shape[] = {2, 3};
  const float g[] = {1, -2, 3, -4, 5, NAN};
  const opbound_trace_parameter w = {sizeof w, "w", "matmul", 0, 2, shape};
  const opbound_trace_parameter* const parameters[] = {&w};
  opbound_trace_head head = {sizeof head};
  opbound_trace_step step = {sizeof step};
  opbound_gradient sums = {sizeof sums}, halves = {sizeof halves};
  opbound_gradient two[] = {{sizeof sums}, {sizeof sums}}, added = {sizeof added};
  const opbound_gradient* const gradients[] = {&sums};
  opbound_trace* trace = NULL;
  head.path = path;
  head.source = "client.c";
  head.device = "cpu";
  head.ranks = 1;
  head.parameter_count = 1;
  head.parameters = parameters;
  expect(opbound_trace_open(&head, &trace, message, sizeof message) == OPBOUND_OK, "it opens");
  expect(opbound_add_gradient("w", 0, 6, OPBOUND_FP32, g, &sums, message, sizeof message) ==
                 OPBOUND_OK &&
             sums.count == 6 && sums.nonfinite == 1 && sums.square == 55,
         "sums");
  opbound_add_gradient("w", 0, 2, OPBOUND_FP32, g, &halves, message, sizeof message);
  opbound_add_gradient("w", 2, 4, OPBOUND_FP32, g + 2, &halves, message, sizeof message);
  expect(memcmp(&sums, &halves, sizeof sums) == 0, "parts add up");
  opbound_add_gradient("w", 0, 2, OPBOUND_FP32, g, &two[0], message, sizeof message);
  opbound_add_gradient("w", 2, 4, OPBOUND_FP32, g + 2, &two[1], message, sizeof message);
  expect(opbound_add_sums(2, two, &added, message, sizeof message) == OPBOUND_OK &&
             memcmp(&sums, &added, sizeof sums) == 0,
         "sums of parts add up");
  step.parameter_count = 1;
  step.gradients = gradients;
  for (step.step = 0; step.step < 2; ++step.step)
    expect(opbound_trace_write(trace, &step, message, sizeof message) == OPBOUND_OK, "it writes");
  expect(opbound_trace_last_step(trace) == 1, "its last step is 1");
  step.parameter_count = 2;
  expect(opbound_trace_write(trace, &step, message, sizeof message) == OPBOUND_FAILED &&
             strstr(message, "2 gradients") != NULL,
         "a wrong count is refused");
  opbound_trace_close(trace);
  expect(opbound_trace_open(&head, &trace, message, sizeof message) == OPBOUND_FAILED &&
             strstr(message, "there is a file already") != NULL,
         "a file is not written over");
}

static int run(const opbound_call* call, char* text, size_t size) {
  const opbound_tensor* x = opbound_tensor_named(call, "x");
  const opbound_tensor* y = opbound_tensor_named(call, "y");
  int64_t i;
  (void)text, (void)size;
  for (i = 0; i < x->size[0]; ++i)
    ((float*)y->data)[i * y->stride[0]] =
        (float)(((const float*)x->data)[i * x->stride[0]] / 2.0 *
                erfc(((const float*)x->data)[i * x->stride[0]] * -0.70710678118654752440));
  return OPBOUND_OK;
}

struct count {
  int within, others;
};

static void count(void* user, const char* record) {
  struct count* c = user;
  if (strstr(record, "\"verdict\":\"within\"") != NULL)
    ++c->within;
  else
    ++c->others;
}

static void judge(void) {
  opbound_session* session = NULL;
  const opbound_algorithm algorithm = {"gelu", "forward", "erfc"};
  opbound_provider provider = {sizeof provider, OPBOUND_ABI_VERSION, OPBOUND_HOST, "client", "1"};
  const opbound_judged what = {sizeof what, "gelu", "fp32", "forward", 0, NULL, 0, NULL};
  const opbound_suite_choice choice = {sizeof choice, NULL, NULL, "", 0, NULL};
  const opbound_call_choice whole = {sizeof whole, 1, -1, 1, 0, 0, NULL, 0, NULL};
  const float in[] = {-1, 0, 2};
  float out[] = {-0.15865525F, 0, 1.9544997F};
  const opbound_tensor x = {sizeof x, "x", OPBOUND_IN, OPBOUND_FP32, 1, {3}, {1}, (void*)in};
  const opbound_tensor y = {sizeof y, "y", OPBOUND_OUT, OPBOUND_FP32, 1, {3}, {1}, out};
  const opbound_tensor* const tensors[] = {&x, &y};
  struct count all = {0, 0}, right = {0, 0}, wrong = {0, 0};
  provider.run = run;
  provider.algorithm_count = 1;
  provider.algorithms = &algorithm;
  expect(
      opbound_session_open("no/such/program", &session, message, sizeof message) == OPBOUND_FAILED,
      "a program that is not there is told");
  expect(opbound_session_open(NULL, &session, message, sizeof message) == OPBOUND_OK, "a session");
  expect(opbound_verify(session, &what, &choice, &provider, count, &all, message, sizeof message) ==
                 OPBOUND_OK &&
             all.within > 0 && all.others == 0,
         "a kernel keeps its bound");
  expect(opbound_judge(session, &what, &whole, &provider, 2, tensors, count, &right, message,
                       sizeof message) == OPBOUND_OK &&
             right.within == 1 && right.others == 0,
         "a call keeps its bound");
  out[0] += 1e-4F;
  expect(opbound_judge(session, &what, &whole, &provider, 2, tensors, count, &wrong, message,
                       sizeof message) == OPBOUND_OK &&
             wrong.within == 0 && wrong.others == 1,
         "a wrong one does not");
  expect(opbound_judge(session, &what, &whole, &provider, 1, tensors + 1, count, &wrong, message,
                       sizeof message) == OPBOUND_FAILED &&
             strstr(message, "x[n]") != NULL && strchr(message, '\n') == NULL,
         "a tensor that is missing is named in one line");
  opbound_session_close(session);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  remove(argv[1]);
  write_trace(argv[1]);
  judge();
  if (failures == 0) puts("all as it should be");
  return failures > 0 ? 1 : 0;
}
