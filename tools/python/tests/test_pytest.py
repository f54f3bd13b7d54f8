"""The plug-in of pytest, in a run of its own."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

import common

KERNELS = '''
import torch

def softmax(x):
    return torch.softmax(x, -1)

def in_bf16(x):
    return softmax(x.bfloat16()).float()

def test_right(opbound_verify):
    assert opbound_verify(softmax, "softmax").checked > 0

def test_wrong(opbound_verify):
    opbound_verify(in_bf16, "softmax")

def test_model(opbound_audit):
    model = torch.nn.Linear(3, 2)
    with opbound_audit(model) as found:
        model(torch.ones(4, 3)).sum().backward()
    assert "aten::addmm" in found.judged
'''


@unittest.skipUnless(importlib.util.find_spec("pytest"), "no pytest (python3-pytest)")
class PytestTest(unittest.TestCase):
    def test_the_plug_in(self):
        with common.folder() as name:
            folder = pathlib.Path(name)
            (folder / "conftest.py").write_text('pytest_plugins = ["opbound.pytest"]\n')
            (folder / "test_kernels.py").write_text(KERNELS)
            words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q",
                     "--opbound-records", "all.jsonl"]
            paths = [str(pathlib.Path(common.__file__).parents[1]), os.environ.get("PYTHONPATH")]
            done = subprocess.run(
                words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=600, check=False,
                env=dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths))))
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("1 failed, 2 passed", done.stdout)
            self.assertIn("exceeds: softmax y forward fp32", done.stdout)
            self.assertRegex(done.stdout, r"test_kernels.py::test_right: within \d+; \d+ elements, "
                                          r"largest ratio 0\.")
            self.assertGreater(len((folder / "all.jsonl").read_text().splitlines()), 10)


if __name__ == "__main__":
    unittest.main()
