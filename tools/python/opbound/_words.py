"""What a user's words have to be; of anything else an opbound.Error, one line."""
import numbers
import os

import torch

from opbound import _library


def wrong(where, value, expected):
    text = repr(value).splitlines()[0][:100]
    return _library.Error(f"{where}: {text}, expected {expected}")


def text(where, value, expected):
    if not isinstance(value, str):
        raise wrong(where, value, f"a text, {expected}")
    return value


def whole_number(where, value, least):
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise wrong(where, value, f"a whole number of {least} or more")
    return int(value)


def module(where, value):
    if not isinstance(value, torch.nn.Module):
        raise wrong(where, value, "a torch.nn.Module")
    return value


def path(where, value):
    if not isinstance(value, (str, os.PathLike)):
        raise wrong(where, value, "a file's name")
    return os.fspath(value)


def list_of(where, value, is_meant, expected):
    """ `expected` says what each has to be."""
    if not isinstance(value, (list, tuple)) or not all(is_meant(one) for one in value):
        raise wrong(where, value, f"a list of {expected}")
    return list(value)


def device(value):
    """One that this torch can compute on."""
    try:
        found = torch.device(value)
    except (RuntimeError, TypeError):
        raise wrong("device", value, "one of torch's, as 'cpu' or 'cuda'") from None
    try:
        torch.zeros(1, device=found).cpu()
    except Exception as error:  # each backend has its own
        why = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise wrong("device", str(found), f"one that this torch can use: {why}") from None
    return str(found)
