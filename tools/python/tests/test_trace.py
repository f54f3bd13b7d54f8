"""Traces of loops of PyTorch, as `opbound trace` reads them."""
import copy
import math
import pathlib
import pickle
import unittest

import torch

import common
import opbound
from common import rows
from opbound import _fingerprint, _settings
from opbound._held import held_parameters


def train(path, steps=4, fault=None, scaler=None, fused=None, twin=None, dtype=None,
          weight_decay=0.01, **options):
    """A loop as a user has it, with a trace."""
    model = common.new_model().to(dtype)
    if twin is not None:
        opbound.twin(model, twin)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=weight_decay,
                                  **({"fused": True} if fused else {}))
    trace = opbound.Trace(path, model, **options)
    for step, (tokens, targets) in enumerate(common.batches(steps)):
        optimizer.zero_grad()
        loss = common.loss_of(model, tokens, targets)
        (loss if scaler is None else scaler.scale(loss)).backward()
        if fault is not None:
            fault(step, model)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
        trace.step(loss, optimizer, scaler=scaler, batch=(tokens, targets), tokens=tokens.numel())
        if scaler is not None:
            scaler.update()
    trace.close()
    return model


class Scaler:
    """What a GradScaler is to Trace: torch 1.13 has none for CPUs."""

    def __init__(self, scale):
        self._scale, self._per_optimizer_states = scale, {}

    def scale(self, loss):
        return loss * self._scale

    def get_scale(self):
        return self._scale

    def is_enabled(self):
        return True

    def step(self, optimizer):
        found = 0.0
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad.mul_(1 / self._scale)
                found += float(not torch.isfinite(p.grad).all())
        self._per_optimizer_states[id(optimizer)] = {
            "found_inf_per_device": {torch.device("cpu"): torch.tensor(found)}}
        if not found:
            optimizer.step()

    def update(self):
        self._per_optimizer_states.clear()


def torch_scaler(scale):
    """Torch's own; None where it has none for CPUs."""
    try:
        return torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1000)
    except (AttributeError, RuntimeError, TypeError):
        return None


def _sums_of(name, flat, first):
    return _fingerprint.sums_of(_fingerprint.Part(name, flat, first))


GRADIENTS = ("SELECT step, name, count, nonfinite, sum, square, hash, sketch FROM gradient JOIN "
             "parameter ON id = parameter ORDER BY step, id")


class TraceTest(unittest.TestCase):
    def setUp(self):
        self._folder = common.folder()
        self.addCleanup(self._folder.cleanup)
        self.path = lambda name: str(pathlib.Path(self._folder.name) / name)

    def test_sums_are_those_of_the_gradient(self):
        g = torch.tensor([1.5, -2.0, 0.25, math.inf, 4.0])
        sums = _sums_of("w", g, 0)
        self.assertEqual((sums.count, sums.nonfinite), (5, 1))
        self.assertEqual((sums.sum, sums.square), (3.75, 22.3125))
        self.assertEqual(sorted(abs(s) for s in sums.sketch if s), [0.25, 1.5, 2.0, 4.0])
        left, right = _sums_of("w", g[:2], 0), _sums_of("w", g[2:], 2)
        self.assertEqual((left.hash + right.hash) % 2 ** 64, sums.hash)
        self.assertEqual([x + y for x, y in zip(left.sketch, right.sketch)], list(sums.sketch))

    def test_a_loop_is_written_whole(self):
        model = train(self.path("a.trace"), full_every=2)
        names = [name for name, in rows(self.path("a.trace"), "SELECT name FROM parameter")]
        self.assertEqual(sorted(names), sorted(n for n, _ in model.named_parameters()))
        self.assertIn(("blocks.1.up.weight", "matmul", 1, "32, 16"),
                      rows(self.path("a.trace"), "SELECT name, op, layer, shape FROM parameter"))
        self.assertEqual(len(rows(self.path("a.trace"), GRADIENTS)), 4 * len(names))
        self.assertEqual(rows(self.path("a.trace"), "SELECT DISTINCT step FROM full"), [(0,), (2,)])
        for ratio, lost in rows(self.path("a.trace"),
                                "SELECT update_to_weight, lost_updates FROM full JOIN parameter ON "
                                "id = parameter WHERE name = 'head.weight'"):
            self.assertGreater(ratio, 0)  # each weight moves: AdamW's step is lr at first
            self.assertEqual(lost, 0)
        code, text = common.opbound("trace", "show", self.path("a.trace"))
        self.assertEqual(code, 0, text)
        self.assertIn(f"pytorch {torch.__version__}", text)

    def test_names_are_those_without_wrappers(self):
        model = common.new_model()
        names = [name for name, _ in model.named_parameters()]
        wrapped = [torch.nn.DataParallel(model)]
        if hasattr(torch, "compile"):
            wrapped.append(torch.compile(model))
        for each in wrapped:
            self.assertEqual([held.name for held in held_parameters(each, {})], names)

    def test_equal_runs_have_equal_bits(self):
        train(self.path("a.trace"))
        train(self.path("b.trace"))
        self.assertEqual(rows(self.path("a.trace"), GRADIENTS),
                         rows(self.path("b.trace"), GRADIENTS))
        code, text = common.opbound("trace", "diff", self.path("a.trace"), self.path("b.trace"))
        self.assertEqual(code, 0, text)
        self.assertIn("verdict: within, every bit of 4 steps agrees", text)

    def test_the_first_gradient_that_differs_is_named(self):
        def fault(step, model):
            if step == 2:
                model.blocks[1].down.weight.grad.mul_(1 + 2 ** -20)
        train(self.path("a.trace"))
        train(self.path("b.trace"), fault=fault)
        a, b = (rows(self.path(n), GRADIENTS) for n in ("a.trace", "b.trace"))
        first = next(x for x, y in zip(a, b) if x != y)
        self.assertEqual(first[:2], (2, "blocks.1.down.weight"))
        code, text = common.opbound("trace", "diff", self.path("a.trace"), self.path("b.trace"))
        self.assertIn("blocks.1.down.weight", text)
        self.assertIn("verdict: undecided", text)  # nothing said that they had to agree
        self.assertEqual(code, 0)

    def test_a_scale_that_is_a_power_of_two_changes_nothing(self):
        train(self.path("a.trace"))
        train(self.path("b.trace"), scaler=Scaler(2.0 ** 10))
        self.assertEqual(rows(self.path("a.trace"), GRADIENTS),
                         rows(self.path("b.trace"), GRADIENTS))
        self.assertEqual(rows(self.path("b.trace"),
                              "SELECT DISTINCT loss_scale, skipped FROM step"),
                         [(1024.0, 0)])

    def test_twins_tell_rounding_from_a_fault(self):
        def fault(step, model):
            if step >= 5:
                model.blocks[1].down.weight.grad.mul_(1 + 2 ** -8)
        paths = [self.path(f"{i}.trace") for i in range(6)]
        train(paths[0], steps=20)
        for seed in range(1, 5):
            train(paths[seed], steps=20, twin=seed)
        train(paths[5], steps=20, twin=5, fault=fault)
        twins = ["--twins", *paths[1:4]]
        code, text = common.opbound("trace", "diff", paths[0], paths[4], *twins)
        self.assertEqual(code, 0, text)
        self.assertIn("verdict: within", text)
        code, text = common.opbound("trace", "diff", paths[0], paths[5], *twins)
        self.assertEqual(code, 1, text)
        self.assertIn("ALARM at step 5", text)
        self.assertIn("blocks.1.down.weight by", text)

    def test_a_twin_moves_weights_to_neighbours(self):
        for dtype, read in ((torch.float32, None), (torch.float64, torch.float32),
                            (torch.bfloat16, None), (torch.float32, torch.bfloat16)):
            module = torch.nn.Module()
            values = torch.randn(1000, generator=torch.Generator().manual_seed(1))
            values[:3] = torch.tensor([0.0, 1.0, -2.0])
            module.w = torch.nn.Parameter(values.to(dtype))
            then = module.w.detach().double().clone()
            moved = (opbound.twin(module, 1, read).w.detach().double() - then).abs()
            eps = torch.finfo(read or dtype).eps
            self.assertTrue((moved <= eps * then.abs().clamp(min=2.0 ** -100)).all())
            self.assertGreater(int((moved > 0).sum()), 200)

    def test_torchs_own_scaler(self):
        if torch_scaler(1.0) is None:
            self.skipTest("this torch has no GradScaler for CPUs")

        def overflow(step, model):
            if step == 1:
                model.head.weight.grad[0, 0] = math.inf
        for fused in (False, True):
            a, b, c = (self.path(f"{name} {fused}") for name in "abc")
            train(a, fused=fused)
            train(b, fused=fused, scaler=torch_scaler(2.0 ** 10))
            self.assertEqual(rows(a, GRADIENTS), rows(b, GRADIENTS))
            train(c, fused=fused, scaler=torch_scaler(2.0 ** 10), fault=overflow)
            self.assertEqual(rows(c, "SELECT step, loss_scale, skipped FROM step"),
                             [(0, 1024, 0), (1, 1024, 1), (2, 512, 0), (3, 512, 0)])

    def test_a_skipped_step_is_told(self):
        def overflow(step, model):
            if step == 1:
                model.head.weight.grad[0, 0] = math.inf
        train(self.path("a.trace"), fault=overflow, scaler=Scaler(2.0), steps=3)
        self.assertEqual(rows(self.path("a.trace"), "SELECT step FROM step WHERE skipped"), [(1,)])
        self.assertEqual(rows(self.path("a.trace"), "SELECT step, nonfinite, name FROM gradient "
                              "JOIN parameter ON id = parameter WHERE nonfinite"),
                         [(1, 1, "head.weight")])

    def test_a_run_goes_on(self):
        train(self.path("a.trace"), steps=2)
        with self.assertRaisesRegex(opbound.Error, "there is a file already"):
            train(self.path("a.trace"))
        train(self.path("a.trace"), steps=1, resume=True)
        self.assertEqual(rows(self.path("a.trace"), "SELECT step FROM step"), [(0,), (1,), (2,)])

    def settings(self, name):
        return {key.partition(" ")[2]: value for key, value in rows(
            self.path(name), "SELECT key, value FROM head WHERE key LIKE 'environment %'")}

    def test_settings_are_kept_and_compared(self):
        train(self.path("a.trace"))
        with torch.autocast("cpu", torch.bfloat16):
            train(self.path("b.trace"), dtype=torch.float64, weight_decay=0.5)
        found = self.settings("a.trace")
        for name, value in {"torch": torch.__version__, "torch threads": "1", "parameters": "fp32",
                            "autocast": "off", "optimizer": "AdamW", "optimizer's lr": "0.01",
                            "optimizer's betas": "(0.9, 0.999)"}.items():
            self.assertEqual(found.get(name), value, found)
        code, text = common.opbound("trace", "diff", self.path("a.trace"), self.path("b.trace"))
        self.assertEqual(code, 0, text)
        for words in ("parameters fp32 / fp64", "autocast off / bf16",
                      "optimizer's weight_decay 0.01 / 0.5"):
            self.assertIn(f"  {words}\n", text)
        train(self.path("c.trace"))
        code, text = common.opbound("trace", "diff", self.path("a.trace"), self.path("c.trace"))
        self.assertNotIn("differ in", text)
        self.assertEqual(self.settings("c.trace"), found)

    def test_settings_of_groups_and_of_several_formats(self):
        model = common.new_model()
        model.head.bfloat16()
        held = held_parameters(model, {})
        groups = [{"params": [held[0].tensor], "weight_decay": 0.0},
                  {"params": [each.tensor for each in held[1:]]}]
        optimizer = torch.optim.SGD(groups, lr=0.1, weight_decay=0.25)
        found = _settings.settings_of(held, optimizer, "off", torch.device("cpu"))
        self.assertEqual(found["parameters"], f"bf16 (1), fp32 ({len(held) - 1})")
        self.assertEqual(found["optimizer's weight_decay"], "0.0 | 0.25")
        self.assertEqual(found["optimizer's lr"], "0.1")

    def test_the_model_is_left_as_it_was(self):
        model = common.new_model()
        trace = opbound.Trace(self.path("a.trace"), model)
        twin = pickle.loads(pickle.dumps(copy.deepcopy(model)))  # as an average of weights is made
        for each in (model, twin):
            each(common.batches(1)[0][0])
            self.assertEqual(len(each._forward_pre_hooks), 0)
        other = common.new_model()
        opbound.Trace(self.path("b.trace"), other).close()
        self.assertEqual(len(other._forward_pre_hooks), 0)
        trace.close()

    def test_misuse_speaks_of_the_module(self):
        model = common.new_model()
        train(self.path("a.trace"))
        notes = pathlib.Path(self.path("notes.txt"))
        notes.write_text("mine\n")
        for path in ("a.trace", "notes.txt"):
            with self.assertRaisesRegex(opbound.Error, "already, expected resume=True to go on"):
                opbound.Trace(self.path(path), model)
        self.assertEqual(notes.read_text(), "mine\n")
        with self.assertRaisesRegex(opbound.Error, "there is no folder .*none"):
            opbound.Trace(self.path("none/a.trace"), model)
        for call, text in ((lambda: opbound.Trace(self.path("b.trace"), 3), "model: 3, expected"),
                           (lambda: opbound.Trace(3, model), "path: 3, expected a file's name"),
                           (lambda: opbound.Trace(self.path("b.trace"), model, every=0),
                            "every: 0, expected a whole number of 1 or more"),
                           (lambda: opbound.twin(3, 1), "model: 3, expected a torch.nn.Module"),
                           (lambda: opbound.twin(model, "x"), "seed: 'x', expected a whole"),
                           (lambda: opbound.twin(model, -1), "seed: -1, expected .* 1 or more"),
                           (lambda: opbound.twin(model, 1, "bf16"), "read: 'bf16', expected")):
            with self.assertRaisesRegex(opbound.Error, text) as raised:
                call()
            self.assertNotIn("\n", str(raised.exception))

    def test_misuse_is_one_line(self):
        model = common.new_model()
        trace = opbound.Trace(self.path("a.trace"), model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with self.assertRaisesRegex(opbound.Error, "before gradients are set to zero"):
            trace.step(torch.tensor(1.0), optimizer)
        common.loss_of(model, *common.batches(1)[0]).backward()
        with self.assertRaisesRegex(opbound.Error, "between scaler.step"):
            trace.step(torch.tensor(1.0), optimizer, scaler=Scaler(2.0))
        with self.assertRaisesRegex(opbound.Error, "a multiple of it"):
            opbound.Trace(self.path("b.trace"), model, every=3, full_every=4)


if __name__ == "__main__":
    unittest.main()
