"""The parameters of a model that are trained, and what this rank holds of each."""
import dataclasses
import re

import torch
import torch.distributed as dist

from opbound import _library

# Which op reads a module's parameters.
_OPS = {"Linear": "matmul", "Embedding": "embedding", "LayerNorm": "layer_norm",
        "RMSNorm": "rms_norm"}
# Of a model inside of DistributedDataParallel, torch.compile, FSDP: the name without.
_WRAPPERS = re.compile(r"(^|(?<=\.))(module|_orig_mod|_fsdp_wrapped_module)\.")


def plain_name(name):
    return _WRAPPERS.sub("", name)


def layer_of(name):
    """The first whole number among the words of a parameter's name; -1 where there is none."""
    return next((int(word) for word in name.split(".") if word.isdigit()), -1)


@dataclasses.dataclass
class Held:
    """A parameter, and where this rank's part of it lies."""
    name: str
    op: str
    tensor: torch.Tensor  # that has the gradient
    shape: list           # of the whole parameter
    first: int = 0        # its first element that is here
    piece: tuple = None   # of FSDP's flat parameter: where it begins there, and how many
    is_part: bool = False
    is_copy: bool = False  # another rank counts the same elements

    def flat(self):
        """The gradient's elements that are here; None: there is none."""
        gradient = self.tensor.grad
        if gradient is None or gradient.numel() == 0:
            return None
        gradient = gradient.to_local() if hasattr(gradient, "to_local") else gradient
        gradient = gradient.detach().reshape(-1)
        if self.piece is not None:
            return gradient[self.piece[0]:self.piece[0] + self.piece[1]]
        return gradient

    def must_be_gathered(self):
        """Does no run of elements lie here: cut along another axis, or twice?"""
        placements = getattr(self.tensor, "placements", ())
        cuts = [p for p in placements if not p.is_replicate()]
        return len(cuts) > 1 or any(type(p).__name__ != "Shard" or p.dim != 0 for p in cuts)


def held_parameters(model, told):
    """In the order in which the model has them, whatever it is wrapped in; one that is shared,
    once. `told`: by name the whole shape and the first element."""
    in_flat = _in_flat_parameters(model)
    found, seen = [], set(in_flat.seen)
    for prefix, module in model.named_modules():
        own = [(name, p, None) for name, p in module.named_parameters(recurse=False)
               if p.requires_grad and id(p) not in seen]
        seen.update(id(p) for _, p, _ in own)
        for name, p, place in own + in_flat.of_module.get(id(module), []):
            full = plain_name(f"{prefix}.{name}" if prefix else name)
            found.append(_held(full, _op_of(module, name), p, place, told.get(full)))
    unknown = set(told) - {held.name for held in found}
    if unknown:
        raise _library.Error(f"shards of '{sorted(unknown)[0]}', expected a parameter's name")
    return found


def _op_of(module, parameter):
    op = _OPS.get(type(module).__name__, "")
    return "bias" if op == "matmul" and parameter == "bias" else op


def _held(name, op, p, place, told):
    if told is not None:
        return Held(name, op, p, list(told[0]), int(told[1]), is_part=True)
    if place is not None:
        shape, first, piece, is_copy = place
        return Held(name, op, p, list(shape), first, piece, True, is_copy)
    held = Held(name, op, p, list(p.shape))
    if hasattr(p, "placements"):  # a DTensor
        held.is_part = True
        _find_rows(held, p)
    return held


def _find_rows(held, p):
    """Of a DTensor whose first axis is dealt out as torch.chunk deals: which rows are here."""
    if held.must_be_gathered():
        return
    at = p.device_mesh.get_coordinate()
    held.is_copy = at is None
    for axis, placement in enumerate(p.placements if at is not None else []):
        if placement.is_replicate():
            held.is_copy = held.is_copy or at[axis] > 0
            continue
        rows = p.shape[0]
        each = -(-rows // p.device_mesh.size(axis))
        begin, end = (min(rows, each * (at[axis] + i)) for i in (0, 1))
        if tuple(p.to_local().shape) != (end - begin, *p.shape[1:]):
            raise _library.Error(f"{held.name}: rows {list(p.to_local().shape)} on this rank, "
                                 f"expected {begin} to {end} of {list(p.shape)}")
        held.first = begin * (p.numel() // rows if rows > 0 else 0)


# ---- FullyShardedDataParallel --------------------------------------------------------------------

@dataclasses.dataclass
class _InFlat:
    of_module: dict = dataclasses.field(default_factory=dict)
    seen: set = dataclasses.field(default_factory=set)


def _in_flat_parameters(model):
    """Which parts of which parameters lie in the flat parameters of the first FSDP."""
    found = _InFlat()
    for module in model.modules():
        if type(module).__name__ != "FullyShardedDataParallel":
            continue
        if not hasattr(module, "_handle"):
            raise _library.Error(f"FullyShardedDataParallel of torch {torch.__version__}, expected "
                                 "that of 2.1 or later")
        if module._handle is not None and module._handle.uses_sharded_strategy:
            _take_flat(module, module._handle.flat_param, found)
    return found


def _take_flat(wrapper, flat, found):
    between_nodes = getattr(wrapper, "_inter_node_pg", None)
    is_copy = between_nodes is not None and dist.get_rank(between_nodes) > 0
    own = getattr(flat, "_params", None) or [flat] * len(flat._param_infos)
    found.seen.update(id(p) for p in [flat, *own])
    for told, shape, part, p in zip(flat._param_infos, flat._shapes, flat._shard_param_infos, own):
        if not p.requires_grad:
            continue
        first, piece = 0, (0, 0)
        if part.in_shard:
            first, piece = part.intra_param_start_idx, (part.offset_in_shard, part.numel_in_shard)
        found.of_module.setdefault(id(told.module), []).append(
            (told.param_name, flat, (shape, first, piece, is_copy)))
