"""Traces of loops on two ranks, against the same loop on one."""
import importlib
import pathlib
import unittest

import torch
import torch.distributed as dist
import torch.multiprocessing

import common
import opbound

STEPS = 3
COLUMNS = ("SELECT step, name, count, nonfinite, hash, sum, square, sketch FROM gradient JOIN "
           "parameter ON id = parameter ORDER BY step, id")


def new_optimizer(model):
    """Its rate is a power of two: the product is exact, so vectors and single elements of a shard
    have the same bits."""
    return torch.optim.SGD(model.parameters(), lr=2.0 ** -4)


def half(batch, rank):
    return tuple(t[2 * rank:2 * rank + 2] for t in batch)


def train(path, wrap, rank):
    """A rank's loop: each has half of the sequences."""
    model = wrap(common.new_model())
    optimizer = new_optimizer(model)
    trace = opbound.Trace(path, model)
    for batch in common.batches(STEPS):
        optimizer.zero_grad()
        loss = common.loss_of(model, *half(batch, rank))
        loss.backward()
        optimizer.step()
        trace.step(loss, optimizer, batch=half(batch, rank))
    trace.close()


def train_on_one(path):
    """The same: the mean of the halves' gradients, as ranks take it."""
    model = common.new_model()
    optimizer = new_optimizer(model)
    trace = opbound.Trace(path, model)
    parameters = list(model.parameters())
    for batch in common.batches(STEPS):
        losses = [common.loss_of(model, *half(batch, rank)) for rank in (0, 1)]
        gradients = [torch.autograd.grad(loss, parameters) for loss in losses]
        for p, a, b in zip(parameters, *gradients):
            p.grad = a / 2 + b / 2
        optimizer.step()
        trace.step(losses[0], optimizer, batch=half(batch, 0))
    trace.close()


def fully_sharded(model, *mesh):
    fsdp = importlib.import_module("torch.distributed.fsdp")
    meshes = importlib.import_module("torch.distributed.device_mesh")
    names = ("replicate", "shard")[2 - len(mesh):]
    mesh = meshes.init_device_mesh("cpu", mesh, mesh_dim_names=names)
    for block in model.blocks:
        fsdp.fully_shard(block, mesh=mesh)
    return fsdp.fully_shard(model, mesh=mesh)


def first_fsdp(model, **options):
    fsdp = importlib.import_module("torch.distributed.fsdp")
    options["device_id"] = torch.device("cpu")
    for i, block in enumerate(model.blocks):
        model.blocks[i] = fsdp.FullyShardedDataParallel(block, **options)
    return fsdp.FullyShardedDataParallel(model, **options)


WRAPS = {
    "ddp": torch.nn.parallel.DistributedDataParallel,
    "fully_shard": lambda model: fully_sharded(model, 2),
    "fully_shard, replicated": lambda model: fully_sharded(model, 2, 1),
    "fsdp": first_fsdp,
    "fsdp of original parameters": lambda model: first_fsdp(model, use_orig_params=True),
}


def has_fsdp():
    """On CPUs: torch 2 has it, and 1.13 cannot be imported whole by Python 3.11."""
    try:
        return hasattr(importlib.import_module("torch.distributed.fsdp"), "fully_shard")
    except (ImportError, ValueError):
        return False


def _join(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)


def _rank(rank, folder, names):
    _join(rank, folder / "store")
    for name in names:
        train(str(folder / f"{name}.trace"), WRAPS[name], rank)
    try:
        opbound.Trace(str(folder / f"{names[0]}.trace"), common.new_model())
        raise AssertionError("it wrote over a file")
    except opbound.Error as error:
        assert ("there is a file already" if rank == 0 else "rank 0 could not") in str(error)
    dist.destroy_process_group()


def _by_hand(rank, folder):
    """A part of a parameter that no wrapper made, and one whole on each rank."""
    _join(rank, folder / "store")
    module = torch.nn.Module()
    module.w = torch.nn.Parameter(torch.zeros(2 * 16384))
    module.whole = torch.nn.Parameter(torch.zeros(3))
    module.w.grad = gradient()[rank * 2 * 16384:(rank + 1) * 2 * 16384].clone()
    module.whole.grad = torch.ones(3)
    trace = opbound.Trace(str(folder / "hand.trace"), module,
                          shards={"w": ((4, 16384), rank * 2 * 16384)})
    trace.step(torch.tensor(1.0))
    if has_fsdp():
        _columns(folder)
    dist.destroy_process_group()


def _columns(folder):
    """A DTensor that is cut along its second axis: it is gathered."""
    tensors = importlib.import_module("torch.distributed.tensor")
    mesh = importlib.import_module("torch.distributed.device_mesh").init_device_mesh("cpu", (2,))
    whole = gradient().view(4, 16384)
    module = torch.nn.Module()
    module.w = torch.nn.Parameter(
        tensors.distribute_tensor(torch.zeros_like(whole), mesh, [tensors.Shard(1)]))
    module.w.grad = tensors.distribute_tensor(whole, mesh, [tensors.Shard(1)])
    trace = opbound.Trace(str(folder / "columns.trace"), module)
    trace.step(torch.tensor(1.0))


def gradient():
    """Whole numbers: their sums are exact in any order."""
    return (torch.arange(4 * 16384) % 97 - 48).float()


@unittest.skipUnless(dist.is_available() and hasattr(dist, "ProcessGroupGloo"), "no gloo")
class RanksTest(unittest.TestCase):
    def setUp(self):
        self._folder = common.folder()
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)

    def test_two_ranks_are_as_one(self):
        names = list(WRAPS) if has_fsdp() else ["ddp"]
        torch.multiprocessing.spawn(_rank, (self.folder, names), nprocs=2)
        one = str(self.folder / "one.trace")
        train_on_one(one)
        expected = common.rows(one, COLUMNS)
        for name in names:
            with self.subTest(name):
                path = str(self.folder / f"{name}.trace")
                found = common.rows(path, COLUMNS)
                if name == "ddp":
                    self.assertEqual(found, expected)
                self.assertEqual([row[:5] for row in found], [row[:5] for row in expected])
                for ours, theirs in zip(found, expected):  # n - 1 additions in two orders
                    self.assertLessEqual(abs(ours[6] - theirs[6]),
                                         (ours[2] - 1) * 2 ** -52 * theirs[6])
                code, text = common.opbound("trace", "diff", one, path)
                self.assertEqual(code, 0, text)
                self.assertIn("ranks 1 / 2", text)
                self.assertRegex(text, "bits of gradients +the same")

    def test_parts_by_hand(self):
        torch.multiprocessing.spawn(_by_hand, (self.folder,), nprocs=2)
        w = torch.nn.Module()
        w.w = torch.nn.Parameter(torch.zeros(4, 16384))
        w.w.grad = gradient().view(4, 16384)
        one = str(self.folder / "one.trace")
        opbound.Trace(one, w).step(torch.tensor(1.0))
        expected = common.rows(one, COLUMNS)
        found = common.rows(self.folder / "hand.trace", COLUMNS)
        self.assertEqual([row for row in found if row[1] == "w"], expected)
        self.assertEqual([row[1:4] for row in found if row[1] == "whole"], [("whole", 3, 0)])
        self.assertEqual(common.rows(self.folder / "hand.trace",
                                     "SELECT value FROM head WHERE key = 'ranks'"), [("2",)])
        if has_fsdp():
            self.assertEqual(common.rows(self.folder / "columns.trace", COLUMNS), expected)


if __name__ == "__main__":
    unittest.main()
