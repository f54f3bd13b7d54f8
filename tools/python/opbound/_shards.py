"""Gradients in parts: sums over them are added over ranks, in the order of the ranks."""
import torch
import torch.distributed as dist

from opbound import _library, _torch


def _is_distributed():
    return dist.is_available() and dist.is_initialized()


class Shards:
    """Which part of each parameter this rank has: all of it, or what `told` or its DTensor says."""

    def __init__(self, parameters, told):
        self._parameters = parameters
        self._told = dict(told or {})
        unknown = set(self._told) - {name for name, _, _ in parameters}
        if unknown:
            raise _library.Error(f"shards of '{sorted(unknown)[0]}', expected a parameter's name")
        self.rank = dist.get_rank() if _is_distributed() else 0
        self.ranks = dist.get_world_size() if _is_distributed() else 1
        is_in_parts = any(hasattr(p, "full_tensor") for _, _, p in parameters)
        self.is_sharded = self.ranks > 1 and (bool(self._told) or is_in_parts)

    def shape(self, name, p):
        """Of the whole parameter. More than four axes become one."""
        shape = list(self._told[name][0]) if name in self._told else list(p.shape)
        return shape if 1 <= len(shape) <= 4 else [int(torch.Size(shape).numel())]

    def _part(self, name, p):
        """The gradient's elements that are this rank's to sum, flat, and where they begin."""
        gradient = p.grad
        if gradient is None:
            return None, 0
        if name in self._told:
            return gradient.reshape(-1), int(self._told[name][1])
        if hasattr(gradient, "full_tensor"):
            whole = gradient.full_tensor().reshape(-1)  # a collective: every rank calls it
            begin, end = (whole.numel() * r // self.ranks for r in (self.rank, self.rank + 1))
            return whole[begin:end], begin
        whole = gradient.reshape(-1)
        if self.is_sharded and self.rank > 0:
            return whole[:0], 0  # all ranks have it: the first one counts it
        return whole, 0

    def sums(self, sums_of, factor):
        """An opbound_gradient of each parameter, of the gradients times `factor`."""
        own = []
        for name, _, p in self._parameters:
            flat, first = self._part(name, p)
            if flat is None:
                own.append(_library.Gradient())
                continue
            flat = _torch.on_host(flat)
            own.append(sums_of(name, flat if factor == 1 else flat * factor, first))
        return self._added(own) if self.is_sharded else own

    def _added(self, own):
        whole = torch.tensor([[g.count, g.nonfinite, _signed(g.hash)] for g in own])
        real = torch.tensor([[g.sum, g.square, *g.sketch] for g in own], dtype=torch.float64)
        total = [_library.Gradient() for _ in own]
        for wholes, reals in zip(_gathered(whole), _gathered(real)):
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
        return int(_gathered(torch.tensor([number]))[0].item())


def _signed(word):
    return word - 2 ** 64 if word >= 2 ** 63 else word


def _gathered(tensor):
    """Every rank's, in their order, on the host."""
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    own = tensor.to(device)
    all_ = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(all_, own)
    return [part.cpu() for part in all_]
