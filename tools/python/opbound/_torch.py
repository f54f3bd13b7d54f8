"""Tensors of torch as libopbound sees them."""
import ctypes

import torch

from opbound import _library

_NAMES = {"fp64": "float64", "fp32": "float32", "tf32": "float32", "bf16": "bfloat16",
          "fp16": "float16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "int32": "int32",
          "int64": "int64", "boolean": "bool"}
ELEMENTS = list(_NAMES)
_DTYPES = {name: getattr(torch, word, None) for name, word in _NAMES.items()}
_FORMATS = {dtype: name for name, dtype in _DTYPES.items() if dtype is not None and name != "tf32"}


def dtype_of(element):
    """Of the number of an element; NotImplementedError where this torch has none."""
    name = ELEMENTS[element]
    if _DTYPES[name] is None:
        raise NotImplementedError(f"torch {torch.__version__} has no {name}")
    return _DTYPES[name]


def format_of(dtype):
    """ "bf16" of torch.bfloat16; None of what opbound has no name for."""
    return _FORMATS.get(dtype)


def element_of(dtype):
    name = format_of(dtype)
    if name is None:
        raise _library.Error(f"a tensor of {dtype}, expected one of {', '.join(_NAMES.values())}")
    return ELEMENTS.index(name)


def on_host(tensor):
    """Its elements on the host, contiguous; a device's are copied."""
    return tensor.detach().cpu().contiguous()


def struct_of(name, tensor, role):
    """A contiguous host tensor as the C interface has it; keeps the tensor."""
    t = _library.Tensor(name=name.encode(), role=role, element=element_of(tensor.dtype),
                        rank=tensor.dim(), data=tensor.data_ptr())
    for axis in range(tensor.dim()):
        t.size[axis], t.stride[axis] = tensor.shape[axis], tensor.stride(axis)
    t.kept = tensor
    return t


def view_of(struct):
    """The memory of a C tensor as a tensor of torch, as long as the memory is there."""
    dtype = dtype_of(struct.element)
    size, stride = list(struct.size[:struct.rank]), list(struct.stride[:struct.rank])
    if 0 in size:
        return torch.empty(size, dtype=dtype)
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride))
    width = torch.empty((), dtype=dtype).element_size()
    memory = (ctypes.c_char * (extent * width)).from_address(struct.data)
    words = torch.frombuffer(memory, dtype=torch.uint8 if width == 1 else dtype)
    return words.view(dtype).as_strided(size, stride)


def copy_of(view, device):
    """Elsewhere, with the same strides."""
    copy = torch.empty_strided(view.size(), view.stride(), dtype=view.dtype, device=device)
    if 0 in view.stride() and view.numel() > 0:  # a broadcast axis: one element of each
        first = tuple(slice(0, 1) if s == 0 else slice(None) for s in view.stride())
        copy[first].copy_(view[first])
        return copy
    return copy.copy_(view)


def function_errors(device):
    """What torch's exp, tanh, erf, ... err by, in ulp. On CPUs SLEEF's u10 functions are within 1,
    exp_u20, which attention and softmax use since 2.1, within 5.71 (ops/providers/torch); on
    devices they are as CUDA documents them: nothing to say."""
    if device != "cpu":
        return []
    names = ["exp2", "expm1", "log", "log1p", "tanh", "erf", "erfc", "sin", "cos", "rsqrt", "pow"]
    is_old = int(torch.__version__.split(".")[0]) < 2
    return [(name, 1.0) for name in names] + [("exp", 1.0 if is_old else 6.0)]


def device_name(device):
    device = torch.device(device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def provider_struct(name, device, algorithms=(), run=None, functions=None):
    """An opbound_provider of torch's kernels on that device; keeps what it points at."""
    if functions is None:
        functions = function_errors(torch.device(device).type)
    listed = [tuple(None if w is None else w.encode() for w in row) for row in algorithms]
    errors = [(f.encode(), float(ulp)) for f, ulp in functions]
    environment = [(b"device", device_name(device).encode()),
                   (b"torch threads", str(torch.get_num_threads()).encode())]
    p = _library.Provider(abi_version=1, device=0, name=name.encode(),
                          version=torch.__version__.encode(), algorithm_count=len(listed),
                          function_count=len(errors), environment_count=len(environment))
    p.algorithms = (_library.Algorithm * len(listed))(*listed)
    p.functions = (_library.FunctionError * len(errors))(*errors)
    p.environment = (_library.Environment * len(environment))(*environment)
    if run is not None:
        p.run = run
    return p
