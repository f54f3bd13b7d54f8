"""README.md's examples, as they stand there."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import torch

import common

ROOT = pathlib.Path(__file__).resolve().parents[3]
README = ROOT / "tools" / "python" / "README.md"


def blocks(section, language=""):
    """Those of the section in this language."""
    text = README.read_text(encoding="utf-8")
    text = text[text.index(f"\n## {section}\n") + 1:]
    found = re.findall(r"```(\w*)\n(.*?)```", text[:text.find("\n## ")], re.DOTALL)
    return [block for its, block in found if its == language]


def commands(block):
    """Each command, and the exit code that its comment says."""
    for line in block.splitlines():
        command, _, comment = line.partition("#")
        told = re.search(r"exit code (\d)", comment)
        if command.strip():
            yield command.strip(), int(told.group(1)) if told else 0


class ExampleTest(unittest.TestCase):
    def run_in(self, folder, line):
        paths = [str(ROOT / "tools" / "python"), os.environ.get("PYTHONPATH")]
        return subprocess.run(
            line, shell=isinstance(line, str), cwd=folder, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=800, check=False,
            env=dict(os.environ, OMP_NUM_THREADS="1",
                     PYTHONPATH=os.pathsep.join(filter(None, paths))))

    def run_all(self, block):
        with common.folder() as folder:
            for line, code in commands(block):
                line = line.replace("tools/python/", f"{ROOT}/tools/python/")
                line = re.sub("^python3 ", f"{sys.executable} ", line)
                line = re.sub("^torchrun ", f"{sys.executable} -m torch.distributed.run ", line)
                done = self.run_in(folder, line.replace("build/opbound", common.program()))
                self.assertEqual(done.returncode, code, f"{line}\n{done.stdout}")

    def test_a_trace(self):
        self.run_all(blocks("A trace of your loop")[0])

    def test_ranks(self):
        if not hasattr(torch, "compile"):
            self.skipTest("torch 2 has a torchrun that starts")
        self.run_all(blocks("A trace of your loop")[1])

    def test_an_audit(self):
        self.run_all(blocks("Your own model")[0])

    def test_one_kernel(self):
        done = self.run_in(ROOT, [sys.executable, "-c", blocks("One kernel", "python")[0]])
        self.assertEqual(done.returncode, 0, done.stdout)
        verdicts = re.findall(r"^within \d+.*?exceeds (\d+)", done.stdout, re.MULTILINE)
        self.assertEqual(len(verdicts), 3, done.stdout)
        self.assertEqual([found != "0" for found in verdicts], [False, True, True], done.stdout)

    def test_tests(self):
        if not importlib.util.find_spec("pytest"):
            self.skipTest("no pytest (python3-pytest)")
        with common.folder() as folder:
            (pathlib.Path(folder) / "test_it.py").write_text(blocks("In your tests", "python")[0])
            done = self.run_in(folder, [sys.executable, "-m", "pytest", "-p", "opbound.pytest"])
            self.assertEqual(done.returncode, 0, done.stdout)

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_from_c(self):
        with common.folder() as folder:
            build = pathlib.Path(folder) / "build"
            build.mkdir()
            for file in ("libopbound.so", "opbound"):
                (build / file).symlink_to(pathlib.Path(common.program()).parent / file)
            for name in ("tools", "ops"):
                (build.parent / name).symlink_to(ROOT / name)
            for line, code in commands(blocks("From C")[0]):
                done = self.run_in(folder, line)
                self.assertEqual(done.returncode, code, f"{line}\n{done.stdout}")

    def test_the_guide_says_what_the_module_has(self):
        import opbound
        text = README.read_text(encoding="utf-8")
        for name in opbound.__all__:
            self.assertIn(f"opbound.{name}", text)


if __name__ == "__main__":
    unittest.main()
