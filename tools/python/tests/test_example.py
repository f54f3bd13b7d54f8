"""The commands of README.md's examples, as they stand there."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

import common

ROOT = pathlib.Path(__file__).resolve().parents[3]
README = ROOT / "tools" / "python" / "README.md"


def commands(section):
    """Those of the section's first block of shell, without comments."""
    text = README.read_text(encoding="utf-8")
    after = text[text.index(f"\n## {section}\n"):]
    block = re.search(r"```\n(.*?)```", after, re.DOTALL).group(1)
    return [line.split("#")[0].strip() for line in block.splitlines() if line.split("#")[0].strip()]


class ExampleTest(unittest.TestCase):
    def run_all(self, section, expected_codes):
        with common.folder() as folder:
            for line in commands(section):
                line = line.replace("python3 ", f"{sys.executable} {ROOT}/", 1) \
                    if line.startswith("python3 tools") else line
                line = line.replace("build/opbound", common.program())
                done = subprocess.run(line, shell=True, cwd=folder, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, timeout=800,
                                      env=dict(os.environ, OMP_NUM_THREADS="1"), check=False)
                self.assertIn(done.returncode, expected_codes, f"{line}\n{done.stdout}")

    def test_a_trace(self):
        self.run_all("A trace of your loop", (0,))

    def test_an_audit(self):
        self.run_all("Your own model", (0,))

    def test_the_guide_says_what_the_module_has(self):
        import opbound
        text = README.read_text(encoding="utf-8")
        for name in opbound.__all__:
            self.assertIn(f"opbound.{name}", text)


if __name__ == "__main__":
    unittest.main()
