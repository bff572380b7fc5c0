"""A call that is not of the kind that was verified runs the original code, is counted with its reason, and warned of once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from agent.landing import land, plan
from agent.landing.folder import read_record
from agent.landing.verified import VerifiedInputs
from sandbox.verdict import VerifiedRange, VerifyCase, VerifyReport
from tests.agent.landing.example import CHECKS, ORIGINAL, SIGNATURE, accepted, make_project, planned, run, verdict

REASONS = """
    def reasons(call):
        before, known = blocks_kernels.counts(), dict(blocks_kernels.counts()["reasons"])
        call()
        after = blocks_kernels.counts()
        assert after["fused"] == before["fused"] and after["launches"] == before["launches"], after
        assert after["original"] > before["original"]
        return [reason for reason, count in after["reasons"].items() if count > known.get(reason, 0)]

    def value(x):
        return m(x).value

    m.requires_grad_(False)
    ran("fused", lambda: m(x), original(m, x))
"""


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("landed") / "project"
    land(planned(make_project(root)))
    return root


def test_what_is_traced_or_transformed_runs_the_original(landed: Path) -> None:
    code = """
    from torch.autograd import forward_ad
    from torch.fx.experimental.proxy_tensor import make_fx
    traced = ["it is traced or transformed"]
    for call in (
        lambda: torch.jit.trace(value, x, check_trace=False),
        lambda: make_fx(value)(x),
        lambda: make_fx(value, pre_dispatch=True)(x),
        lambda: torch.vmap(value)(x[None]),
        lambda: torch.func.grad(lambda x: value(x).sum())(x),
        lambda: torch.func.jvp(value, (x,), (x,)),
        lambda: torch.func.functionalize(value)(x),
    ):
        assert reasons(call) == traced
    with forward_ad.dual_level():
        assert reasons(lambda: value(forward_ad.make_dual(x, x))) == traced
    graph = torch.fx.symbolic_trace(nn.Sequential(m))
    torch.testing.assert_close(graph(x[:2]).value, original(m, x[:2]))
    torch.testing.assert_close(make_fx(value)(x)(x), original(m, x))
    assert len([text for category, text in caught if category is RuntimeWarning]) == 1
    """
    run(landed, CHECKS + dedent(REASONS) + dedent(code))


def test_tensors_of_other_kinds_run_the_original(landed: Path) -> None:
    code = """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    class Own(torch.Tensor):
        pass

    def failing(call):
        try:
            call()
        except RuntimeError:
            pass

    assert reasons(lambda: m(x.as_subclass(Own))) == ["x is of a subclass of Tensor"]
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        assert reasons(lambda: m(fake.from_tensor(x))) == ["x is of a subclass of Tensor"]
    assert reasons(lambda: failing(lambda: m(x.to_sparse()))) == ["x is sparse"]
    assert reasons(lambda: failing(lambda: m(x.to("meta")))) == ["x is not on cpu"]
    own = x.clone().requires_grad_()
    (said,) = reasons(lambda: m(own))
    assert said.startswith("gradients are on")
    with torch.inference_mode():
        ran("fused", lambda: m(x + 0), original(m, x))
    with FlopCounterMode(display=False):
        ran("fused", lambda: m(x), original(m, x))
    ran("fused", lambda: m(x), original(m, x))
    m.half()
    assert reasons(lambda: m(x.half())) == ["x is not torch.float32"]
    assert reasons(lambda: failing(lambda: m(x))) == ["weight is not torch.float32"]
    m.float()
    ran("fused", lambda: m(x), original(m, x))
    """
    run(landed, CHECKS + dedent(REASONS) + dedent(code))


def test_a_module_that_is_set_otherwise_runs_the_original(landed: Path) -> None:
    """What the kernels may have been built on without looking at it again: modes, plain attributes, hooks, parts."""
    code = """
    m.act.train()
    assert reasons(lambda: m(x)) == ["its act is in train mode"]
    m.eval()
    ran("fused", lambda: m(x), original(m, x))
    m.squash = False
    assert reasons(lambda: m(x)) == ["its squash was changed"]
    m.squash = True
    ran("fused", lambda: m(x), original(m, x))
    handle = m.act.register_full_backward_hook(lambda *_: None)
    assert reasons(lambda: m(x)) == ["its parts were replaced or have hooks"]
    handle.remove()
    m.act.__class__ = nn.Sigmoid
    assert reasons(lambda: m(x)) == ["its parts were replaced or have hooks"]
    m.act.__class__ = nn.Tanh
    m.act.forward = torch.sigmoid
    assert reasons(lambda: m(x)) == ["its parts were replaced or have hooks"]
    del m.act.forward
    m.weight = None
    assert "its parameters or buffers are others" in reasons(lambda: failing(lambda: m(x)))
    """
    helper = """
    def failing(call):
        try:
            call()
        except TypeError:
            pass
    """
    run(landed, CHECKS + dedent(REASONS) + dedent(helper) + dedent(code))


def test_forked_processes_and_workers_of_loaders_run_the_original(landed: Path) -> None:
    """Threads and devices of the process they were forked from are not theirs."""
    code = """
    import os
    from torch.utils.data import DataLoader, Dataset

    class Items(Dataset):
        def __len__(self):
            return 1
        def __getitem__(self, index):
            return reasons(lambda: m(x))[0]

    for _ in range(2):
        (said,) = DataLoader(Items(), num_workers=1, batch_size=None, multiprocessing_context="fork")
        assert said == "it is called in a worker of a DataLoader", said
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, reasons(lambda: m(x))[0].encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1000) == b"this process was forked from one that had used them"
    ran("fused", lambda: m(x), original(m, x))
    """
    run(landed, CHECKS + dedent(REASONS) + dedent(code))


def test_sizes_and_modes_that_were_verified_run_the_kernel(tmp_path: Path) -> None:
    root = tmp_path / "project"
    spec = make_project(root)
    rows = VerifiedRange(("x.0",), 2, 64, (2, 4, 64))
    verify = VerifyReport(ok=True, cases=(VerifyCase("train mode", True, 0.0, 0.0),), ranges=(rows,))
    land(planned(spec, verified=VerifiedInputs.of(spec, SIGNATURE, ORIGINAL.encode(), verify)))
    code = """
    for rows in (2, 4, 64, 3):
        some = torch.randn(rows, 8)
        for _ in range(2):
            ran("fused", lambda: m(some), original(m, some))
    assert reasons(lambda: m(torch.randn(65, 8))) == ["the shape of x is not (2 to 64, 8)"]
    assert reasons(lambda: m(torch.randn(1, 8))) == ["the shape of x is not (2 to 64, 8)"]
    m.train()
    ran("fused", lambda: m(x), original(m, x))
    """
    run(root, CHECKS + dedent(REASONS) + dedent(code))


def test_a_call_of_any_form_that_was_verified_runs_the_kernel(tmp_path: Path) -> None:
    root = tmp_path / "project"
    spec = make_project(root).with_changes(init="")
    wide = [line.replace("[4, 8]", "[2, 16]").replace("[8]", "[16]") for line in SIGNATURE]
    rows = VerifyReport(ok=True, ranges=(VerifiedRange(("x.0",), 2, 6, (2, 6)),))
    first, other = (
        replace(VerifiedInputs.of(spec, signature, ORIGINAL.encode(), verify), init=None)
        for signature, verify in ((SIGNATURE, None), (wide, rows))
    )
    judged = verdict()
    judged = replace(judged, task=replace(judged.task, precision="tf32"))
    spec, files = spec.with_changes(precision="tf32"), {"blocks.py": ORIGINAL.encode()}
    land(plan(spec, files, accepted(), judged, replace(first, forms=(other,))))
    code = """
    no_tf32 = ["TF32 is not allowed (torch.backends.cuda.matmul), and it was verified with it"]
    assert reasons(lambda: m(x)) == no_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    w = Block(16).eval().requires_grad_(False)
    for rows in (2, 5):
        some = torch.randn(rows, 16)
        for _ in range(2):
            ran("fused", lambda: w(some), original(w, some))
            ran("fused", lambda: m(x), original(m, x))
    no_form = ["the shape of x is not (4, 8), and it is of no other form that was verified"]
    assert reasons(lambda: w(torch.randn(7, 16))) == no_form
    assert reasons(lambda: m(torch.randn(2, 8))) == no_form
    torch.backends.cuda.matmul.allow_tf32 = False
    assert reasons(lambda: w(torch.randn(2, 16))) == no_tf32
    """
    run(root, CHECKS + dedent(REASONS).replace('ran("fused", lambda: m(x), original(m, x))', "") + dedent(code))


def test_what_a_capture_knew_of_the_module_is_checked(tmp_path: Path) -> None:
    root = tmp_path / "project"
    spec = make_project(root)
    (tmp_path / "capture").mkdir()
    known = '{"modes": {"act": true}, "attributes": {"": {"eps": 1e-05, "squash": true}}}'
    (tmp_path / "capture/manifest.json").write_text(known)
    spec = spec.with_changes(capture=str(tmp_path / "capture"), init="", autocast="bfloat16")
    changes = planned(spec)
    record = next(read_record(change.after) for change in changes if change.path.name == "_landed.py")
    assert record["contract"]["init"] is None
    land(changes)
    code = """
    other = Block(8, eps=1e-3).eval()
    assert reasons(lambda: other(x)) == ["its act is in eval mode"]
    for each in (m, other):
        each.requires_grad_(False)
        each.act.train()
    assert reasons(lambda: m(x)) == ["autocast is not on with torch.bfloat16"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ran("fused", lambda: m(x), original(m, x))
        assert reasons(lambda: other(x)) == ["its eps is not 1e-05"]
    """
    run(root, CHECKS + dedent(REASONS).rpartition("ran(")[0] + dedent(code))
