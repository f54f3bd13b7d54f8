"""Fingerprints of gradients: the library's on the host; on a device the same numbers by torch.

distributed/trace/fingerprint.hpp says what they are and in which order they are added. Nothing here
adds in another one, so both have the same bits. A device sums each block of 16384 elements on its
own; what crosses the bus is an opbound_gradient of each block, 560 bytes, and the host adds these.
"""
import dataclasses
import functools
from ctypes import POINTER, byref, c_void_p, cast, sizeof

import torch

from opbound import _library, _torch

WIDTH = 64                      # elements of a row, numbers of the sketch
ROWS = 256                      # of a block
BLOCK = ROWS * WIDTH
# Elements that a device works on at a time: some 70 bytes of its memory for each.
CHUNK = 2 ** 22
_WORDS = sizeof(_library.Gradient) // 8
_BITS = {"fp64": torch.int64, "fp32": torch.int32, "bf16": torch.int16, "fp16": torch.int16,
         "e4m3": torch.uint8, "e5m2": torch.uint8}
_NAN = {"fp64": 0x7ff8 << 48, "fp32": 0x7fc00000, "bf16": 0x7fc0, "fp16": 0x7e00, "e4m3": 0x7f,
        "e5m2": 0x7e}


def _word(number):
    """64 bits as torch's signed integer."""
    number %= 2 ** 64
    return number - 2 ** 64 if number >= 2 ** 63 else number


@dataclasses.dataclass
class Part:
    """Elements [first, first + flat.numel()) of a parameter, flat."""
    name: str
    flat: torch.Tensor
    first: int = 0


def sums_of(part):
    return all_sums([part])[0]


def all_sums(parts):
    """An opbound_gradient of each."""
    sums = [_library.Gradient() for _ in parts]
    on_devices = {}
    for part, into in zip(parts, sums):
        if part.flat.device.type == "cpu":
            _add_host(part, into)
        elif part.flat.numel() > 0:
            on_devices.setdefault(part.flat.device, []).append((part, into))
    for device, several in on_devices.items():
        _add_device(several, device)
    return sums


def _add_host(part, into):
    flat = part.flat.detach().contiguous()  # itself, but for one with gaps
    _library.call("opbound_add_gradient", part.name.encode(), part.first, flat.numel(),
                  _torch.element_of(flat.dtype), flat.data_ptr(), byref(into))


# ---- on a device ---------------------------------------------------------------------------------

def _blocks(begin, end):
    """How many these elements of a parameter touch."""
    return (end + BLOCK - 1) // BLOCK - begin // BLOCK


def _chunks(several):
    """Elements [begin, end) of parts, at most CHUNK together, cut where blocks end."""
    chunk, room = [], CHUNK // BLOCK
    for part, _ in several:
        begin, end = part.first, part.first + part.flat.numel()
        while begin < end:
            cut = min(end, (begin // BLOCK + room) * BLOCK)
            chunk.append((part, begin, cut))
            room -= _blocks(begin, cut)
            begin = cut
            if room == 0:
                yield chunk
                chunk, room = [], CHUNK // BLOCK
    if chunk:
        yield chunk


def _add_device(several, device):
    """Everything is queued first, then fetched at once."""
    chunks = list(_chunks(several))
    found = torch.cat([block_sums(chunk, device) for chunk in chunks]).cpu()
    blocks = [_blocks(part.first, part.first + part.flat.numel()) for part, _ in several]
    for rows, (_, into) in zip(found.split(blocks), several):
        _library.call("opbound_add_sums", len(rows),
                      cast(c_void_p(rows.data_ptr()), POINTER(_library.Gradient)), byref(into))


@functools.lru_cache(maxsize=1024)
def _table(runs, device):
    """Of each block: its first element, where what there is begins and ends, the sketch's key. The
    same in every step."""
    rows = []
    for name, begin, end in runs:
        key = key_of(name)
        for first in range(begin // BLOCK * BLOCK, end, BLOCK):
            rows.append((first, max(begin, first), min(end, first + BLOCK), key))
    return torch.tensor(rows).to(device).t().unsqueeze(2)


def block_sums(chunk, device):
    """The words of an opbound_gradient of each block, [blocks, 70]."""
    table = _table(tuple((part.name, begin, end) for part, begin, end in chunk), device)
    first, begin, end, key = table
    blocks = first.shape[0]
    values = torch.zeros(blocks * BLOCK, dtype=torch.float64, device=device)
    bits = torch.zeros(blocks * BLOCK, dtype=torch.int64, device=device)
    at = 0
    for part, start, stop in chunk:
        flat = part.flat.detach()[start - part.first:stop - part.first]
        to = slice(at + start % BLOCK, at + start % BLOCK + stop - start)
        values[to], bits[to] = flat, _bits_of(flat)
        at += _blocks(start, stop) * BLOCK
    found = torch.zeros(blocks, _WORDS, dtype=torch.int64, device=device)
    found[:, 0] = sizeof(_library.Gradient)
    found[:, 1] = (end - begin)[:, 0]
    place = first + torch.arange(BLOCK, device=device)
    hashes = hash_of(place, bits.view(blocks, BLOCK))
    found[:, 5] = hashes.masked_fill_((place < begin) | (place >= end), 0).sum(1)
    del place, hashes, bits
    is_wrong = ~torch.isfinite(values)
    found[:, 2] = is_wrong.view(blocks, BLOCK).sum(1)
    lanes = _lanes(values.masked_fill_(is_wrong, 0).view(blocks, ROWS, WIDTH), first, key)
    total = torch.zeros(2, blocks, dtype=torch.float64, device=device)
    for lane in lanes[:2].unbind(2):
        total += lane
    found[:, 3:5] = total.t().contiguous().view(torch.int64)
    found[:, 6:] = lanes[2].contiguous().view(torch.int64)
    return found


def _lanes(values, first, key):
    """Each lane's sum, sum of squares and sketch, row after row: [3, blocks, 64]."""
    device = values.device
    row = first // WIDTH + torch.arange(ROWS, device=device)
    signs = hash_of(row, key)
    turn = hash_of(row, signs) & (WIDTH - 1)
    lane = torch.arange(WIDTH, device=device)
    source = (lane - turn.unsqueeze(2)) & (WIDTH - 1)  # whose element the lane takes
    plain = values.gather(2, source)
    is_minus = (signs.unsqueeze(2) >> source) & 1
    del source
    terms = torch.stack([plain, plain * plain, plain * (1 - 2 * is_minus)])
    del plain, is_minus
    sums = torch.zeros_like(terms[:, :, 0])
    for each in terms.unbind(2):
        sums += each
    return sums


def _bits_of(flat):
    """As ops/hash.hpp has them, as signed words."""
    name = _torch.format_of(flat.dtype)
    if name not in _BITS:
        return flat.to(torch.int64)
    bits = flat.contiguous().view(_BITS[name]).to(torch.int64)
    if flat.element_size() < 8:
        bits &= 2 ** (8 * flat.element_size()) - 1
    return bits.masked_fill_(torch.isnan(flat.double()), _NAN[name])


def hash_of(index, bits):
    """element_hash of ops/hash.hpp, of tensors."""
    return _mixed(bits + _mixed((index + 1) * _word(0x9e3779b97f4a7c15)))


def _mixed(z):
    for shift, factor in ((30, 0xbf58476d1ce4e5b9), (27, 0x94d049bb133111eb)):
        z = (z ^ shifted(z, shift)) * _word(factor)
    return z ^ shifted(z, 31)


def shifted(z, by):
    """As unsigned words are."""
    return (z >> by) & (2 ** (64 - by) - 1)


def key_of(name):
    """sketch_key of fingerprint.hpp."""
    letters = torch.tensor(list(name.encode()), dtype=torch.int64)
    return int(hash_of(torch.arange(len(letters)), letters).sum()) if name else 0
