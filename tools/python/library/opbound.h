/* The C interface of libopbound: traces of training runs and judgements, from any program.
 *
 * A trace (distributed/trace/README.md) is written by the caller's own process. What is judged, is
 * judged by the program `opbound` in a process of its own, a session: nothing that happens there,
 * an abort included, ends the caller, and the caller's processor mode and threads do not reach it.
 *
 * Rules. Every function that can fail returns OPBOUND_OK, or OPBOUND_FAILED with one line in
 * `message`: at most message_size bytes, ended by 0, never an exception. Structs begin with their
 * own size, as the caller's compiler knows it; members beyond are taken as zero. What the caller
 * hands over stays the caller's and is not looked at after the call. A trace or a session is used
 * by one thread at a time; different ones by different threads. */
#ifndef OPBOUND_H
#define OPBOUND_H

#include "ops/provider.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "opbound 0.1.0 1a2b3c4" */
OPBOUND_EXPORT const char* opbound_version(void);

/* ---- gradients ------------------------------------------------------------------------------- */

#define OPBOUND_SKETCH_WIDTH 64
#define OPBOUND_LARGEST 10
#define OPBOUND_SHARES 8

/* Sums over a part of a gradient, which add up over parts: shards, ranks, micro-batches
 * (distributed/trace/fingerprint.hpp has the formulas). What is not finite is counted, and left out
 * of the other sums. */
typedef struct opbound_gradient {
  size_t struct_size;
  int64_t count, nonfinite;
  double sum, square;
  uint64_t hash; /* of bits and places; parts' hashes add modulo 2^64 */
  double sketch[OPBOUND_SKETCH_WIDTH];
} opbound_gradient;

/* Adds elements [first, first + count) of the parameter of this name, counted row-major, to `sums`,
 * which the caller has set to zero but for struct_size. They lie at `data` on the host, contiguous,
 * in format `element` (OPBOUND_FP64 to OPBOUND_E5M2; integers too, for hashes of samples). */
OPBOUND_EXPORT int opbound_add_gradient(const char* parameter, int64_t first, int64_t count,
                                        int32_t element, const void* data, opbound_gradient* sums,
                                        char* message, size_t message_size);

/* Adds `count` sums, which lie one behind the other, each of the struct_size of the first, to
 * `sums`, in their order: what a device has summed block by block, for instance
 * (tools/python/opbound/_fingerprint.py). */
OPBOUND_EXPORT int opbound_add_sums(int64_t count, const opbound_gradient* parts,
                                    opbound_gradient* sums, char* message, size_t message_size);

/* What costs more than a pass over the gradient. */
typedef struct opbound_full_print {
  size_t struct_size;
  int64_t largest_count, share_count; /* how many of these there are */
  int64_t largest[OPBOUND_LARGEST];   /* places of the largest elements by magnitude */
  double shares[OPBOUND_SHARES];      /* sigma_i^2 / |G|_F^2; of matrices */
  double update_to_weight;            /* |w' - w| / |w| */
  double lost_updates;  /* of elements with a gradient, the share whose weight stayed as it was */
  uint64_t weight_hash; /* of w' */
} opbound_full_print;

/* A whole parameter: its gradient, its weight before and after the update, on the host, contiguous.
 * `rank` is 1 to 4; sizes are those of the parameter. */
OPBOUND_EXPORT int opbound_print_in_full(const char* parameter, int32_t rank, const int64_t* shape,
                                         int32_t gradient_element, const void* gradient,
                                         int32_t weight_element, const void* before,
                                         const void* after, opbound_full_print* print,
                                         char* message, size_t message_size);

/* ---- traces ---------------------------------------------------------------------------------- */

typedef struct opbound_trace opbound_trace;

typedef struct opbound_trace_parameter {
  size_t struct_size;
  const char* name; /* each once */
  const char* op;   /* that reads it: "matmul"; may be empty */
  int32_t layer;    /* -1: none */
  int32_t rank;
  const int64_t* shape;
} opbound_trace_parameter;

typedef struct opbound_trace_head {
  size_t struct_size;
  const char* path;        /* of the file */
  int32_t goes_on;         /* 0: a new file; 1: one that is there, of the same parameters */
  int32_t reserved;        /* 0 */
  const char* source;      /* who writes it: "pytorch 2.11" */
  const char* device;      /* "cpu", "NVIDIA H200" */
  const char* data_sha256; /* NULL: not known */
  int64_t ranks;           /* 1 or more */
  size_t environment_count;
  const opbound_environment* environment;
  size_t parameter_count;
  const opbound_trace_parameter* const* parameters;
} opbound_trace_head;

typedef struct opbound_trace_step {
  size_t struct_size;
  int64_t step; /* each once; where one is there already, it and all later ones are forgotten */
  double loss, loss_scale, lr, time_ms;
  int32_t is_skipped; /* the optimizer left the weights as they were */
  int32_t reserved;   /* 0 */
  int64_t tokens;
  uint64_t sample_hash, random_hash; /* 0: not known */
  size_t parameter_count;            /* as in the head, in its order */
  const opbound_gradient* const* gradients;
  const opbound_full_print* const* full; /* NULL: not of this step */
} opbound_trace_step;

OPBOUND_EXPORT int opbound_trace_open(const opbound_trace_head* head, opbound_trace** trace,
                                      char* message, size_t message_size);
/* The last step in the file; -1: none. */
OPBOUND_EXPORT int64_t opbound_trace_last_step(opbound_trace* trace);
/* Whole or not at all, whenever the process is killed. */
OPBOUND_EXPORT int opbound_trace_write(opbound_trace* trace, const opbound_trace_step* step,
                                       char* message, size_t message_size);
OPBOUND_EXPORT void opbound_trace_close(opbound_trace* trace);

/* ---- judgements ------------------------------------------------------------------------------ */

typedef struct opbound_session opbound_session;

/* `program`: the file of the program `opbound`; NULL: the one beside this library. */
OPBOUND_EXPORT int opbound_session_open(const char* program, opbound_session** session,
                                        char* message, size_t message_size);
OPBOUND_EXPORT void opbound_session_close(opbound_session* session);

/* Gets each record, one line of JSON without the newline (reports/README.md). */
typedef void (*opbound_record_sink)(void* user, const char* record);

/* What is judged, in the words of the command line: `opbound list OP` shows them. */
typedef struct opbound_judged {
  size_t struct_size;
  const char* op;        /* "softmax" */
  const char* precision; /* "bf16:fp32:bf16" */
  const char* direction; /* "forward", "backward_local" or "backward_full" */
  size_t attribute_count;
  const char* const* attributes; /* "log=true" */
  size_t variant_count;
  const char* const* variants; /* the kernel is one of them; none: any that the attributes allow */
} opbound_judged;

/* Judges a kernel over the op's suite. Its `run` is called for each case, from this thread, with
 * memory that opbound shares; it is bound by everything that ops/provider.h says of plug-ins. It is
 * run in the caller's process, which it can therefore end. device has to be OPBOUND_HOST. Of
 * `what`, variants are not read: the provider's algorithms say them. */
typedef struct opbound_suite_choice {
  size_t struct_size;
  const char* suite; /* the file; NULL: the op's own, beside the program or above it */
  const char* tier;  /* "quick", "full" or "nightly"; NULL: "quick" */
  const char* only;  /* cases whose name or description contains this; NULL: all */
  size_t free_count; /* attributes that may have any value; others that are not given have their
                        defaults */
  const char* const* free;
  const char* allow_vacuous; /* why a bound that says nothing is no finding; NULL: it is one */
} opbound_suite_choice;
OPBOUND_EXPORT int opbound_verify(opbound_session* session, const opbound_judged* what,
                                  const opbound_suite_choice* choice,
                                  const opbound_provider* provider, opbound_record_sink sink,
                                  void* user, char* message, size_t message_size);

/* Judges tensors that a kernel read and wrote, as `opbound check` does. Of outputs that are not
 * given there are no records. Leading axes beyond an op's own become one with its first. */
typedef struct opbound_call_choice {
  size_t struct_size;
  int32_t certified; /* 1: every element; 0: blocks that the seed draws, a product by random signs
                        too (distributed/trace/call_judge.hpp) */
  int32_t layer;     /* for records: -1: none */
  uint64_t seed;
  int64_t step, call; /* for records */
  const char* part;   /* for records: "blocks.0.norm"; NULL: the op */
  size_t size_count;  /* sizes that no tensor has: "pairs=32" */
  const char* const* sizes;
} opbound_call_choice;
/* Of `provider` name, version, functions and environment are read. */
OPBOUND_EXPORT int opbound_judge(opbound_session* session, const opbound_judged* what,
                                 const opbound_call_choice* choice,
                                 const opbound_provider* provider, size_t tensor_count,
                                 const opbound_tensor* const* tensors, opbound_record_sink sink,
                                 void* user, char* message, size_t message_size);

#ifdef __cplusplus
}
#endif

#endif
