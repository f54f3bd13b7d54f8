"""opbound from PyTorch: traces of training runs, judgements of kernels and of a model's own calls.

    trace = opbound.Trace("run.trace", model)          # once, before the loop
    trace.step(loss, optimizer)                        # in it, behind optimizer.step()

    print(opbound.verify(my_softmax, op="softmax", precision="fp32"))

    with opbound.audit(model) as found:
        model(batch).backward()

Nothing to build: libopbound.so is found beside opbound's build or where OPBOUND_LIBRARY says.
tools/python/README.md is the guide.
"""
from opbound import _needs  # noqa: F401  (first)
from opbound._audit import audit
from opbound._library import Error, version
from opbound._result import Finding, Result
from opbound._trace import Trace
from opbound._twin import twin
from opbound._verify import assert_within, verify

__all__ = ["Error", "Finding", "Result", "Trace", "assert_within", "audit", "twin", "verify",
           "version"]
