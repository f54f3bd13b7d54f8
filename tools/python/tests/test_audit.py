"""A model's own calls, judged; and faults planted under it."""
import unittest

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import common
import opbound


class Fault(TorchDispatchMode):
    """Changes what one call of aten gives, below the audit: as a wrong kernel would."""

    def __init__(self, name, change):
        super().__init__()
        self.name, self.change = name, change

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        out = function(*arguments, **(keywords or {}))
        return self.change(out) if function._schema.name == self.name else out


def audited(fault=None, **options):
    model = common.new_model()
    tokens, targets = common.batches(1)[0]
    if fault is None:
        with opbound.audit(model, **options) as found:
            common.loss_of(model, tokens, targets).backward()
        return found
    with Fault(*fault), opbound.audit(model, **options) as found:
        common.loss_of(model, tokens, targets).backward()
    return found


# The name in aten, what is done to its output, and op and direction of the record that finds it.
FAULTS = {
    "gelu off by 2^-12": ("aten::gelu", lambda y: y * (1 + 2 ** -12), ("gelu", "forward")),
    "gelu's gradient with an offset": (
        "aten::gelu_backward", lambda dx: dx + 2 ** -14, ("gelu", "backward_local")),
    "layer norm stored in bf16": (
        "aten::native_layer_norm", lambda out: (out[0].bfloat16().float(), *out[1:]),
        ("layer_norm", "forward")),
    "layer norm's gradient x 300": (
        "aten::native_layer_norm_backward", lambda out: (out[0] * 300, *out[1:]),
        ("layer_norm", "backward_local")),
    "a product in bf16": ("aten::addmm", lambda d: d.bfloat16().float(), ("matmul", "forward")),
    "log softmax off by 2^-12": ("aten::_log_softmax", lambda y: y - 2 ** -12,
                                 ("softmax", "forward")),
    "the mean of the losses off by 2^-12": (
        "aten::nll_loss_forward", lambda out: (out[0] * (1 + 2 ** -12), out[1]),
        ("matmul", "forward")),
    "the losses' gradient where no target is": (
        "aten::nll_loss_backward", lambda dx: dx + (dx == 0) * 2 ** -40, ("unscale", "forward")),
    "the losses' gradient off by 2^-20": (
        "aten::nll_loss_backward", lambda dx: dx * (1 + 2 ** -20), ("unscale", "forward")),
    "a bias's gradient off by 2^-12": ("aten::sum", lambda db: db * (1 + 2 ** -12),
                                       ("bias", "backward_local")),
    "rows of the table": ("aten::embedding", lambda y: y.roll(1, 1), ("embedding", "forward")),
}


def attend(q, k, v, **options):
    """Torch's own, by the name that this version has for it."""
    functional = torch.nn.functional
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention(q, k, v, **options)
    return functional._scaled_dot_product_attention(q, k, v, **options)[0]


ATTENTION = {"aten::_scaled_dot_product_flash_attention_for_cpu",
             "aten::_scaled_dot_product_flash_attention_for_cpu_backward"}


class AuditTest(unittest.TestCase):
    def test_a_right_model_is_within_its_bounds(self):
        for certified in (False, True):
            found = audited(certified=certified)
            self.assertTrue(found.passed, str(found))
            self.assertGreaterEqual(set(found.judged), {
                "aten::embedding", "aten::native_layer_norm", "aten::addmm", "aten::mm",
                "aten::gelu", "aten::_log_softmax", "aten::_log_softmax_backward_data",
                "aten::gelu_backward", "aten::native_layer_norm_backward",
                "aten::embedding_dense_backward", "aten::add.Tensor", "aten::sum.dim_IntList",
                "aten::nll_loss_forward", "aten::nll_loss_backward"})
            self.assertEqual({r["direction"] for r in found.records},
                             {"forward", "backward_local"})

    def test_records_name_the_place(self):
        found = audited()
        layers = {(r["op"], r["direction"], r["in_situ"]["layer"]) for r in found.records}
        for op in ("layer_norm", "gelu"):
            for direction in ("forward", "backward_local"):
                for layer in (0, 1):
                    self.assertIn((op, direction, layer), layers)
        self.assertTrue(any("blocks.1.norm" in r["case"]["input"] for r in found.records))

    def test_losses(self):
        logits = torch.randn(6, 5, 2, generator=torch.Generator().manual_seed(1))
        targets = torch.tensor([[0, 1], [4, -100], [2, 2], [3, 3], [0, -100], [1, 4]])
        weight = torch.tensor([1.0, 0.3, 2.0, 0.7, 1.5])
        for reduction in ("none", "sum", "mean"):
            for options in ({}, {"weight": weight}, {"ignore_index": 2}):
                x = logits.clone().requires_grad_()
                with opbound.audit() as found:
                    torch.nn.functional.cross_entropy(
                        x, targets.where(targets >= 0, torch.tensor(2)) if "ignore_index" in options
                        else targets, reduction=reduction, **options).sum().backward()
                self.assertTrue(found.passed, str(found))
                names = set(found.judged)
                self.assertEqual("aten::nll_loss2d_forward" in names,
                                 not (reduction == "none" and "weight" in options))
                self.assertEqual("aten::nll_loss2d_backward" in names, "weight" not in options)

    def test_attention(self):
        draw = torch.Generator().manual_seed(1)
        mask = torch.randn(2, 1, 7, 9, generator=draw)
        mask[..., 3] = -float("inf")
        for dtype in (torch.float32, torch.bfloat16):
            for options in ({}, {"is_causal": True}, {"attn_mask": mask[0, 0].to(dtype)},
                            {"attn_mask": mask.to(dtype)}, {"attn_mask": mask[0, 0] > 0}):
                if not hasattr(torch.nn.functional, "scaled_dot_product_attention") and (
                        dtype is not torch.float32 or options.get("is_causal")):
                    continue  # torch 1.13: another interface, and bf16 rounds each step
                q, k, v = (torch.randn(2, 3, n, 16, generator=draw).to(dtype).requires_grad_()
                           for n in (7, 9, 9))
                with self.subTest(dtype=dtype, **options), opbound.audit(certified=True) as found:
                    attend(q, k, v, **options).square().sum().backward()
                self.assertTrue(found.passed, f"{options} {found}")
                if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
                    self.assertLessEqual(ATTENTION, set(found.judged), str(found))

    def test_equal_audits_have_equal_records(self):
        def without_time(found):
            return [{k: v for k, v in r.items() if k != "time_ms"} for r in found.records]
        self.assertEqual(without_time(audited()), without_time(audited()))

    def test_misuse_is_one_line(self):
        for model, options, text in ((3, {}, "model: 3, expected a torch.nn.Module"),
                                     (None, {"seed": -1}, "seed: -1, expected"),
                                     (None, {"step": "x"}, "step: 'x', expected")):
            with self.assertRaisesRegex(opbound.Error, text), opbound.audit(model, **options):
                self.fail("it ran")

    def test_faults_are_found(self):
        for what, (name, change, (op, direction)) in FAULTS.items():
            with self.subTest(what):
                found = audited((name, change))
                wrong = {(r["op"], r["direction"]) for r in found.findings}
                self.assertEqual(wrong, {(op, direction)}, str(found))
                with self.assertRaises(opbound.Finding):
                    found.require()


if __name__ == "__main__":
    unittest.main()
