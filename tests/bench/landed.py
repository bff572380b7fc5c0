"""What a call of a landed module costs in Python, beside the original's, and a launch through its operator.

The kernel does nothing, so that only the way to it is measured: checks, output, operator, binding.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agent.landing import land
from tests.agent.landing.example import CANDIDATE, KERNEL, ORIGINAL, accepted, make_project, planned, run
from tests.bench.row import Row

_TIMED = """
import json, timeit
from shop import blocks_kernels
from shop.blocks import Block
from shop.before import Block as Before

def us(call, number=200):
    return min(timeit.repeat(call, number=number, repeat=300)) / number * 1e6  # short ones: some are left alone

torch.set_num_threads(1)
x = torch.randn(4, 8)
landed, original = Block(8).eval(), Before(8).eval()
out = torch.empty_like(x)
with torch.no_grad():
    landed(x)
    launch = lambda: blocks_kernels.fused_block(x, landed.weight, landed.scale.by, None, out, 0, 8, 1e-5)
    empty = us(lambda: torch.empty_like(x))
    found = {"landed": us(lambda: landed(x)), "original": us(lambda: original(x)), "operator": us(launch)}
    blocks_kernels._landing.here.kernels = blocks_kernels._landing._bound  # as inside a call that fits
    module = nn.Identity()
    found["checks"] = found["landed"] - us(launch) - empty - us(lambda: module(x))
    found["direct"] = us(launch)
    assert blocks_kernels.counts()["original"] == 0
print(json.dumps(found))
"""


def rows(device: str) -> Iterator[Row]:
    """Time calls on the CPU."""
    with tempfile.TemporaryDirectory(prefix="warpsmith-bench-") as scratch:
        root = Path(scratch) / "project"
        spec = make_project(root)
        (root / "shop/before.py").write_text(ORIGINAL)
        idle = KERNEL.replace("for (int64_t i = 0;", "for (int64_t i = n;")
        land(planned(spec, accepted(CANDIDATE, idle)))
        found = json.loads(run(root, _TIMED))
    note = "usual: the original module, which computes as well"
    yield Row("call of a landed module, whose kernel is idle", found["landed"], "µs", None, found["original"], note)
    yield Row("call of its operator", found["operator"], "µs", 6.0, None, "budget: 4 to 6 µs")
    yield Row("the same launch within the landed call", found["direct"], "µs", 3.0, None, "8 arguments")
    yield Row(
        "checks of the landed call, and its forward's Python", found["checks"], "µs", None, None, "the rest of it"
    )
