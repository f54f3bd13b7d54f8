"""A twin of a run: the same but for another draw of its rounding."""
import torch

from opbound import _fingerprint, _library, _words
from opbound._held import held_parameters


def _ulp(w, dtype):
    info = torch.finfo(dtype)
    power = torch.ldexp(torch.ones_like(w), torch.frexp(w).exponent - 1)
    return torch.where(w == 0, torch.zeros_like(w), power).clamp(min=info.tiny) * info.eps


def _drawn(count, name, seed, device):
    """In [0, 1), the same for every device and rank."""
    key = _fingerprint.key_of(f"{name}, twin {seed}")
    words = _fingerprint.hash_of(torch.arange(count, device=device), key)
    return _fingerprint.shifted(words, 11).double() * 2.0 ** -53


def twin(model, seed, read=None):
    """Moves each weight that is trained by at most half an ulp of the format in which it is read,
    and then to one of its format's two neighbours, so that from there on every rounding is drawn
    again. Before the model is dealt out to ranks, and before the first step:

        opbound.twin(model, seed=1)
        trace = opbound.Trace("twin1.trace", model)

    `opbound trace diff a.trace b.trace --twins twin1.trace twin2.trace ...` then says whether
    rounding explains the difference of a and b.

    seed  1 or more: another twin each
    read  torch.bfloat16 under autocast; else as weights are stored
    """
    _words.module("model", model)
    _words.whole_number("seed", seed, 1)
    if read is not None and not (isinstance(read, torch.dtype) and read.is_floating_point):
        raise _words.wrong("read", read, "a format of torch, as torch.bfloat16")
    with torch.no_grad():
        for held in held_parameters(model, {}):
            p = held.tensor
            if held.is_part:
                raise _library.Error(f"{held.name} is in parts, expected opbound.twin before the "
                                     "model is dealt out")
            w = p.detach().double().reshape(-1)
            how_far = _drawn(w.numel(), held.name, 2 * seed, w.device) - 0.5
            own = _ulp(w, p.dtype)
            steps = how_far * _ulp(w, read or p.dtype) / own
            up = _drawn(w.numel(), held.name, 2 * seed + 1, w.device)
            p.copy_((w + torch.floor(steps + up) * own).reshape(p.shape))
    return model
