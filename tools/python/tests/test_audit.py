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
    "rows of the table": ("aten::embedding", lambda y: y.roll(1, 1), ("embedding", "forward")),
}


class AuditTest(unittest.TestCase):
    def test_a_right_model_is_within_its_bounds(self):
        for certified in (False, True):
            found = audited(certified=certified)
            self.assertTrue(found.passed, str(found))
            self.assertGreaterEqual(set(found.judged), {
                "aten::embedding", "aten::native_layer_norm", "aten::addmm", "aten::mm",
                "aten::gelu", "aten::_log_softmax", "aten::_log_softmax_backward_data",
                "aten::gelu_backward", "aten::native_layer_norm_backward",
                "aten::embedding_dense_backward", "aten::add.Tensor"})
            self.assertIn("aten::nll_loss_forward", found.unknown)
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

    def test_equal_audits_have_equal_records(self):
        def without_time(found):
            return [{k: v for k, v in r.items() if k != "time_ms"} for r in found.records]
        self.assertEqual(without_time(audited()), without_time(audited()))

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
