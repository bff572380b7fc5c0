"""The demo on the CPU: the stem of a ResNet, with a mistake of each kind on the way."""

from __future__ import annotations

from app.demo_project import DEMO_TARGET, SOURCE
from tests.recordings.script import Script, bash, check, edit, plan, profile, read, skill, text_of, turn, words, write

FORWARD = """        x = self.bn1(x)
        x = self.relu(x)
        return self.maxpool(x)
"""
CALL = """        n, c, h, w = x.shape
        out = torch.empty((n, c, (h + 1) // 2, (w + 1) // 2), dtype=x.dtype, device=x.device)
        bn = self.bn1
        {launcher}(
            x, bn.running_mean, bn.running_var, bn.weight, bn.bias, out, n, c, h, w, bn.eps
        )
        return out
"""
IMPORT = "from .blocks_kernels import {launcher}\nfrom .layers import conv1x1, conv3x3\n"
OLD_IMPORT = "from .layers import conv1x1, conv3x3\n"
STEPS = (
    "Profile the original",
    "A kernel that is right",
    "One pass, rows in cache, vectorised, all cores",
    "Clean up and check in full",
)


def call(launcher: str) -> str:
    return CALL.format(launcher=launcher)


WORDS = iter(words("demo_cpu"))
TURNS = [
    turn(
        next(WORDS),
        profile(),
        read("blocks.py"),
        skill("references/cpu.md"),
    ),
    turn(
        next(WORDS),
        plan(*STEPS, done=1),
        write("kernels/padded_pool.cpp", text_of("demo_cpu", "1_padded_pool.cpp")),
        edit("blocks.py", OLD_IMPORT, IMPORT.format(launcher="padded_pool")),
        edit("blocks.py", FORWARD, call("padded_pool")),
        check(
            "One kernel, planes in parallel, padded so that windows need no border case; expect twice eager's speed."
        ),
    ),
    turn(
        next(WORDS),
        edit("kernels/padded_pool.cpp", "#include <cstdint>\n", "#include <cstdint>\n#include <vector>\n"),
        check("Include <vector>."),
    ),
    turn(
        next(WORDS),
        write("kernels/norm_relu_pool.cpp", text_of("demo_cpu", "2_norm_relu_pool.cpp")),
        edit("blocks.py", "import padded_pool", "import norm_relu_pool"),
        edit("blocks.py", "        padded_pool(", "        norm_relu_pool("),
        check("As defined, one core, nine normalisations an output: right, and slower than eager."),
    ),
    turn(
        next(WORDS),
        plan(*STEPS, done=2),
        read("kernels/norm_relu_pool.cpp"),
        write("kernels/norm_relu_pool.cpp", text_of("demo_cpu", "3_norm_relu_pool.cpp")),
        check("Rows once, vectorised, all cores: expect many times faster than eager."),
    ),
    turn(
        next(WORDS),
        plan(*STEPS, done=3),
        bash("rm kernels/padded_pool.cpp && ls kernels && grep -n kernels blocks.py"),
        check("Clean-up only.", tier="full"),
    ),
    turn(
        next(WORDS),
    ),
]
SCRIPT = Script("demo-cpu", "cpu", SOURCE, TURNS, target=":".join(DEMO_TARGET))
