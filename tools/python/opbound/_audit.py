"""The calls of a user's own model, judged on its own tensors."""
import contextlib
from ctypes import byref

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from opbound import _aten, _library, _torch, _words
from opbound._result import Result
from opbound._held import layer_of, plain_name
from opbound._verify import _ask, judged_struct


class Audited(Result):
    """A Result, and how many calls of each name in aten were judged and were not."""

    def __init__(self):
        super().__init__()
        self.judged, self.unknown = {}, {}

    def __str__(self):
        left_out = ", ".join(f"{n} x {name}" for name, n in sorted(self.unknown.items()))
        return super().__str__() + f"\nno op of opbound's: {left_out or 'none'}"


def _count(counts, name):
    counts[name] = counts.get(name, 0) + 1


def _name_of(function):
    overload = "" if function._overloadname == "default" else "." + function._overloadname
    return function._schema.name + overload


_storage_of = getattr(torch.Tensor, "untyped_storage", torch.Tensor.storage)  # new in torch 2


def _storages(value, found):
    """Where the memory of all tensors in the arguments begins."""
    if torch.is_tensor(value):
        with contextlib.suppress(Exception):  # a tensor without memory
            found.append(_storage_of(value).data_ptr())
    elif isinstance(value, (tuple, list)):
        for one in value:
            _storages(one, found)
    return found


class _Places:
    """Whose call it is: in a forward pass, the innermost module's; in the backward pass, that of
    the forward call of the same op that read or wrote the memory which is read now."""

    def __init__(self, model):
        self.modules = []  # that are in their forward pass, the innermost last
        self._of_parameter, self._of_memory = {}, {}
        for name, p in [] if model is None else model.named_parameters():
            self._of_parameter[p.data_ptr()] = plain_name(name).rpartition(".")[0]

    def note(self, read, written):
        """New memory of the backward pass: what lay there in the forward pass is gone."""
        for memory in [] if self.modules else set(written) - set(read):
            self._of_memory.pop(memory, None)

    def find(self, op, read, written):
        if self.modules:
            for memory in read + written:
                self._of_memory.setdefault(memory, {})[op] = self.modules[-1]
            return self.modules[-1]
        for memory in read:
            if memory in self._of_parameter:
                return self._of_parameter[memory]
        return next((self._of_memory[m][op] for m in read if op in self._of_memory.get(m, {})), "")


class _Judge(TorchDispatchMode):
    def __init__(self, places, result, options):
        super().__init__()
        self.places, self.result, self.options = places, result, options
        self.calls = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        keywords = keywords or {}
        out = function(*arguments, **keywords)
        name = _name_of(function)
        read, written = _storages(arguments, []), _storages(out, [])
        self.places.note(read, written)
        several = _aten.known_calls(name, arguments, keywords, out)
        if several:
            _count(self.result.judged, name)
            for known in several:
                self._judge(known, self.places.find(known.op, read, written))
        elif _computes(out) and not set(written) & set(read):
            _count(self.result.unknown, name)
        return out

    def _judge(self, known, part):
        precision = _aten.precision_of(known)
        _aten.drop_other_statistics(known, precision.split(":")[1])
        tensors = [_torch.struct_of(name, _torch.on_host(t), role)
                   for role, named in ((_library.IN, known.inputs), (_library.OUT, known.outputs))
                   for name, t in named.items()]
        device = next(iter(known.outputs.values())).device
        provider = _torch.provider_struct("torch", device)
        what = judged_struct(known.op, precision, known.direction, known.attributes,
                             known.variants)
        choice = _library.CallChoice(
            certified=int(self.options["certified"]), layer=layer_of(part),
            seed=self.options["seed"] + self.calls, step=self.options["step"], call=self.calls,
            part=part.encode())
        sink = _library.SINK(lambda _, line: self.result.add(line.decode()))
        self.calls += 1
        _ask("opbound_judge", byref(what), byref(choice), byref(provider), len(tensors),
             _library.pointers(tensors), sink, None)


def _forget(_):
    """A hook that gives something puts it in the output's place."""


def _computes(out):
    """Does the call give numbers?"""
    first = out[0] if isinstance(out, (tuple, list)) and out else out
    return torch.is_tensor(first) and first.is_floating_point()


@contextlib.contextmanager
def audit(model=None, *, certified=False, step=0, seed=1):
    """While it is open, judges each call of aten that opbound has an op for, forward and backward:

        with opbound.audit(model) as found:
            model(batch).sum().backward()
        print(found)

    Gives an `Audited`, which is filled as calls run: `found.require()` raises.

    model      names the place of each call in its records
    certified  every element; else blocks that `seed` draws, products by random signs too, as an
               audited step of `opbound train` (distributed/trace/call_judge.hpp)
    step       for records

    The bound is that of any kernel of the op's known algorithms. Tensors on a device are copied to
    the host. Raises opbound.Error.
    """
    if model is not None:
        _words.module("model", model)
    step, seed = _words.whole_number("step", step, 0), _words.whole_number("seed", seed, 0)
    result = Audited()
    places = _Places(model)
    judge = _Judge(places, result, {"certified": certified, "step": step, "seed": seed})
    hooks = []
    for name, module in [] if model is None else model.named_modules():
        place = plain_name(name + ".").rstrip(".") or type(module).__name__
        hooks.append(module.register_forward_pre_hook(
            lambda *_, place=place: places.modules.append(place)))
        hooks.append(module.register_forward_hook(lambda *_: _forget(places.modules.pop())))
    try:
        with judge:
            yield result
    finally:
        for hook in hooks:
            hook.remove()
