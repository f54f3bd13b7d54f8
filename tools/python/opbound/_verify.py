"""A callable of torch's tensors as a kernel, judged over the suite of its op."""
import inspect
from ctypes import byref, memmove

import torch

from opbound import _library, _torch, _words
from opbound._result import Result

DIRECTIONS = {"forward": "forward", "backward": "backward_full",
              "backward_local": "backward_local"}


def _free_attributes(fn):
    """Those that the callable wants to be told: its keyword-only parameters without a default."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters
            if p.kind is p.KEYWORD_ONLY and p.default is p.empty]


def _word(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def attribute_words(attributes):
    """ "log=true" of log=True."""
    return [f"{name}={_word(value)}" for name, value in attributes.items()]


def judged_struct(op, precision, direction, attributes, variants=()):
    """An opbound_judged, which keeps its texts."""
    words = attribute_words(attributes)
    return _library.Judged(
        op=op.encode(), precision=precision.encode(), direction=direction.encode(),
        attribute_count=len(words), attributes=_library.texts(words),
        variant_count=len(variants), variants=_library.texts(variants))


def _named(outputs, names):
    """What the callable gave, by the op's names: one tensor, several in their order, or named."""
    if isinstance(outputs, dict):
        unknown = set(outputs) - set(names)
        if unknown:
            raise TypeError(f"gave '{sorted(unknown)[0]}', expected of {', '.join(names)}")
        return outputs
    several = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    if len(several) > len(names) or not all(torch.is_tensor(t) for t in several):
        raise TypeError(f"expected tensors for {', '.join(names)}")
    return dict(zip(names, several))


class _Kernel:
    """What libopbound calls, for each pass of each case."""

    def __init__(self, fn, direction, device, free):
        self.fn, self.direction, self.device, self.free = fn, direction, device, free
        self.written = set()
        self.interrupt = None
        self._graph = None

    def __call__(self, call, message, size):
        try:
            self._run(call.contents)
            return _library.OK
        except NotImplementedError as error:
            return _say(_library.UNSUPPORTED, str(error) or "it is not implemented", message, size)
        except KeyboardInterrupt as interrupt:
            self.interrupt = interrupt
            return _say(_library.FAILED, "interrupted", message, size)
        except Exception as error:  # whatever the callable raises is a record
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            return _say(_library.FAILED, text, message, size)

    def _run(self, call):
        if self.interrupt is not None:
            raise RuntimeError("interrupted")
        tensors = [call.tensors[i].contents for i in range(call.tensor_count)]
        inputs = {t.name.decode(): _torch.copy_of(_torch.view_of(t), self.device)
                  for t in tensors if t.role == _library.IN}
        wanted = {t.name.decode(): t for t in tensors if t.role == _library.OUT}
        attributes = {}
        for i in range(call.attribute_count):
            attribute = call.attributes[i].contents
            if attribute.name.decode() in self.free:
                attributes[attribute.name.decode()] = attribute.get()
        if self.direction != "backward":
            with torch.no_grad():
                outputs = _named(self.fn(*inputs.values(), **attributes), list(wanted))
        elif call.direction == b"forward":
            outputs = self._forward(inputs, attributes, list(wanted))
        else:
            outputs = self._backward(inputs, list(wanted))
        for name, tensor in outputs.items():
            _write(name, tensor, wanted[name])
        if self.direction != "backward" or call.direction == b"backward":
            self.written.update(outputs)

    def _forward(self, inputs, attributes, names):
        for t in inputs.values():
            t.requires_grad_(t.is_floating_point())
        outputs = _named(self.fn(*inputs.values(), **attributes), names)
        self._graph = (inputs, outputs)
        return outputs

    def _backward(self, inputs, names):
        sources, outputs = self._graph
        ends = [(y, inputs["d" + name]) for name, y in outputs.items()
                if "d" + name in inputs and y.requires_grad]
        if not ends:
            raise RuntimeError("no output of the callable has a gradient")
        asked = [name for name in names if name[1:] in sources]
        found = torch.autograd.grad([y for y, _ in ends], [sources[n[1:]] for n in asked],
                                    [dy for _, dy in ends], allow_unused=True)
        return {name: g for name, g in zip(asked, found) if g is not None}


def _say(status, text, message, size):
    data = text.encode(errors="replace")[:size - 1] + b"\0"
    memmove(message, data, len(data))
    return status


def _write(name, tensor, struct):
    to = _torch.view_of(struct)
    if tensor.dtype != to.dtype:
        raise TypeError(f"{name} is {tensor.dtype}, expected {to.dtype}")
    if tensor.numel() != to.numel():
        raise TypeError(f"{name} has shape {list(tensor.shape)}, expected {list(to.shape)}")
    to.copy_(tensor.detach().reshape(to.shape))


def verify(fn, op, precision="fp32", direction="forward", *, variant=None, tier="quick", case="",
           device="cpu", functions=None, suite=None, name=None, allow_vacuous=None, **attributes):
    """Judges a callable over the whole suite of an op; gives a Result.

    fn          called with the op's inputs as torch's tensors, in the order of `opbound list OP`;
                gives the outputs in the op's order, one or several, or by name. Of outputs that it
                leaves out (statistics that another kernel would save) nothing is said.
                NotImplementedError: such a case is skipped. Eager, compiled, Triton: any callable
    direction   "forward"; "backward": the gradients that autograd gives through fn;
                "backward_local": fn is the backward pass, with what a forward pass saved
    variant     the algorithm, if it is known, or several; else it is any of the op's
    tier        "quick", "full" or "nightly"
    case        only cases whose name or description contains this
    device      where fn computes: its tensors are there
    functions   [("exp", 2.0), ...]: what fn's functions err by, in ulp; else as torch's do
    allow_vacuous  a reason why a bound that is so wide that it says nothing is no finding
    attributes  of the op, by name; those that are not given have their defaults, but keyword-only
                parameters of fn without a default get every value that the suite has

    Raises opbound.Error for what opbound does not know.
    """
    _check(fn, op, precision, direction, tier, case)
    device = _words.device(device)
    free = [a for a in _free_attributes(fn) if a not in attributes]
    kernel = _Kernel(fn, direction, device, free)
    run = _library.RUN(kernel)
    variants = [variant] if isinstance(variant, str) else _words.list_of(
        "variant", variant or [], lambda v: isinstance(v, str), "names, or one")
    if functions is not None:
        _words.list_of("functions", functions, _is_function, "pairs, as ('exp', 2.0)")
    algorithms = [(op, None, "|".join(variants))] if variants else []
    provider = _torch.provider_struct(name or getattr(fn, "__name__", "callable"), device,
                                      algorithms, run, functions)
    what = judged_struct(op, precision, DIRECTIONS[direction], attributes)
    choice = _library.SuiteChoice(
        suite=str(suite).encode() if suite else None, tier=tier.encode(), only=case.encode(),
        free_count=len(free), free=_library.texts(free),
        allow_vacuous=allow_vacuous.encode() if allow_vacuous else None)
    result = Result()
    sink = _library.SINK(lambda _, line: result.add(line.decode()))
    _ask("opbound_verify", byref(what), byref(choice), byref(provider), sink, None)
    if kernel.interrupt is not None:
        raise kernel.interrupt
    result.keep(lambda r: not r.get("part") or r["part"] in kernel.written)
    return result


def _check(fn, op, precision, direction, tier, case):
    if not callable(fn):
        raise _words.wrong("fn", fn, "a callable of torch's tensors")
    _words.text("op", op, "as 'softmax'")
    _words.text("precision", precision, "as 'bf16:fp32:bf16'")
    _words.text("tier", tier, "quick, full or nightly")
    _words.text("case", case, "a part of a case's name")
    if not isinstance(direction, str) or direction not in DIRECTIONS:
        raise _library.Error(f"direction: '{direction}', expected one of {', '.join(DIRECTIONS)}")


def _is_function(pair):
    return (isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)
            and isinstance(pair[1], (int, float)))


def _ask(function, *arguments):
    session = _library.Session.current()
    try:
        _library.call(function, session.handle, *arguments)
    except _library.Error as error:
        if " serve " in str(error) or "session has ended" in str(error):
            _library.Session.drop()
        raise


def assert_within(fn, op, *arguments, **options):
    """verify, for a test: raises opbound.Finding, an AssertionError, unless every element is within
    its bound for certain; gives the Result."""
    return verify(fn, op, *arguments, **options).require()
