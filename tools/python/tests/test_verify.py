"""Callables of torch's tensors over the suites of their ops; each fault has its control."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import torch

import common
import opbound


def softmax(x):
    return torch.softmax(x, -1)


def softmax_without_maximum(x):
    e = x.exp()
    return e / e.sum(-1, keepdim=True)


def softmax_in_bf16(x):
    return torch.softmax(x.bfloat16(), -1).float()


class SoftmaxWithWrongGradient(torch.autograd.Function):
    """Its backward pass forgets the sum."""

    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        return ctx.saved_tensors[0] * dy


def layer_norm(x, gamma, beta, *, eps):
    d = x - x.mean(-1, keepdim=True)
    return d * (1 / ((d * d).mean(-1, keepdim=True) + eps).sqrt()) * gamma + beta


class VerifyTest(unittest.TestCase):
    def test_a_right_kernel_is_within_its_bound(self):
        result = opbound.assert_within(softmax, "softmax", "fp32")
        self.assertEqual(set(result.counts), {"within"})
        self.assertGreater(result.checked, 10000)
        self.assertEqual(result.records[0]["provider"], "softmax")
        self.assertIn("torch threads", result.records[0]["environment"])
        self.assertLessEqual(float(result.worst["ratio"]), 1)

    def test_faults_are_found(self):
        for fault in (softmax_without_maximum, softmax_in_bf16):
            with self.assertRaises(opbound.Finding) as raised:
                opbound.assert_within(fault, "softmax", "fp32")
            result = raised.exception.result
            self.assertGreater(result.counts["exceeds"], 0, fault.__name__)
            self.assertIn("exceeds: softmax y forward fp32", str(raised.exception))

    def test_gradients_through_autograd(self):
        right = opbound.verify(softmax, "softmax", "fp32", "backward")
        self.assertTrue(right.passed, str(right))
        self.assertEqual({r["part"] for r in right.records}, {"dx"})
        wrong = opbound.verify(SoftmaxWithWrongGradient.apply, "softmax", "fp32", "backward")
        self.assertGreater(wrong.counts["exceeds"], 0)

    @unittest.skipUnless(hasattr(torch, "compile") and shutil.which("c++"), "no torch.compile")
    def test_a_compiled_kernel(self):
        compiled = torch.compile(softmax, dynamic=True)
        self.assertTrue(opbound.verify(compiled, "softmax", "fp32").passed)
        wrong = torch.compile(softmax_without_maximum, dynamic=True)
        self.assertGreater(opbound.verify(wrong, "softmax", "fp32").counts["exceeds"], 0)

    def test_a_backward_pass_of_its_own(self):
        def backward(y, dy):
            return y * (dy - (y * dy).sum(-1, keepdim=True))
        self.assertTrue(opbound.verify(backward, "softmax", "fp32", "backward_local").passed)
        self.assertFalse(opbound.verify(lambda y, dy: y * dy, "softmax", "fp32",
                                        "backward_local").passed)

    def test_attributes(self):
        log = opbound.verify(lambda x: torch.log_softmax(x, -1), "softmax", "fp32",
                             variant="log_of_sum", log=True)
        self.assertTrue(log.passed, str(log))
        self.assertEqual({r["attributes"]["log"] for r in log.records}, {True})
        free = opbound.verify(layer_norm, "layer_norm", "fp32", variant="two_pass")
        self.assertEqual(set(free.counts), {"within", "vacuous"}, str(free))
        self.assertFalse(free.passed)
        free = opbound.verify(layer_norm, "layer_norm", "fp32", variant="two_pass",
                              allow_vacuous="any order of sums, mean 1e5 sigma")
        self.assertTrue(free.passed, str(free))
        self.assertGreater(len({r["attributes"]["eps"] for r in free.records}), 1)
        self.assertEqual({r["part"] for r in free.records}, {"y"})

    def test_what_a_callable_raises_is_a_record(self):
        def broken(x):
            raise ValueError("no such shape")

        def absent(x):
            raise NotImplementedError("only on Hopper")
        failed = opbound.verify(broken, "gelu", "fp32")
        self.assertEqual(set(failed.counts), {"failed"})
        self.assertIn("ValueError: no such shape", failed.records[0]["reason"])
        skipped = opbound.verify(absent, "gelu", "fp32")
        self.assertEqual(set(skipped.counts), {"skipped"})
        self.assertFalse(skipped.passed)  # nothing was judged
        wrong = opbound.verify(lambda x: x.double(), "gelu", "fp32")
        self.assertIn("y is torch.float64, expected torch.float32", wrong.records[0]["reason"])

    def test_misuse_is_one_line(self):
        for words, text in ((("sofmax", "fp32"), "unknown op 'sofmax'"),
                            (("softmax", "fp31"), "'fp31'"),
                            (("softmax", "fp32", "sideways"), "expected one of forward")):
            with self.assertRaisesRegex(opbound.Error, text) as raised:
                opbound.verify(softmax, *words)
            self.assertNotIn("\n", str(raised.exception))
        with self.assertRaisesRegex(opbound.Error, "unknown attribute 'lag'"):
            opbound.verify(softmax, "softmax", lag=True)
        with self.assertRaisesRegex(opbound.Error, "variant 'divison'"):
            opbound.verify(softmax, "softmax", variant="divison")
        self.assertTrue(opbound.verify(softmax, "softmax").passed)  # the session goes on

    def test_wrong_words_are_one_line(self):
        for fn, options, text in (
                (3, {}, "fn: 3, expected a callable"),
                (softmax, {"op": 3}, "op: 3, expected a text"),
                (softmax, {"precision": torch.float32}, "precision: torch.float32, expected"),
                (softmax, {"precision": "fp33"}, "^precision: 'fp33', expected"),
                (softmax, {"foo": 3}, "^attributes: unknown attribute 'foo', expected log"),
                (softmax, {"device": "foo"}, "device: 'foo', expected one of torch's"),
                (softmax, {"device": "meta"}, "device: 'meta', expected one that this torch can"),
                (softmax, {"device": 3.5}, "device: 3.5, expected one of torch's"),
                (softmax, {"variant": 3}, "variant: 3, expected a list of names"),
                (softmax, {"functions": {"exp": 1}}, "functions: .*, expected a list of pairs")):
            with self.assertRaisesRegex(opbound.Error, text) as raised:
                opbound.verify(fn, **dict({"op": "softmax"}, **options))
            self.assertNotIn("\n", str(raised.exception))

    @unittest.skipIf(torch.cuda.is_available(), "there is one")
    def test_a_device_that_is_absent(self):
        with self.assertRaisesRegex(opbound.Error, "^device: 'cuda', expected .*") as raised:
            opbound.verify(softmax, "softmax", device="cuda")
        self.assertNotIn("\n", str(raised.exception))

    def test_records_are_kept(self):
        with common.folder() as folder:
            path = pathlib.Path(folder) / "softmax.jsonl"
            result = opbound.verify(softmax, "softmax")
            result.save(path)
            code, text = common.opbound("table", str(path))
            self.assertEqual(code, 0, text)
            self.assertIn(f"within {len(result.records)}", text)
            result.save(path)  # behind those that are there
            self.assertEqual(len(path.read_text().splitlines()), 2 * len(result.records))

    def test_no_other_file_is_written_to(self):
        result = opbound.verify(softmax, "softmax")
        with common.folder() as folder:
            path = pathlib.Path(folder) / "mine"
            result.save(path)
            records = path.read_bytes()
            for held in (b"mine\n", b"{}\n", b"\x80\n", records + b"mine", records[:-1],
                         records + b"\n"):
                path.write_bytes(held)
                with self.assertRaisesRegex(opbound.Error, r"mine:\d+: is no record") as raised:
                    result.save(path)
                self.assertNotIn("\n", str(raised.exception))
                self.assertEqual(path.read_bytes(), held)
            for other in (pathlib.Path(folder), pathlib.Path(folder) / "none" / "x"):
                with self.assertRaisesRegex(opbound.Error, "expected a file of records"):
                    result.save(other)


class WithoutTorchTest(unittest.TestCase):
    def test_one_line_says_what_is_missing(self):
        with common.folder() as folder:
            (pathlib.Path(folder) / "torch.py").write_text("raise ImportError('no torch here')\n")
            paths = [folder, str(pathlib.Path(common.__file__).parents[1])]
            done = subprocess.run([sys.executable, "-c", "import opbound"], stderr=subprocess.PIPE,
                                  text=True, timeout=100, check=False,
                                  env=dict(os.environ, PYTHONPATH=os.pathsep.join(paths)))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1],
                         "^ImportError: opbound needs torch: no torch here, of .*, expected a ")
        self.assertNotIn("During handling", done.stderr)


if __name__ == "__main__":
    unittest.main()
