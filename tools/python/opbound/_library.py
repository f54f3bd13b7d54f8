"""libopbound through ctypes: its structs as library/opbound.h and ops/provider.h have them."""
import ctypes
import functools
import os
import pathlib
import re
import threading
from ctypes import (CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64,
                    c_size_t, c_uint64, c_void_p)

OK, UNSUPPORTED, FAILED = 0, 1, 2
MESSAGE_BYTES = 4096
MAX_RANK = 8
IN, OUT = 0, 1


class Error(RuntimeError):
    """What libopbound says in one line: bad input, or a program that is not there."""


class Struct(ctypes.Structure):
    """One whose first member is its own size."""

    def __init__(self, **members):
        super().__init__(**members)
        self.struct_size = ctypes.sizeof(self)


class Gradient(Struct):
    _fields_ = [("struct_size", c_size_t), ("count", c_int64), ("nonfinite", c_int64),
                ("sum", c_double), ("square", c_double), ("hash", c_uint64),
                ("sketch", c_double * 64)]


class FullPrint(Struct):
    _fields_ = [("struct_size", c_size_t), ("largest_count", c_int64), ("share_count", c_int64),
                ("largest", c_int64 * 10), ("shares", c_double * 8),
                ("update_to_weight", c_double), ("lost_updates", c_double),
                ("weight_hash", c_uint64)]


class Environment(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class Parameter(Struct):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("op", c_char_p),
                ("layer", c_int32), ("rank", c_int32), ("shape", POINTER(c_int64))]


class Head(Struct):
    _fields_ = [("struct_size", c_size_t), ("path", c_char_p), ("goes_on", c_int32),
                ("reserved", c_int32), ("source", c_char_p), ("device", c_char_p),
                ("data_sha256", c_char_p), ("ranks", c_int64), ("environment_count", c_size_t),
                ("environment", POINTER(Environment)), ("parameter_count", c_size_t),
                ("parameters", POINTER(POINTER(Parameter)))]


class Step(Struct):
    _fields_ = [("struct_size", c_size_t), ("step", c_int64), ("loss", c_double),
                ("loss_scale", c_double), ("lr", c_double), ("time_ms", c_double),
                ("is_skipped", c_int32), ("reserved", c_int32), ("tokens", c_int64),
                ("sample_hash", c_uint64), ("random_hash", c_uint64),
                ("parameter_count", c_size_t), ("gradients", POINTER(POINTER(Gradient))),
                ("full", POINTER(POINTER(FullPrint)))]


class Tensor(Struct):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("role", c_int32),
                ("element", c_int32), ("rank", c_int32), ("size", c_int64 * MAX_RANK),
                ("stride", c_int64 * MAX_RANK), ("data", c_void_p)]


class AttributeValue(ctypes.Union):
    _fields_ = [("flag", c_int32), ("whole", c_int64), ("number", c_double), ("word", c_char_p)]


class Attribute(Struct):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("type", c_int32),
                ("value", AttributeValue)]

    def get(self):
        return (bool(self.value.flag), self.value.whole, self.value.number,
                None if self.type != 3 else self.value.word.decode())[self.type]


class Call(Struct):
    _fields_ = [("struct_size", c_size_t), ("op", c_char_p), ("direction", c_char_p),
                ("variant", c_char_p), ("compute", c_int32), ("device", c_int32),
                ("device_index", c_int32), ("attribute_count", c_size_t),
                ("attributes", POINTER(POINTER(Attribute))), ("tensor_count", c_size_t),
                ("tensors", POINTER(POINTER(Tensor))), ("stream", c_void_p),
                ("workspace", c_void_p), ("workspace_size", c_size_t)]


class Algorithm(ctypes.Structure):
    _fields_ = [("op", c_char_p), ("direction", c_char_p), ("variants", c_char_p)]


class FunctionError(ctypes.Structure):
    _fields_ = [("function", c_char_p), ("ulp", c_double)]


RUN = CFUNCTYPE(c_int, POINTER(Call), c_void_p, c_size_t)
SINK = CFUNCTYPE(None, c_void_p, c_char_p)


class Provider(Struct):
    _fields_ = [("struct_size", c_size_t), ("abi_version", c_int32), ("device", c_int32),
                ("name", c_char_p), ("version", c_char_p), ("run", RUN), ("supports", c_void_p),
                ("workspace", c_void_p), ("algorithm_count", c_size_t),
                ("algorithms", POINTER(Algorithm)), ("function_count", c_size_t),
                ("functions", POINTER(FunctionError)), ("environment_count", c_size_t),
                ("environment", POINTER(Environment)), ("refusal", c_char_p)]


class Judged(Struct):
    _fields_ = [("struct_size", c_size_t), ("op", c_char_p), ("precision", c_char_p),
                ("direction", c_char_p), ("attribute_count", c_size_t),
                ("attributes", POINTER(c_char_p)), ("variant_count", c_size_t),
                ("variants", POINTER(c_char_p))]


class SuiteChoice(Struct):
    _fields_ = [("struct_size", c_size_t), ("suite", c_char_p), ("tier", c_char_p),
                ("only", c_char_p), ("free_count", c_size_t), ("free", POINTER(c_char_p)),
                ("allow_vacuous", c_char_p)]


class CallChoice(Struct):
    _fields_ = [("struct_size", c_size_t), ("certified", c_int32), ("layer", c_int32),
                ("seed", c_uint64), ("step", c_int64), ("call", c_int64), ("part", c_char_p),
                ("size_count", c_size_t), ("sizes", POINTER(c_char_p))]


def texts(words):
    """An array of C strings, which keeps them."""
    return (c_char_p * len(words))(*[str(word).encode() for word in words])


def pointers(structs):
    """An array of pointers to structs, which keeps them."""
    kind = type(structs[0])
    array = (POINTER(kind) * len(structs))(*[ctypes.pointer(s) for s in structs])
    array.kept = structs
    return array


def file():
    told = os.environ.get("OPBOUND_LIBRARY")
    here = pathlib.Path(__file__).resolve()
    places = [pathlib.Path(told)] if told else [
        here.parent / "libopbound.so", here.parents[3] / "build" / "libopbound.so"]
    for place in places:
        if place.is_file():
            return place
    raise Error(f"{places[-1]}: no such file, expected opbound to be built there, or "
                "OPBOUND_LIBRARY to name libopbound.so")


@functools.lru_cache(maxsize=None)
def loaded():
    path = file()
    try:
        opened = ctypes.CDLL(str(path))
    except OSError as error:
        raise Error(f"{path}: {error}") from None
    opened.opbound_version.restype = c_char_p
    opened.opbound_trace_last_step.restype = c_int64
    opened.opbound_trace_last_step.argtypes = [c_void_p]
    said = [c_char_p, c_size_t]
    judged = [c_void_p, POINTER(Judged)]
    for name, types in {
            "opbound_add_gradient": [c_char_p, c_int64, c_int64, c_int32, c_void_p,
                                     POINTER(Gradient)],
            "opbound_add_sums": [c_int64, POINTER(Gradient), POINTER(Gradient)],
            "opbound_print_in_full": [c_char_p, c_int32, POINTER(c_int64), c_int32, c_void_p,
                                      c_int32, c_void_p, c_void_p, POINTER(FullPrint)],
            "opbound_trace_open": [POINTER(Head), POINTER(c_void_p)],
            "opbound_trace_write": [c_void_p, POINTER(Step)],
            "opbound_session_open": [c_char_p, POINTER(c_void_p)],
            "opbound_verify": judged + [POINTER(SuiteChoice), POINTER(Provider), SINK, c_void_p],
            "opbound_judge": judged + [POINTER(CallChoice), POINTER(Provider), c_size_t,
                                       POINTER(POINTER(Tensor)), SINK, c_void_p]}.items():
        getattr(opened, name).argtypes = types + said
    for name in ("opbound_trace_close", "opbound_session_close"):
        getattr(opened, name).argtypes = [c_void_p]
        getattr(opened, name).restype = None
    return opened


def call(function, *arguments):
    """Calls a function that returns a status; raises Error with its message."""
    message = ctypes.create_string_buffer(MESSAGE_BYTES)
    if getattr(loaded(), function)(*arguments, message, MESSAGE_BYTES) != OK:
        raise Error(_as_called(message.value.decode(errors="replace")))


def _as_called(message):
    """With an argument's name for an option's: "precision" for "--precision"."""
    message = message.replace("--resume", "resume=True")
    if message.startswith("--attribute:"):
        message = message.replace("--attribute", "attributes").replace("NAME=VALUE with ", "")
    return re.sub(r"^--([a-z]+):", r"\1:", message)


def version():
    """That of the library: "opbound 0.1.0 1a2b3c4"."""
    return loaded().opbound_version().decode()


class Session:
    """The program that judges; one for each thread and process, started when it is first used."""

    _of_thread = threading.local()

    def __init__(self):
        self.process = os.getpid()
        self.handle = c_void_p()
        program = os.environ.get("OPBOUND_PROGRAM")
        call("opbound_session_open", program.encode() if program else None, byref(self.handle))

    def close(self):
        if self.handle and self.process == os.getpid():
            loaded().opbound_session_close(self.handle)
        self.handle = None

    def __del__(self):
        self.close()

    @classmethod
    def current(cls):
        known = getattr(cls._of_thread, "session", None)
        if known is None or known.process != os.getpid():
            known = cls._of_thread.session = cls()
        return known

    @classmethod
    def drop(cls):
        """The next one is a new one: this one's program may have ended."""
        cls._of_thread.session = None
