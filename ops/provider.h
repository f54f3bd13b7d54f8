/* The C interface of a plug-in: somebody else's kernels, which opbound runs and judges.
 *
 * A plug-in is a shared library that exports opbound_provider_v1, written in anything that can be
 * called from C. This header is all that it needs: strict C99, nothing to link.
 * tests/plugins/gelu.c is one of a dozen lines, tests/plugins/softmax.cu one for CUDA.
 *
 *   cc -std=c99 -shared -fPIC -I <opbound> -o libmine.so mine.c
 *   opbound run --provider ./libmine.so
 *
 * Each plug-in is opened and runs in a process of its own. One that crashes, hangs, ends its
 * process, throws, writes outside the tensors it was given or into an input, or leaves the
 * processor in another mode (flush to zero, denormals are zero, rounding, precision, traps) gives
 * a record `failed` with the reason, and the run goes on in a fresh process. Its standard output
 * goes to standard error.
 *
 * Ownership: everything in an opbound_call is opbound's and ends with the call; everything in an
 * opbound_provider is the plug-in's and stays as it is while the library is open. Calls come one
 * at a time, all from one thread.
 *
 * Versions: a struct grows only at its end. struct_size is what its writer knew of it: a reader
 * looks at no member beyond. A member left zero is one that is not there. What cannot be told that
 * way is another abi_version and another exported name. */
#ifndef OPBOUND_PROVIDER_H
#define OPBOUND_PROVIDER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPBOUND_ABI_VERSION 1
#define OPBOUND_MAX_RANK 8

/* What a function of a plug-in returns; any other number is a failure too. */
enum {
  OPBOUND_OK = 0,
  OPBOUND_UNSUPPORTED = 1, /* no kernel for such a call: a record `skipped` */
  OPBOUND_FAILED = 2       /* a record `failed` */
};

/* What a tensor is made of. Narrow formats are bits: bf16 and fp16 in 16 bits, e4m3 and e5m2 (OCP
 * FP8) in 8; tf32 is a float with 13 zeros at the end; a boolean is a byte, 0 or 1. */
enum {
  OPBOUND_FP64 = 0,
  OPBOUND_FP32 = 1,
  OPBOUND_TF32 = 2,
  OPBOUND_BF16 = 3,
  OPBOUND_FP16 = 4,
  OPBOUND_E4M3 = 5,
  OPBOUND_E5M2 = 6,
  OPBOUND_INT32 = 7,
  OPBOUND_INT64 = 8,
  OPBOUND_BOOLEAN = 9
};

/* Where tensors are. */
enum { OPBOUND_HOST = 0, OPBOUND_CUDA = 1 };

/* What the kernel does with a tensor: reads it, or writes every element of it. */
enum { OPBOUND_IN = 0, OPBOUND_OUT = 1 };

/* One tensor; `opbound list OP` shows those of each op and the order of their axes. Strides are in
 * elements; 0 repeats an axis. Inputs may have any strides and an address that is aligned to one
 * element only. Outputs hold NaN, or bytes 0x5a for integers and booleans. */
typedef struct opbound_tensor {
  size_t struct_size;
  const char* name;
  int32_t role;    /* OPBOUND_IN or OPBOUND_OUT */
  int32_t element; /* OPBOUND_FP64 to OPBOUND_BOOLEAN */
  int32_t rank;
  int64_t size[OPBOUND_MAX_RANK];
  int64_t stride[OPBOUND_MAX_RANK];
  void* data; /* NULL while the plug-in is only asked what it supports */
} opbound_tensor;

/* The type of an attribute says which member of its value is meant. */
enum { OPBOUND_FLAG = 0, OPBOUND_WHOLE = 1, OPBOUND_NUMBER = 2, OPBOUND_WORD = 3 };

typedef struct opbound_attribute {
  size_t struct_size;
  const char* name;
  int32_t type;
  union {
    int32_t flag; /* 0 or 1 */
    int64_t whole;
    double number;
    const char* word;
  } value;
} opbound_attribute;

/* One pass of an op. Tensors that its attributes leave out are not listed. The backward pass has
 * what the forward pass saved among its inputs. */
typedef struct opbound_call {
  size_t struct_size;
  const char* op;        /* "softmax" */
  const char* direction; /* "forward" or "backward" */
  const char* variant;   /* the algorithm whose turn it is, for a plug-in that has several */
  int32_t compute;       /* the format of arithmetic and accumulation */
  int32_t device;        /* OPBOUND_HOST or OPBOUND_CUDA, as the provider says */
  int32_t device_index;  /* already the current device */
  size_t attribute_count;
  const opbound_attribute* const* attributes;
  size_t tensor_count;
  const opbound_tensor* const* tensors;
  void* stream; /* a cudaStream_t; the kernel need not wait for it. NULL on the host */
  void* workspace;
  size_t workspace_size; /* bytes, as workspace_size() wanted them; aligned to 256 */
} opbound_call;

/* One kernel and what it promises: the bound that judges it holds for any kernel of that algorithm,
 * in every order of summation. */
typedef struct opbound_algorithm {
  const char* op;        /* "softmax" */
  const char* direction; /* "forward", "backward", or NULL: both, by the same variant */
  /* As `opbound list variants` names it: "division". Several, "division|reciprocal": it is one of
   * them, and the largest bound judges. NULL: any that the attributes allow. Of fp32 a matrix unit
   * counts only where the row names nothing else. Of several rows for one pass, the one that has
   * the call's variant is meant. */
  const char* variants;
} opbound_algorithm;

/* A kernel's exp, erf, ... errs by at most `ulp` units in the last place of the correctly rounded
 * result, as NVIDIA counts; 0 is correctly rounded. exp, exp2 and erfc err by at most 2 ulp + 1
 * times their exact value, too: what has vanished is 0.
 * Names: exp exp2 expm1 log log1p tanh erf erfc sin cos rsqrt pow. */
typedef struct opbound_function_error {
  const char* function;
  double ulp;
} opbound_function_error;

/* `name = value` for every record: compiler, libraries. */
typedef struct opbound_environment {
  const char* name;
  const char* value;
} opbound_environment;

/* Members from `supports` on may be left zero. A function that has something to say writes a
 * message that ends with 0 and has at most message_size bytes. */
typedef struct opbound_provider {
  size_t struct_size;  /* sizeof(opbound_provider) */
  int32_t abi_version; /* OPBOUND_ABI_VERSION */
  int32_t device;      /* where its tensors have to be: OPBOUND_HOST or OPBOUND_CUDA */
  const char* name;    /* for records: "mylib"; "own" and "file" are taken */
  const char* version; /* "1.2.3" */

  /* Computes every output of the call. */
  int (*run)(const opbound_call* call, char* message, size_t message_size);

  /* Is there a kernel for this call? Without it, run says so. */
  int (*supports)(const opbound_call* call, char* message, size_t message_size);

  /* Bytes of scratch memory that run needs, on the device if that is where the tensors are. */
  size_t (*workspace_size)(const opbound_call* call);

  /* The kernels there are. An empty list: supports or run tells, and each is any algorithm. */
  size_t algorithm_count;
  const opbound_algorithm* algorithms;

  /* Functions that are not listed are as accurate as CUDA documents its fp32 ones. */
  size_t function_count;
  const opbound_function_error* functions;

  size_t environment_count;
  const opbound_environment* environment;

  /* Why it can run nothing, such as a setting that it does not know, in one line; of the members
   * only struct_size and abi_version are read then. NULL: it can. */
  const char* refusal;

  /* Not 0: all that run does for a call on a device is to start work in its stream, on the tensors,
   * the workspace and memory that stays as it is while the library is open. Such calls may be
   * recorded once and started again without run, as a CUDA graph. */
  int32_t is_replayable;
} opbound_provider;

/* What a plug-in exports. */
#if defined(__GNUC__)
#define OPBOUND_EXPORT __attribute__((visibility("default")))
#else
#define OPBOUND_EXPORT
#endif
OPBOUND_EXPORT const opbound_provider* opbound_provider_v1(void);

/* The call's tensor of that name, or NULL. */
static inline const opbound_tensor* opbound_tensor_named(const opbound_call* call,
                                                         const char* name) {
  size_t i;
  for (i = 0; i < call->tensor_count; ++i)
    if (strcmp(call->tensors[i]->name, name) == 0) return call->tensors[i];
  return NULL;
}

/* The call's attribute of that name, or NULL. */
static inline const opbound_attribute* opbound_attribute_named(const opbound_call* call,
                                                               const char* name) {
  size_t i;
  for (i = 0; i < call->attribute_count; ++i)
    if (strcmp(call->attributes[i]->name, name) == 0) return call->attributes[i];
  return NULL;
}

#ifdef __cplusplus
}
#endif

#endif
