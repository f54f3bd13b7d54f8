"""Runs the tests of one file: run.py trace, verify, ... Exit code 77, with the reason, where torch
is missing."""
import importlib
import pathlib
import sys
import unittest

SKIPPED = 77


def main():
    folder = pathlib.Path(__file__).resolve().parent
    sys.path[:0] = [str(folder.parent), str(folder)]
    try:
        import torch  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error} (tools/setup --checks installs Debian's python3-torch)")
        return SKIPPED
    tests = unittest.defaultTestLoader.loadTestsFromModule(
        importlib.import_module(f"test_{sys.argv[1]}"))
    return 0 if unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
