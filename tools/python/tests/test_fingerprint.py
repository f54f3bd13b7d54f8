"""Fingerprints that a device computes by torch's operations: those of the library, bit for bit. The
operations run on the host here."""
import unittest

import torch

import common  # noqa: F401  (one thread)
from opbound import _fingerprint, _library

FLOATS = [getattr(torch, name) for name in ("float64", "float32", "bfloat16", "float16",
                                            "float8_e4m3fn", "float8_e5m2")
          if hasattr(torch, name)]


def on_device(*parts):
    found = [_library.Gradient() for _ in parts]
    _fingerprint._add_device(list(zip(parts, found)), torch.device("cpu"))
    return [bytes(sums) for sums in found]


def by_library(*parts):
    return [bytes(sums) for sums in _fingerprint.all_sums(parts)]


def drawn(count, dtype):
    draw = torch.Generator().manual_seed(count)
    x = torch.randn(count, generator=draw) * 10 ** torch.randn(count, generator=draw)
    x = x.to(dtype)
    if count > 100:
        for place, value in enumerate(("nan", "inf", "-inf", "-0", "-nan", "1e-45")):
            x[7 * place] = float(value)
    return x


class FingerprintTest(unittest.TestCase):
    def test_every_format_and_cut(self):
        for dtype in FLOATS:
            for count, first in ((1, 0), (63, 0), (64, 5), (16384, 0), (16385, 0), (16384, 1),
                                 (50000, 16000)):
                with self.subTest(dtype=dtype, count=count, first=first):
                    part = _fingerprint.Part("h.0.w", drawn(count, dtype), first)
                    self.assertEqual(on_device(part), by_library(part))

    def test_nans_of_other_bits(self):
        x = torch.tensor([0x7fc00001, -1, 0x3f800000], dtype=torch.int32).view(torch.float32)
        part = _fingerprint.Part("w", x)
        self.assertEqual(on_device(part), by_library(part))
        x[:2] = float("nan")
        self.assertEqual(on_device(part), by_library(part))

    def test_whole_numbers(self):
        for dtype in (torch.int64, torch.int32, torch.bool):
            part = _fingerprint.Part("sample", torch.arange(-500, 500).to(dtype))
            self.assertEqual(on_device(part), by_library(part))

    def test_many_at_once_and_cut_into_chunks(self):
        parts = [_fingerprint.Part(f"h.{i}.w", drawn(count, torch.float32), 1000 * i)
                 for i, count in enumerate((5, 100000, 16384, 33000, 1, 70000))]
        expected = by_library(*parts)
        whole = _fingerprint.CHUNK
        for chunk in (16384, 3 * 16384, whole):
            self.addCleanup(setattr, _fingerprint, "CHUNK", whole)
            _fingerprint.CHUNK = chunk
            self.assertEqual(on_device(*parts), expected)

    def test_gaps(self):
        x = drawn(20000, torch.float32)[::3]
        self.assertEqual(by_library(_fingerprint.Part("w", x)),
                         by_library(_fingerprint.Part("w", x.contiguous())))
        self.assertEqual(on_device(_fingerprint.Part("w", x)),
                         by_library(_fingerprint.Part("w", x)))


if __name__ == "__main__":
    unittest.main()
