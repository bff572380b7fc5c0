"""The demo on an NVIDIA GPU: the same module as on the CPU, with a mistake of each kind on the way."""

from __future__ import annotations

from app.demo_project import DEMO_TARGET, SOURCE
from tests.recordings.demo_cpu import FORWARD, IMPORT, OLD_IMPORT, call
from tests.recordings.script import (
    Script,
    bash,
    check,
    edit,
    final_kernel,
    plan,
    profile,
    read,
    skill,
    text_of,
    turn,
    words,
    write,
)

STEPS = ("Profile the original", "A kernel that is right", "One pass, 16-byte loads", "Clean up and check in full")
WORDS = iter(words("demo_cuda"))
TURNS = [
    turn(
        next(WORDS),
        profile(),
        read("blocks.py"),
        skill("references/memory-bound.md"),
    ),
    turn(
        next(WORDS),
        plan(*STEPS, done=1),
        write("kernels/padded_pool.cu", text_of("demo_cuda", "1_padded_pool.cu")),
        edit("blocks.py", OLD_IMPORT, IMPORT.format(launcher="padded_pool")),
        edit("blocks.py", FORWARD, call("padded_pool")),
        check("One kernel, a thread for each output, zeros around the image; expect twice eager's speed."),
    ),
    turn(
        next(WORDS),
        edit(
            "kernels/padded_pool.cu",
            "int64_t height, int64_t width, float eps) {\n    const int64_t count",
            "int64_t height, int64_t width, float eps, cudaStream_t stream) {\n    const int64_t count",
        ),
        check("Take the stream."),
    ),
    turn(
        next(WORDS),
        write("kernels/norm_relu_pool.cu", text_of("demo_cuda", "2_norm_relu_pool.cu")),
        edit("blocks.py", "import padded_pool", "import norm_relu_pool"),
        edit("blocks.py", "        padded_pool(", "        norm_relu_pool("),
        check("As defined, a thread for each output row: right, and slower than eager."),
    ),
    turn(
        next(WORDS),
        plan(*STEPS, done=2),
        read("kernels/norm_relu_pool.cu"),
        write(
            "kernels/norm_relu_pool.cu", final_kernel("resnet_stem_pool").replace("bn_relu_maxpool", "norm_relu_pool")
        ),
        check("One pass with 16-byte loads: expect a little over the copy."),
    ),
    turn(
        next(WORDS),
        plan(*STEPS, done=3),
        bash("rm kernels/padded_pool.cu && ls kernels && grep -n kernels blocks.py"),
        check("Clean-up only.", tier="full"),
    ),
    turn(
        next(WORDS),
    ),
]
SCRIPT = Script("demo-cuda", "cuda", SOURCE, TURNS, target=":".join(DEMO_TARGET))
