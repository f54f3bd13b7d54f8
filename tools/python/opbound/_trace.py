"""The trace of a training loop, in the format of `opbound train --trace`."""
import math
import re
import time
from ctypes import byref, c_int64, c_void_p

import torch

from opbound import _library, _shards, _torch

# Which op reads a module's parameters.
_OPS = {"Linear": "matmul", "Embedding": "embedding", "LayerNorm": "layer_norm",
        "RMSNorm": "rms_norm"}
# Of a model inside of DistributedDataParallel, torch.compile, FSDP: the name without.
_WRAPPERS = re.compile(r"(^|(?<=\.))(module|_orig_mod|_fsdp_wrapped_module)\.")


def plain_name(name):
    return _WRAPPERS.sub("", name)


def layer_of(name):
    """The first whole number among the words of a parameter's name; -1 where there is none."""
    return next((int(word) for word in name.split(".") if word.isdigit()), -1)


def _op_of(module, parameter):
    op = _OPS.get(type(module).__name__, "")
    return "bias" if op == "matmul" and parameter == "bias" else op


def _parameters(model):
    """Name, op and tensor of each parameter that is trained; of a shared one, once."""
    found, seen = [], set()
    for prefix, module in model.named_modules():
        for own, p in module.named_parameters(recurse=False):
            if p.requires_grad and id(p) not in seen:
                seen.add(id(p))
                found.append((plain_name(f"{prefix}.{own}" if prefix else own),
                              _op_of(module, own), p))
    return found


def _hash_of(tensors):
    """Of the bits of tensors, in their order: where it differs, one of them does."""
    total = 0
    for place, tensor in enumerate(tensors):
        flat = _torch.on_host(tensor).reshape(-1)
        if _torch.format_of(flat.dtype) is None:  # bytes, shorts
            flat = flat.to(torch.int64)
        total += _sums_of(f"sample {place}", flat, 0).hash * (2 * place + 1)
    return total % 2 ** 64


def _sums_of(name, flat, first, into=None):
    sums = _library.Gradient() if into is None else into
    _library.call("opbound_add_gradient", name.encode(), first, flat.numel(),
                  _torch.element_of(flat.dtype), flat.data_ptr(), byref(sums))
    return sums


class Trace:
    """Writes a trace of a loop. Two lines in it:

        trace = opbound.Trace("run.trace", model)       # before
        trace.step(loss, optimizer)                     # behind optimizer.step(), before
                                                        # gradients are set to zero
    path        a new file; with `resume`, one of a run that goes on
    model       its parameters that are trained now; inside of DistributedDataParallel too
    full_every  full fingerprints (largest places, singular values, updates) each so many steps, 0:
                never. The weights before are kept on the host then
    every       only each so many steps is written
    shards      where this rank has a part of each parameter: {name: (whole shape, first element)},
                the part being flat and contiguous in row-major order. DTensors need none
    data_sha256 of the data, for `opbound trace diff`

    Gradients on a device are copied to the host. Under torch.distributed all ranks call `step`;
    rank 0 writes. Raises opbound.Error with one line.
    """

    def __init__(self, path, model, *, full_every=0, every=1, resume=False, shards=None,
                 data_sha256=None):
        if every < 1 or full_every < 0 or full_every % every != 0:
            raise _library.Error(f"every={every}, full_every={full_every}: expected every of 1 or "
                                 "more, and full_every a multiple of it")
        self._parameters = _parameters(model)
        if not self._parameters:
            raise _library.Error("the model has no parameter that is trained, expected one")
        self._shards = _shards.Shards(self._parameters, shards)
        if full_every > 0 and self._shards.is_sharded:
            raise _library.Error("full_every with parameters in shards, expected 0")
        self._every, self._full_every = every, full_every
        self._handle = c_void_p()
        self._step = 0
        if self._shards.rank == 0:
            self._open(path, resume, data_sha256)
        self._step = self._shards.of_rank_0(self._step)
        self._weights = None
        self._keep_weights()
        self._then = time.perf_counter()

    def _open(self, path, resume, data_sha256):
        listed = []
        for name, op, p in self._parameters:
            shape = self._shards.shape(name, p)
            listed.append(_library.Parameter(
                name=name.encode(), op=op.encode(), layer=layer_of(name), rank=len(shape),
                shape=(c_int64 * len(shape))(*shape)))
        device = self._parameters[0][2].device
        told = (_library.Environment * 1)(
            (b"torch", torch.__version__.encode()))
        head = _library.Head(
            path=str(path).encode(), goes_on=int(resume),
            source=f"pytorch {torch.__version__}".encode(),
            device=_torch.device_name(device).encode(),
            data_sha256=data_sha256.encode() if data_sha256 else None, ranks=self._shards.ranks,
            environment_count=len(told), environment=told, parameter_count=len(listed),
            parameters=_library.pointers(listed))
        _library.call("opbound_trace_open", byref(head), byref(self._handle))
        self._step = _library.loaded().opbound_trace_last_step(self._handle) + 1

    def _is_full(self, step):
        return self._full_every > 0 and step % self._full_every == 0

    def _keep_weights(self):
        """Those before the next step, if it is one whose updates are looked at."""
        self._weights = None
        if self._is_full(self._step) and self._shards.rank == 0:
            self._weights = [_torch.on_host(p).clone() for _, _, p in self._parameters]

    def step(self, loss, optimizer=None, *, scaler=None, batch=None, tokens=0):
        """Behind optimizer.step(), before the gradients are set to zero; with a GradScaler between
        scaler.step(optimizer) and scaler.update(), and with `scaler`.

        batch   the tensors of this step, of which a hash is written
        tokens  how many there were
        """
        step = self._step
        if step % self._every == 0:
            self._write(step, loss, optimizer, scaler, batch, tokens)
        self._step += 1
        self._keep_weights()

    def _write(self, step, loss, optimizer, scaler, batch, tokens):
        scale, is_skipped, factor = _scaling(scaler, optimizer)
        if all(p.grad is None for _, _, p in self._parameters):
            raise _library.Error("no parameter has a gradient, expected Trace.step before "
                                 "gradients are set to zero")
        gradients = self._shards.sums(
            lambda name, flat, first: _sums_of(name, flat, first), factor)
        sample = _hash_of([] if batch is None else [batch] if torch.is_tensor(batch) else batch)
        random = _hash_of([torch.get_rng_state().view(torch.int64)])
        now = time.perf_counter()
        if self._shards.rank != 0:
            return
        row = _library.Step(
            step=step, loss=float(loss), loss_scale=scale, lr=_learning_rate(optimizer),
            time_ms=1e3 * (now - self._then), is_skipped=int(is_skipped), tokens=tokens,
            sample_hash=sample, random_hash=random, parameter_count=len(gradients),
            gradients=_library.pointers(gradients))
        if self._is_full(step):
            row.full = _library.pointers(self._full_prints(factor))
        _library.call("opbound_trace_write", self._handle, byref(row))
        self._then = now

    def _full_prints(self, factor):
        prints = []
        for (name, _, p), before in zip(self._parameters, self._weights):
            after = _torch.on_host(p)
            g = torch.zeros_like(after) if p.grad is None else _torch.on_host(p.grad) * factor
            shape = list(p.shape) if p.dim() in range(1, 5) else [p.numel()]
            full = _library.FullPrint()
            _library.call("opbound_print_in_full", name.encode(), len(shape),
                          (c_int64 * len(shape))(*shape), _torch.element_of(g.dtype), g.data_ptr(),
                          _torch.element_of(after.dtype), before.data_ptr(), after.data_ptr(),
                          byref(full))
            prints.append(full)
        return prints

    def close(self):
        """The file is complete without it."""
        if self._handle:
            _library.loaded().opbound_trace_close(self._handle)
        self._handle = c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()


def _learning_rate(optimizer):
    if optimizer is None:
        return math.nan
    lr = optimizer.param_groups[0].get("lr", math.nan)
    return float(lr)


def _scaling(scaler, optimizer):
    """The scale, whether the step was skipped, and what makes gradients unscaled ones.

    GradScaler.step has divided them, in place. A fused optimizer divides on its own, inside of its
    kernel: those are divided here."""
    if scaler is None or not scaler.is_enabled():
        return 1.0, False, 1.0
    state = scaler._per_optimizer_states.get(id(optimizer))
    if state is None or not state["found_inf_per_device"]:
        raise _library.Error("the scaler knows nothing of this optimizer's step, expected "
                             "Trace.step between scaler.step(optimizer) and scaler.update()")
    scale = float(scaler.get_scale())
    is_skipped = any(float(found) > 0 for found in state["found_inf_per_device"].values())
    is_fused = getattr(optimizer, "_step_supports_amp_scaling", False)
    return scale, is_skipped, 1 / scale if is_fused else 1.0
