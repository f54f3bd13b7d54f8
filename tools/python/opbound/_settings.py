"""What a run was told, as a trace's head keeps it: where it differs, `trace diff` says so."""
import collections
import contextlib
import numbers

import torch

from opbound import _torch


def _name_of(dtype):
    return _torch.format_of(dtype) or str(dtype).rpartition(".")[2]


def _formats(parameters):
    """ "fp32"; of several the number of parameters too: "bf16 (20), fp32 (6)"."""
    counts = collections.Counter(_name_of(held.tensor.dtype) for held in parameters)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))


def _is_plain(value):
    """A number, a word or several: what is the same in every process."""
    if isinstance(value, (tuple, list)):
        return all(_is_plain(one) for one in value)
    return isinstance(value, (str, numbers.Number))  # a bool is one


def _optimizer(optimizer):
    """Its class, and each setting: of groups that differ, one behind the other."""
    if optimizer is None:
        return {}
    found = {"optimizer": type(optimizer).__name__}
    for name in sorted({name for group in optimizer.param_groups for name in group} - {"params"}):
        words = []
        for group in optimizer.param_groups:
            value = group.get(name)
            if torch.is_tensor(value) and value.numel() == 1:
                value = value.item()
            words.append(str(value) if _is_plain(value) else "-")
        if set(words) != {"-"}:
            found[f"optimizer's {name}"] = words[0] if len(set(words)) == 1 else " | ".join(words)
    return found


def _autocast(device):
    """Its format here and now; "off"."""
    if hasattr(torch, "get_autocast_dtype"):  # new in torch 2.4
        is_on, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    elif device == "cuda":
        is_on, dtype = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()
    else:
        is_on, dtype = torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
    return _name_of(dtype) if is_on else "off"


class AutocastOfFirstPass:
    """A hook that looks where autocast is on, which is around the forward pass, and goes."""

    def __init__(self, model, device):
        self.found = ""  # not known: nobody called the model itself
        self._device = device
        self._hook = model.register_forward_pre_hook(self)

    def __call__(self, *_):
        with contextlib.suppress(RuntimeError):  # a device without autocast
            self.found = _autocast(self._device)
        self.drop()

    def drop(self):
        self._hook.remove()


def settings_of(parameters, optimizer, autocast, device):
    """By name; in every process of equal runs the same."""
    found = {"torch": torch.__version__, "torch threads": str(torch.get_num_threads()),
             "parameters": _formats(parameters), "autocast": autocast}
    if torch.are_deterministic_algorithms_enabled():
        found["deterministic algorithms"] = "on"
    with contextlib.suppress(AttributeError, RuntimeError):  # told by torch's new names instead
        found["products of fp32"] = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        found["cuda"] = str(torch.version.cuda)
    found.update(_optimizer(optimizer))
    return {name: value for name, value in found.items() if value}
