"""Which of opbound's ops a call of aten is, and which tensor is which."""
import torch

from opbound import _attention, _losses, _torch
from opbound._known import Known, flat, rows, rows_along


def _softmax(log):
    def known(x, dim, half_to_float, *, result):
        return Known("softmax", "forward", {"x": rows_along(x, dim)},
                     {"y": rows_along(result, dim)}, {"log": log}, "x", "y")
    return known


def _softmax_backward(log):
    def known(dy, y, dim, input_dtype, *, result):
        return Known("softmax", "backward_local",
                     {"y": rows_along(y, dim), "dy": rows_along(dy, dim)},
                     {"dx": rows_along(result, dim)}, {"log": log}, "dx", "y")
    return known


def _affine(weight, bias):
    return "none" if weight is None else "weight" if bias is None else "weight_and_bias"


def _normalized(t, shape):
    n = 1
    for size in shape:
        n *= size
    return t.reshape(-1, n)


def _layer_norm(x, shape, weight, bias, eps, *, result):
    y, mean, rstd = result
    inputs = {"x": _normalized(x, shape), "gamma": weight, "beta": bias}
    outputs = {"y": _normalized(y, shape), "mean": mean, "rstd": rstd}
    return Known("layer_norm", "forward",
                 {k: v if k == "x" or v is None else flat(v) for k, v in inputs.items()},
                 {k: v if k == "y" else flat(v) for k, v in outputs.items()},
                 {"eps": eps, "affine": _affine(weight, bias)}, "x", "y")


def _layer_norm_backward(dy, x, shape, mean, rstd, weight, bias, mask, *, result):
    inputs = {"x": _normalized(x, shape), "gamma": weight if weight is None else flat(weight),
              "mean": flat(mean), "rstd": flat(rstd), "dy": _normalized(dy, shape)}
    outputs = {}
    for name, t, is_wanted in zip(("dx", "dgamma", "dbeta"), result, mask):
        if t is not None and is_wanted:
            outputs[name] = _normalized(t, shape) if name == "dx" else flat(t)
    return Known("layer_norm", "backward_local", inputs, outputs,
                 {"affine": _affine(weight, bias)}, "x", "dy")


def _gelu(x, approximate="none", *, result):
    return Known("gelu", "forward", {"x": flat(x)}, {"y": flat(result)},
                 {"approximate": approximate}, "x", "y")


def _gelu_backward(dy, x, approximate="none", *, result):
    return Known("gelu", "backward_local", {"x": flat(x), "dy": flat(dy)},
                 {"dx": flat(result)}, {"approximate": approximate}, "x", "dy")


def _units(dtype, device):
    """The matrix unit of a device that may cut fp32 to tf32."""
    if device.type != "cuda" or dtype is not torch.float32:
        return ()
    if not torch.backends.cuda.matmul.allow_tf32:
        return ()
    major = torch.cuda.get_device_capability(device)[0]
    return {8: ("ampere",), 9: ("hopper",)}.get(major, ())


def _mm(a, b, *, result):
    return Known("matmul", "forward", {"a": a, "b": b}, {"d": result}, {}, "a", "d",
                 _units(a.dtype, a.device))


def _addmm(c, a, b, *, beta=1, alpha=1, result):
    known = _mm(a, b, result=result)
    if c.dim() == 1 and c.shape[0] == b.shape[1] and beta == 1:
        known.inputs["bias"] = c
        known.attributes = {"bias": True, "alpha": float(alpha)}
    else:
        known.inputs["c"] = c.expand(result.shape)
        known.attributes = {"beta": float(beta), "alpha": float(alpha)}
    return known


def _bmm(a, b, *, result):
    """One product of the batch, the middle one: each is a kernel's own work."""
    if a.shape[0] == 0:
        return None
    i = a.shape[0] // 2
    return _mm(a[i], b[i], result=result[i])


def _embedding(table, index, padding_idx=-1, *_, result):
    return Known("embedding", "forward", {"table": table, "index": flat(index)},
                 {"y": rows(result)}, {"padding_idx": padding_idx}, "table", "y")


def _embedding_backward(dy, index, vocab, padding_idx, scale, *, result):
    if scale:
        return None
    return Known("embedding", "backward_local", {"index": flat(index), "dy": rows(dy)},
                 {"dtable": result}, {"padding_idx": padding_idx}, "dtable", "dy")


def _add(x, r, *, alpha=1, result):
    if not torch.is_tensor(r) or x.shape != r.shape or alpha != 1 or x.dtype != r.dtype:
        return None
    return Known("residual", "forward", {"x": flat(x), "r": flat(r)}, {"y": flat(result)},
                 {"stream": _torch.format_of(x.dtype)}, "r", "y")


def _sum(x, dims, keepdim=False, *, dtype=None, result):
    """Over all leading axes: the gradient of a bias."""
    if x.dim() < 2 or dtype not in (None, x.dtype) or not x.is_floating_point():
        return None
    dims = sorted(d % x.dim() for d in dims)
    if not dims or dims != list(range(len(dims))) or len(dims) == x.dim():
        return None
    n = result.numel()
    return Known("bias", "backward_local", {"dy": x.reshape(-1, n) if n else x},
                 {"db": flat(result)}, {}, "db", "dy")


def _to_copy(x, *, result, **_):
    if x.dtype == result.dtype or not (x.is_floating_point() and result.is_floating_point()):
        return None
    return Known("cast", "forward", {"x": flat(x)}, {"y": flat(result)}, {}, "x", "y",
                 ("nearest",))


ATEN = {
    "aten::_softmax": _softmax(False),
    "aten::_log_softmax": _softmax(True),
    "aten::_softmax_backward_data": _softmax_backward(False),
    "aten::_log_softmax_backward_data": _softmax_backward(True),
    "aten::native_layer_norm": _layer_norm,
    "aten::native_layer_norm_backward": _layer_norm_backward,
    "aten::gelu": _gelu,
    "aten::gelu_backward": _gelu_backward,
    "aten::mm": _mm,
    "aten::addmm": _addmm,
    "aten::bmm": _bmm,
    "aten::embedding": _embedding,
    "aten::embedding_dense_backward": _embedding_backward,
    "aten::add.Tensor": _add,
    "aten::sum.dim_IntList": _sum,
    "aten::_to_copy": _to_copy,
    "aten::nll_loss_forward": _losses.nll_loss,
    "aten::nll_loss_backward": _losses.nll_loss_backward,
    "aten::nll_loss2d_forward": _losses.nll_loss,
    "aten::nll_loss2d_backward": _losses.nll_loss_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention.on_cpu,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention.on_cpu_backward,
    "aten::_scaled_dot_product_flash_attention": _attention.flash,
    "aten::_scaled_dot_product_flash_attention_backward": _attention.flash_backward,
}


def known_calls(name, arguments, keywords, result):
    """Of aten's name with the overload, if it is not the default one: what is judged of the call;
    nothing of what opbound has no op for, and of tensors that it has no format for, or that are
    empty."""
    make = ATEN.get(name)
    if make is None:
        return []
    made = make(*arguments, **keywords, result=result)
    several = made if isinstance(made, list) else [made]
    return [known for known in several if known is not None and _is_judged(known)]


def _is_judged(known):
    for tensors in (known.inputs, known.outputs):
        for tensor in [n for n, t in tensors.items() if t is None]:
            del tensors[tensor]
    both = {**known.inputs, **known.outputs}
    if any(t.numel() == 0 or _torch.format_of(t.dtype) is None for t in both.values()):
        return False
    return both[known.stored].is_floating_point()


def precision_of(known):
    """storage:compute:output. 16 bits are computed in fp32, but on CPUs before torch 2, whose
    kernels round each operation (ops/providers/torch/kernels.hpp)."""
    both = {**known.inputs, **known.outputs}
    stored, output = both[known.stored], both[known.output]
    storage, out = _torch.format_of(stored.dtype), _torch.format_of(output.dtype)
    compute = "fp32" if storage in ("bf16", "fp16") else storage
    is_old = int(torch.__version__.split(".")[0]) < 2
    if is_old and stored.device.type == "cpu" and out == storage:
        compute = storage
    return f"{storage}:{compute}:{out}"


def drop_other_statistics(known, compute):
    """Statistics that are not stored in the compute format are another kernel's affair."""
    for tensors in (known.inputs, known.outputs):
        for name in ("mean", "rstd", "lse"):
            if name in tensors and _torch.format_of(tensors[name].dtype) != compute:
                del tensors[name]
