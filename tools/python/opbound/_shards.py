"""Gradients in parts: sums over them are added over ranks, in the order of the ranks."""
import torch
import torch.distributed as dist

from opbound import _fingerprint, _library


class Shards:
    """Adds what ranks hold, where they hold parts of parameters."""

    def __init__(self, parameters):
        self._parameters = parameters
        is_distributed = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if is_distributed else 0
        self.ranks = dist.get_world_size() if is_distributed else 1
        self.is_sharded = self.ranks > 1 and any(held.is_part for held in parameters)

    def sums(self):
        """An opbound_gradient of each parameter; complete on every rank if it is sharded."""
        own = [None] * len(self._parameters)
        parts = {}
        for place, held in enumerate(self._parameters):
            if held.must_be_gathered():
                own[place] = self._gathered(held)
                continue
            flat = None if self._is_counted_elsewhere(held) else held.flat()
            if flat is not None:
                parts[place] = _fingerprint.Part(held.name, flat, held.first)
        for place, sums in zip(parts, _fingerprint.all_sums(list(parts.values()))):
            own[place] = sums
        own = [_library.Gradient() if sums is None else sums for sums in own]
        return self._added(own) if self.is_sharded else own

    def _is_counted_elsewhere(self, held):
        """Of what all ranks have whole the first one counts."""
        return held.is_copy or (self.is_sharded and self.rank > 0 and not held.is_part)

    def _gathered(self, held):
        """One parameter at a time: whole it may be large. A collective: every rank calls it."""
        gradient = held.tensor.grad
        if gradient is None:
            return None
        whole = gradient.full_tensor().reshape(-1)
        return _fingerprint.sums_of(_fingerprint.Part(held.name, whole)) if self.rank == 0 else None

    def _added(self, own):
        whole = torch.tensor([[g.count, g.nonfinite, _signed(g.hash)] for g in own])
        real = torch.tensor([[g.sum, g.square, *g.sketch] for g in own], dtype=torch.float64)
        total = [_library.Gradient() for _ in own]
        for wholes, reals in zip(_of_all_ranks(whole), _of_all_ranks(real)):
            for sums, (count, nonfinite, hash_), row in zip(total, wholes.tolist(), reals.tolist()):
                sums.count += count
                sums.nonfinite += nonfinite
                sums.hash = (sums.hash + hash_) % 2 ** 64
                sums.sum += row[0]
                sums.square += row[1]
                for place, value in enumerate(row[2:]):
                    sums.sketch[place] += value
        return total

    def of_rank_0(self, number):
        """The number that rank 0 has."""
        if self.ranks == 1:
            return number
        return int(_of_all_ranks(torch.tensor([number]))[0].item())


def _signed(word):
    return word - 2 ** 64 if word >= 2 ** 63 else word


def _of_all_ranks(tensor):
    """In their order, on the host."""
    device = "cuda" if "nccl" in dist.get_backend() else "cpu"
    own = tensor.to(device)
    all_ = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(all_, own)
    return [part.cpu() for part in all_]
