"""The trace of a training loop, in the format of `opbound train --trace`."""
import math
import pathlib
import time
from ctypes import byref, c_int64, c_void_p

import torch

from opbound import _fingerprint, _library, _settings, _shards, _torch, _words
from opbound._held import held_parameters, layer_of


def _hash_of(tensors):
    """Of the bits of tensors, in their order: where it differs, one of them does."""
    parts = []
    for place, tensor in enumerate(tensors):
        flat = tensor.detach().reshape(-1)
        if _torch.format_of(flat.dtype) is None:  # bytes, shorts
            flat = flat.to(torch.int64)
        parts.append(_fingerprint.Part(f"sample {place}", flat))
    sums = _fingerprint.all_sums(parts)
    return sum(each.hash * (2 * place + 1) for place, each in enumerate(sums)) % 2 ** 64


def _random_state(device):
    """Of torch's generators that the loop may draw from."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return [state.view(torch.int64) for state in states]


class Trace:
    """Writes a trace of a loop. Two lines in it:

        trace = opbound.Trace("run.trace", model)       # before
        trace.step(loss, optimizer)                     # behind optimizer.step(), before
                                                        # gradients are set to zero
    path        a new file, made by the first step; with `resume`, one of a run that goes on
    model       its parameters that are trained now; inside of DistributedDataParallel too
    full_every  full fingerprints (largest places, singular values, updates) each so many steps, 0:
                never. The weights before are kept on the host then
    every       only each so many steps is written
    shards      where this rank has a part of each parameter: {name: (whole shape, first element)},
                the part being contiguous in row-major order. Those of fully_shard and
                FullyShardedDataParallel need none
    data_sha256 of the data, for `opbound trace diff`

    What else `trace diff` compares is found: formats, autocast around the first forward pass, the
    optimizer's settings at the first step, torch's version and threads.

    Gradients on a device are summed there. Under torch.distributed all ranks make the trace and
    call `step`; rank 0 writes, its own loss, samples and random state. Raises opbound.Error with
    one line.
    """

    def __init__(self, path, model, *, full_every=0, every=1, resume=False, shards=None,
                 data_sha256=None):
        path, model = _words.path("path", path), _words.module("model", model)
        every = _words.whole_number("every", every, 1)
        full_every = _words.whole_number("full_every", full_every, 0)
        if full_every % every != 0:
            raise _library.Error(f"every={every}, full_every={full_every}: expected full_every a "
                                 "multiple of it")
        self._parameters = held_parameters(model, dict(shards or {}))
        if not self._parameters:
            raise _library.Error("the model has no parameter that is trained, expected one")
        self._shards = _shards.Shards(self._parameters)
        if full_every > 0 and self._shards.is_sharded:
            raise _library.Error("full_every with parameters in shards, expected 0")
        self._every, self._full_every = every, full_every
        self._handle = c_void_p()
        self._device = self._parameters[0].tensor.device
        self._step = 0
        self._path, self._data_sha256 = path, data_sha256
        self._autocast = None  # of a file that is made by the first step
        self._open_on_rank_0(model, resume)
        self._weights = None
        self._keep_weights()
        self._then = time.perf_counter()

    def _open_on_rank_0(self, model, resume):
        """The others are told how it went: they would wait for ever. A new file is made by the
        first step, which shows the optimizer."""
        error = None
        try:
            if self._shards.rank == 0 and resume:
                self._open(True, {})
            elif self._shards.rank == 0:
                _must_be_new(self._path)
                self._autocast = _settings.AutocastOfFirstPass(model, self._device.type)
        except _library.Error as raised:
            error, self._step = raised, -1
        self._step = self._shards.of_rank_0(self._step)
        if error is not None:
            raise error
        if self._step < 0:
            raise _library.Error(f"{self._path}: rank 0 could not open it, expected what its own "
                                 "line says")

    def _open(self, resume, settings):
        listed = []
        for held in self._parameters:
            shape = _four_axes(held.shape)
            listed.append(_library.Parameter(
                name=held.name.encode(), op=held.op.encode(), layer=layer_of(held.name),
                rank=len(shape), shape=(c_int64 * len(shape))(*shape)))
        told = (_library.Environment * len(settings))(
            *[(name.encode(), value.encode()) for name, value in settings.items()])
        head = _library.Head(
            path=self._path.encode(), goes_on=int(resume),
            source=f"pytorch {torch.__version__}".encode(),
            device=_torch.device_name(self._device).encode(),
            data_sha256=self._data_sha256.encode() if self._data_sha256 else None,
            ranks=self._shards.ranks,
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
            self._weights = [_torch.on_host(held.tensor).clone() for held in self._parameters]

    def step(self, loss, optimizer=None, *, scaler=None, batch=None, tokens=0):
        """Behind optimizer.step(), before the gradients are set to zero; with a GradScaler between
        scaler.step(optimizer) and scaler.update(), and with `scaler`.

        batch   the tensors of this step, of which a hash is written
        tokens  how many there were
        """
        if optimizer is not None and not hasattr(optimizer, "param_groups"):
            raise _words.wrong("optimizer", optimizer, "one of torch.optim's")
        step = self._step
        if step % self._every == 0:
            self._write(step, loss, optimizer, scaler, batch, tokens)
        self._step += 1
        self._keep_weights()

    def _write(self, step, loss, optimizer, scaler, batch, tokens):
        scale, is_skipped = _scaling(scaler, optimizer)
        if self._shards.rank != 0 and not self._shards.is_sharded:
            return
        gradients = self._shards.sums()
        if all(sums.count == 0 for sums in gradients):
            raise _library.Error("no parameter has a gradient, expected Trace.step before "
                                 "gradients are set to zero")
        if self._shards.rank != 0:
            return
        sample = _hash_of([] if batch is None else [batch] if torch.is_tensor(batch) else batch)
        random = _hash_of(_random_state(self._device))
        now = time.perf_counter()
        row = _library.Step(
            step=step, loss=_loss_of(loss), loss_scale=scale, lr=_learning_rate(optimizer),
            time_ms=1e3 * (now - self._then), is_skipped=int(is_skipped), tokens=tokens,
            sample_hash=sample, random_hash=random,
            parameter_count=len(gradients), gradients=_library.pointers(gradients))
        if self._is_full(step):
            row.full = _library.pointers(self._full_prints())
        self._make(optimizer)
        _library.call("opbound_trace_write", self._handle, byref(row))
        self._then = now

    def _make(self, optimizer):
        """The file, at the first step."""
        if self._autocast is None:
            return
        settings = _settings.settings_of(self._parameters, optimizer, self._autocast.found,
                                         self._device)
        self._open(False, settings)
        self._drop_hook()

    def _drop_hook(self):
        if self._autocast is not None:
            self._autocast.drop()
        self._autocast = None

    def _full_prints(self):
        prints = []
        for held, before in zip(self._parameters, self._weights):
            p = held.tensor
            after = _torch.on_host(p)
            g = torch.zeros_like(after) if p.grad is None else _torch.on_host(p.grad)
            shape = _four_axes(list(p.shape))
            full = _library.FullPrint()
            _library.call("opbound_print_in_full", held.name.encode(), len(shape),
                          (c_int64 * len(shape))(*shape), _torch.element_of(g.dtype), g.data_ptr(),
                          _torch.element_of(after.dtype), before.data_ptr(), after.data_ptr(),
                          byref(full))
            prints.append(full)
        return prints

    def close(self):
        """The file is complete without it."""
        self._drop_hook()
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


def _must_be_new(path):
    folder = pathlib.Path(path).parent
    if not folder.is_dir():
        raise _library.Error(f"{path}: there is no folder {folder}, expected one that is there")
    if pathlib.Path(path).exists():
        raise _library.Error(f"{path}: there is a file already, expected resume=True to go on, or "
                             "a new file's name")


def _loss_of(loss):
    try:
        return float(loss.detach() if torch.is_tensor(loss) else loss)
    except (RuntimeError, TypeError, ValueError):
        raise _words.wrong("loss", loss, "one number") from None


def _learning_rate(optimizer):
    if optimizer is None:
        return math.nan
    lr = optimizer.param_groups[0].get("lr", math.nan)
    return float(lr)


def _four_axes(shape):
    """More than four become one."""
    return list(shape) if 1 <= len(shape) <= 4 else [math.prod(shape)]


def _scaling(scaler, optimizer):
    """The scale, and whether the step was skipped.

    GradScaler.step has divided the gradients where they lie, and so has the kernel of a fused
    optimizer, but for a step that is skipped: its gradients are as they were."""
    if scaler is None or not scaler.is_enabled():
        return 1.0, False
    state = scaler._per_optimizer_states.get(id(optimizer))
    if state is None or not state["found_inf_per_device"]:
        raise _library.Error("the scaler knows nothing of this optimizer's step, expected "
                             "Trace.step between scaler.step(optimizer) and scaler.update()")
    is_skipped = any(float(found) > 0 for found in state["found_inf_per_device"].values())
    return float(scaler.get_scale()), is_skipped
