"""The modules quoted from public models, on an NVIDIA GPU: a plain kernel that is right, then the fast one."""

from __future__ import annotations

from tests.recordings.script import (
    Script,
    Turn,
    check,
    final_kernel,
    final_model,
    kernelbench,
    plan,
    profile,
    read,
    skill,
    text_of,
    turn,
    words,
    write,
)

STEPS = ("Profile the original", "A plain kernel that is right", "The fast kernel", "Check in full")


def two_attempts(case: str, kernel: str, reference: str, plain_model: str) -> list[Turn]:
    """Return the answers of a session with a plain attempt, a fast one and a full check.

    Args:
        case: The module's name.
        kernel: The kernel file, without suffix.
        reference: The file of the skill that is read first.
        plain_model: Text of ``model_new.py`` for the plain attempt.
    """
    file = f"kernels/{kernel}.cu"
    first, plain, fast, full, last = words(case)
    return [
        turn(first, profile(), read("model_new.py"), skill(reference)),
        turn(
            plain,
            plan(*STEPS, done=1),
            write(file, text_of(case, f"1_{kernel}.cu")),
            write("model_new.py", plain_model),
            check("Plain and right, to have something to compare with."),
        ),
        turn(
            fast,
            plan(*STEPS, done=2),
            read(file),
            write(file, final_kernel(case)),
            read("model_new.py"),
            write("model_new.py", final_model(case)),
            check("One read of the input, one write of the output."),
        ),
        turn(full, plan(*STEPS, done=3), check("No change; the full verdict.", tier="full")),
        turn(last),
    ]


CONVNEXT_PLAIN = (
    final_model("convnext_dwconv_norm")
    .replace("out = torch.empty((", "conv_out, out = torch.empty_like(x), torch.empty((")
    .replace("norm.bias, out,", "norm.bias, conv_out, out,")
    .replace("in one pass, from NCHW to NHWC", "in two kernels")
)
DIFFUSERS_PLAIN = final_model("diffusers_norm_silu").replace(
    "in one pass: a cluster of blocks keeps a whole group in its registers.", "with a block for each group."
)
CASES = (
    ("convnext_dwconv_norm", "dwconv7_norm", "references/convolution.md", CONVNEXT_PLAIN),
    (
        "diffusers_norm_silu",
        "groupnorm_silu",
        "references/reductions-norms.md",
        DIFFUSERS_PLAIN,
    ),
    ("resnet_stem_pool", "bn_relu_maxpool", "references/convolution.md", final_model("resnet_stem_pool")),
)
SCRIPTS = [
    Script(case.replace("_", "-"), "cuda", kernelbench(case), two_attempts(case, kernel, reference, plain))
    for case, kernel, reference, plain in CASES
]
