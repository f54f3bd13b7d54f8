"""The mean of the losses and its gradient: nll_loss, which gets log-probabilities.

opbound has no op of that name. Forward it is a product of the targets' log-probabilities and ones
(or the classes' weights), times 1 / their sum, which allows a rounding more than a division has;
backward it is a division of the upstream gradient.
"""
import torch

from opbound._known import Known, flat

_NONE, _MEAN, _SUM = 0, 1, 2


def _rows(t):
    """[C], [N, C] or [N, C, d1, ...] as [rows, C]."""
    t = t.unsqueeze(0) if t.dim() == 1 else t.movedim(1, -1)
    return t.reshape(-1, t.shape[-1])


def _targets(target, ignored):
    """Of all rows, 0 where there is none, and where there is one."""
    target = flat(target)
    is_kept = target != ignored
    return torch.where(is_kept, target, torch.zeros_like(target)), is_kept


def nll_loss(x, target, weight, reduction, ignored, *, result):
    loss, total = result
    index, is_kept = _targets(target, ignored)
    own = -_rows(x).gather(1, index.unsqueeze(1)).squeeze(1)
    if reduction == _NONE:
        if weight is not None:
            return None
        return _copied(own.masked_fill(~is_kept, 0), flat(loss))
    own, index = own[is_kept], index[is_kept]
    if own.numel() == 0:
        return None
    factors = torch.ones_like(own) if weight is None else weight[index]
    divisor = float(total) if reduction == _MEAN else 1.0
    known = [_product(own, factors, loss, 1 / divisor)]
    if reduction == _MEAN:  # what the backward pass divides by
        count = torch.tensor([float(own.numel())], dtype=torch.float64, device=total.device)
        known.append(_copied(count, total.reshape(1)) if weight is None
                     else _product(factors, torch.ones_like(factors), total, 1.0))
    return known


def _copied(x, y):
    return Known("cast", "forward", {"x": x}, {"y": y}, {}, "x", "y", ("nearest",))


def _product(a, b, d, alpha):
    return Known("matmul", "forward", {"a": a.unsqueeze(0), "b": b.unsqueeze(1)},
                 {"d": d.reshape(1, 1)}, {"alpha": alpha}, "a", "d")


def nll_loss_backward(dy, x, target, weight, reduction, ignored, total, *, result):
    """-dy / total at the targets; what a row has elsewhere is 0, so its largest is."""
    if weight is not None:
        return None
    index, is_kept = _targets(target, ignored)
    dx = _rows(result)
    at_target = index.unsqueeze(1)
    got = dx.gather(1, at_target).squeeze(1)
    others = dx.scatter(1, at_target, 0).abs().amax(1)
    upstream = (-flat(dy)).expand(got.shape).masked_fill(~is_kept, 0)
    scale = (total if reduction == _MEAN else torch.ones_like(total)).reshape(1)
    if not torch.equal(scale.float().to(scale.dtype), scale):
        return None
    return Known("unscale", "forward",
                 {"g": torch.cat([upstream, torch.zeros_like(upstream)]), "scale": scale.float()},
                 {"unscaled": torch.cat([got, others])}, {}, "g", "unscaled")
