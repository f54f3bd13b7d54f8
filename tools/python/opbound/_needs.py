"""Torch, before anything asks for it: without it one line says what is missing, and where."""
import sys

try:
    from torch import Tensor  # noqa: F401
except ImportError as error:
    raise ImportError(f"opbound needs torch: {error}, of {sys.executable or 'this python3'}, "
                      "expected a python3 that has it") from None
