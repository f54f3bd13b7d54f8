"""A plug-in of pytest: kernels and models judged in your tests.

    # conftest.py
    pytest_plugins = ["opbound.pytest"]

    # test_kernels.py
    def test_softmax(opbound_verify):
        opbound_verify(my_softmax, "softmax", "bf16:fp32:bf16")

    def test_model(opbound_audit):
        with opbound_audit(model):
            loss_of(model(batch)).backward()

Below the tests' results stands what was judged, with its largest ratio of error and bound.
"""
import contextlib

import pytest

import opbound


def pytest_addoption(parser):
    group = parser.getgroup("opbound")
    group.addoption("--opbound-tier", default="quick", choices=("quick", "full", "nightly"),
                    help="how much of each suite opbound_verify runs")
    group.addoption("--opbound-records", metavar="FILE.jsonl",
                    help="append all records, for `opbound table`, `explain` and `diff`")


def pytest_configure(config):
    config._opbound_done = []


def _take(request, result):
    request.config._opbound_done.append((request.node.nodeid, result))
    path = request.config.getoption("--opbound-records")
    if path:
        result.save(path)
    result.require()
    return result


@pytest.fixture
def opbound_verify(request):
    """opbound.verify, which fails the test unless every element is within its bound for certain;
    gives the Result."""
    def verify(fn, op, *arguments, **options):
        __tracebackhide__ = True
        options.setdefault("tier", request.config.getoption("--opbound-tier"))
        return _take(request, opbound.verify(fn, op, *arguments, **options))
    return verify


@pytest.fixture
def opbound_audit(request):
    """opbound.audit, which fails the test at its end unless every call is within its bound."""
    @contextlib.contextmanager
    def audit(model=None, **options):
        __tracebackhide__ = True
        with opbound.audit(model, **options) as found:
            yield found
        _take(request, found)
    return audit


def pytest_terminal_summary(terminalreporter, config):
    if not config._opbound_done:
        return
    terminalreporter.section("opbound")
    for test, result in config._opbound_done:
        verdicts = ", ".join(f"{verdict} {count}" for verdict, count in result.counts.items())
        terminalreporter.line(f"{test}: {verdicts}; {result.checked} elements, largest ratio "
                              f"{result.largest_ratio:.3g}")
