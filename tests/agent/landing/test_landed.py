"""What landed runs in the developer's interpreter alone: kernels where they were verified, the original elsewhere."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import pytest

from agent.landing import VerifiedInputs, land, plan, undo
from sandbox.target import kernels_folder
from tests.agent.landing.example import (
    CANDIDATE,
    CHECKS,
    KERNEL,
    ORIGINAL,
    accepted,
    make_project,
    planned,
    run,
    verdict,
)
from tests.agent.landing.repositories import picture


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("landed") / "project"
    spec = make_project(root)
    land(planned(spec))
    return root


def test_a_verified_call_runs_the_kernel_and_every_other_the_original(landed: Path) -> None:
    code = """
    with torch.no_grad():
        ran("fused", lambda: m(x), original(m, x))
        ran("fused", lambda: m(x=x, shift=None), original(m, x))
        assert blocks_kernels.counts()["launches"] == 2 and not [c for c in caught if c[0] is RuntimeWarning]
        ran("original", lambda: m(x[:2]), original(m, x[:2]))
        ran("original", lambda: m(x, torch.ones(4, 8)), original(m, x, 1.0))
        ran("original", lambda: m(x, 2.0), original(m, x, 2.0))
        t = torch.randn(8, 4).t()
        ran("original", lambda: m(t), original(m, t))
        shifted = torch.randn(33)[1:].view(4, 8)
        ran("original", lambda: m(shifted), original(m, shifted))
        ran("original", lambda: Block(8, squash=False).eval()(x), original(Block(8, squash=False), x))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            ran("original", lambda: m(x), original(m, x))
        m.train()
        ran("original", lambda: m(x), original(m, x))
        m.eval()
        ran("fused", lambda: m(x), original(m, x))
        m.double()
        ran("original", lambda: m(x.double()), original(m, x.double()))
        m.float()
        ran("fused", lambda: m(x), original(m, x))
        ran("original", lambda: Result(torch.vmap(lambda each: m(each).value)(x[None])[0]), original(m, x))
        class Wider(Block):
            def forward(self, x):
                return super().forward(x)
        ran("original", lambda: Wider(8).eval()(x), original(m, x))
    ran("original", lambda: m(x), original(m, x))
    with torch.inference_mode():
        ran("fused", lambda: m(x), original(m, x))
    m.requires_grad_(False)
    ran("fused", lambda: m(x), original(m, x))
    own = x.clone().requires_grad_()
    m(own).value.sum().backward()
    assert own.grad.abs().sum() > 0
    warned = [text for category, text in caught if category is RuntimeWarning]
    assert len(warned) == 1 and "the shape of x is not (4, 8)" in warned[0] and "shop.blocks_kernels.counts()" in warned[0]
    """
    run(landed, CHECKS + code.replace("\n    ", "\n"))


def test_a_module_that_was_changed_from_outside_runs_its_original(landed: Path) -> None:
    code = """
    class Adapted(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base, self.extra = base, nn.Parameter(torch.ones(8))
        by = property(lambda self: self.base.by)
        def forward(self, x):
            return self.base(x) + self.extra
    with torch.no_grad():
        ran("fused", lambda: m(x), original(m, x))
        handle = m.scale.register_forward_hook(lambda part, args, out: out * 2)
        ran("original", lambda: m(x), torch.tanh(x * 2 * m.scale.by * 2 * m.weight + m.eps))
        handle.remove()
        ran("fused", lambda: m(x), original(m, x))
        plain, m.scale = m.scale, Adapted(m.scale)
        ran("original", lambda: m(x), torch.tanh((x * 2 * plain.by + 1) * m.weight + m.eps))
        m.scale = plain
        ran("fused", lambda: m(x), original(m, x))
        m.weight = nn.Parameter(torch.ones(8, dtype=torch.float64))
        ran("original", lambda: m(x), original(m, x))
        m.weight = nn.Parameter(torch.ones(8))
        ran("fused", lambda: m(x), original(m, x))
        m.weight.mul_(3)
        ran("fused", lambda: m(x), original(m, x))
    """
    run(landed, CHECKS + code.replace("\n    ", "\n"))


def test_the_class_is_still_the_class(landed: Path) -> None:
    code = """
    import copy, inspect, io, pickle
    from shop import blocks, parts
    assert Block is blocks.Block and Block.__name__ == "Block" and Block.__module__ == "shop.blocks"
    assert list(inspect.signature(m.forward).parameters) == ["x", "shift"]
    assert str(inspect.signature(Block)).startswith("(width: int, eps: float = 1e-05")
    assert list(m.state_dict()) == ["weight", "scale.by"]
    with torch.no_grad():
        for again in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
            assert type(again) is Block
            ran("fused", lambda: again(x), original(m, x))
        file = io.BytesIO()
        torch.save(m.state_dict(), file)
        file.seek(0)
        fresh = Block(8).eval()
        fresh.weight.fill_(0.0)
        fresh.load_state_dict(torch.load(file))
        ran("fused", lambda: fresh(x), original(m, x))
        old = pickle.loads(pickle.dumps(m))
        del old.__dict__["_landed_built"]
        ran("original", lambda: old(x), original(m, x))
    assert parts.REGISTRY == [Block], "the original was not registered a second time"
    m.requires_grad_(False)
    traced = torch.jit.trace(lambda x: m(x).value, x)
    torch.testing.assert_close(traced(x[:2]), original(m, x[:2]))
    """
    run(landed, CHECKS + code.replace("\n    ", "\n"))


COMPILED = """
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 9):  # 2.4.0 loses what kernels write in compiled graphs
        compiled = torch.compile(lambda x: m(x).value + 1, fullgraph=True)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), original(m, x) + 1)
        assert list(blocks_kernels.counts()["reasons"]) == ["it is compiled, and this torch may lose what kernels write there"]
        sys.exit()
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block(8)
        def forward(self, x):
            return self.block(x).value + 1
    net = Net().eval()
    other = torch.randn(3, 8)
    with torch.no_grad():
        compiled = torch.compile(net, fullgraph=True)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), original(m, x) + 1)
        assert blocks_kernels.counts()["launches"] == 2
        traced = torch.compile(net, fullgraph=True, backend="aot_eager")  # C++ made of it is torch's matter
        torch.testing.assert_close(traced(other), original(m, other) + 1)
        assert blocks_kernels.counts()["launches"] == 2
        assert [text for category, text in caught if category is RuntimeWarning], "the original is not traced in silence"
        exported = torch.export.export(net, (x,))
        assert "fused_block" in str(exported.graph)
        torch.testing.assert_close(exported.module()(x), original(m, x) + 1)
        assert blocks_kernels.counts()["launches"] == 3
        exported = torch.export.export(net, (other,))
        assert "tanh" in str(exported.graph) and "fused_block" not in str(exported.graph)
        torch.testing.assert_close(exported.module()(other), original(m, other) + 1)
    torch.compile(net, fullgraph=True, backend="aot_eager")(x).sum().backward()
    assert net.block.weight.grad.abs().sum() > 0
"""


@pytest.mark.slow
def test_compilers_see_through_both_ways(landed: Path) -> None:
    run(landed, CHECKS + COMPILED.replace("\n    ", "\n"))


def test_without_a_compiler_everything_runs_as_before(landed: Path, tmp_path: Path) -> None:
    code = """
    with torch.no_grad():
        ran("original", lambda: m(x), original(m, x))
        ran("original", lambda: m(x), original(m, x))
    (text,) = [text for category, text in caught if category is RuntimeWarning]
    assert "its kernels cannot be built: there is no C++ compiler; install g++" in text, text
    """
    empty = {"PATH": str(tmp_path), "CXX": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    run(landed, CHECKS + code.replace("\n    ", "\n"), **empty)


def test_a_library_compiled_before_needs_no_compiler(landed: Path, tmp_path: Path) -> None:
    code = 'with torch.no_grad(): ran("fused", lambda: m(x), original(m, x))'
    run(landed, CHECKS + code)
    run(landed, CHECKS + code, PATH=str(tmp_path), CXX="")


def test_processes_that_compile_at_once_make_one_library(landed: Path, tmp_path: Path) -> None:
    code = 'with torch.no_grad(): ran("fused", lambda: m(x), original(m, x))'
    cache = tmp_path / "cache"
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: run(landed, CHECKS + code, XDG_CACHE_HOME=str(cache)), range(3)))
    assert [path.name for path in cache.rglob("*") if path.is_file() and path.name != "lock"] == ["kernels.so"]


def test_a_cache_that_cannot_be_written_is_done_without(landed: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code = 'with torch.no_grad(): ran("fused", lambda: m(x), original(m, x))'
    run(landed, CHECKS + code, XDG_CACHE_HOME=str(tmp_path / "file"), TMPDIR=str(tmp_path))


HELPERS = ORIGINAL.replace(
    "        y = self.scale(super().forward(x)) * self.weight\n",
    "        y = self.mix(self.scale(super().forward(x)))\n",
).replace(
    "    def forward(self, x: torch.Tensor, shift=None) -> Result:\n",
    "    def mix(self, y):\n        return y * self.weight\n\n    def forward(self, x: torch.Tensor, shift=None) -> Result:\n",
)


@pytest.mark.slow
def test_rewritten_helpers_and_bases_do_not_reach_the_original(tmp_path: Path) -> None:
    """The original runs on a view of the instance with the original class, whatever else the landing rewrote."""
    root = tmp_path / "project"
    spec = make_project(root, HELPERS)
    fused = CANDIDATE.replace(
        "    def forward(self, x: torch.Tensor, shift=None) -> Result:\n        out",
        "    def mix(self, y, more):\n        raise AssertionError('the new helper')\n\n"
        "    def forward(self, x: torch.Tensor, shift=None) -> Result:\n        out",
    ).replace("        return x * 2\n", "        raise AssertionError('the new base')\n")
    assert fused.count("AssertionError") == 2
    land(planned(spec, accepted(fused), HELPERS))
    code = """
    with torch.no_grad():
        ran("fused", lambda: m(x), original(m, x))
        ran("original", lambda: m(x[:2]), original(m, x[:2]))
        class Louder(Block):
            def mix(self, y):
                return super().mix(y) * 2
        ran("original", lambda: Louder(8).eval()(x), torch.tanh(x * 12 * m.weight + m.eps))
        compiled = torch.compile(lambda x: m(x).value + 1, backend="aot_eager")
        torch.testing.assert_close(compiled(x[:2]), original(m, x[:2]) + 1)
        torch.testing.assert_close(compiled(x), original(m, x) + 1)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.block = m
            def forward(self, x):
                return self.block(x).value
        if torch.__version__ >= "2.6":  # before, export puts stand-ins in the place of modules
            exported = torch.export.export(Net(), (x[:2],), strict=False)
            torch.testing.assert_close(exported.module()(x[:2]), original(m, x[:2]))
    m(x).value.sum().backward()
    assert m.weight.grad.abs().sum() > 0
    """
    run(root, CHECKS + code.replace("\n    ", "\n"))


def test_a_kernel_that_returns_an_error_raises(tmp_path: Path) -> None:
    root = tmp_path / "project"
    spec = make_project(root)
    land(planned(spec, accepted(kernel=KERNEL.replace("return 0;", "return 7;"))))
    code = """
    try:
        with torch.no_grad():
            m(x)
    except RuntimeError as error:
        assert "fused_block returned error 7" in str(error)
    else:
        raise AssertionError("no error")
    """
    run(root, CHECKS + code.replace("\n    ", "\n"))


def test_undo_after_use_restores_every_byte(tmp_path: Path) -> None:
    root = tmp_path / "project"
    spec = make_project(root)
    before = picture(root)
    changes = planned(spec)
    land(changes)
    code = 'with torch.no_grad(): ran("fused", lambda: m(x), original(m, x))'
    run(root, CHECKS + code, PYTHONDONTWRITEBYTECODE="")
    assert (root / "shop/blocks_kernels/__pycache__").is_dir()
    undo(changes)
    for cached in (root / "shop/__pycache__").iterdir():
        cached.unlink()
    (root / "shop/__pycache__").rmdir()
    assert picture(root) == before
    run(
        root,
        "from shop.blocks import Block\nassert torch.allclose(Block(8)(torch.zeros(1, 8)).value, torch.tensor(1e-5))",
    )


TWICE = """

class Twice(nn.Module):
    def forward(self, x):
        return x + x
"""


def test_several_classes_of_one_file_land_in_folders_of_their_own(tmp_path: Path) -> None:
    root = tmp_path / "project"
    first = make_project(root, ORIGINAL + TWICE)
    land(planned(first, accepted(CANDIDATE + TWICE), ORIGINAL + TWICE))
    held = first.path.read_text()
    name = kernels_folder(first.path, "Twice")
    assert (name, kernels_folder(first.path, "Block")) == ("blocks_twice_kernels", "")
    spec = first.with_changes(class_name="Twice", init="", inputs="torch.randn(4, 8)", kernels=name)
    fused = "        out = torch.empty_like(x)\n        twice(x, out, x.numel())\n        return out\n"
    candidate = held.replace("        return x + x\n", fused).replace(
        "from .parts", "from .blocks_twice_kernels import twice\nfrom .parts"
    )
    launcher = 'extern "C" int twice(const float* x, float* out, int64_t n)'
    body = "{\n  for (int64_t i = 0; i < n; ++i) out[i] = 2 * x[i];\n  return 0;\n}\n"
    kernel = f"#include <cstdint>\n{launcher} {body}"
    state = {"blocks.py": candidate.encode(), "kernels/twice.cpp": kernel.encode()}
    signature = ("x: float32 [4, 8] contiguous", "output: float32 [4, 8] contiguous")
    verified = VerifiedInputs.of(spec, signature, held.encode())
    land(plan(spec, {"blocks.py": held.encode()}, state, verdict(), verified))
    code = """
    from shop import blocks_twice_kernels
    from shop.blocks import Twice
    both = Twice().eval()
    with torch.no_grad():
        for some in (x, x[:2]):
            torch.testing.assert_close(both(some), 2 * some)
        counted = blocks_twice_kernels.counts()
        assert (counted["fused"], counted["original"]) == (1, 1), counted
        ran("fused", lambda: m(x), original(m, x))
        ran("original", lambda: m(x[:2]), original(m, x[:2]))
    """
    run(root, CHECKS + code.replace("\n    ", "\n"))


def test_a_lone_file_lands_beside_itself(tmp_path: Path) -> None:
    root = tmp_path / "project"
    spec = make_project(root)
    (root / "shop/__init__.py").unlink()
    lone = ORIGINAL.replace("from .parts", "from parts")
    spec.path.write_text(lone)
    spec = spec.with_changes(module_name="blocks", root=root / "shop")
    state = accepted(
        CANDIDATE.replace("from .parts", "from parts").replace("from .blocks_kernels", "from blocks_kernels")
    )
    land(planned(spec, state, lone))
    code = """
    with torch.no_grad():
        ran("fused", lambda: m(x), original(m, x))
        ran("original", lambda: m(x[:2]), original(m, x[:2]))
    """
    checks = CHECKS.replace("from shop import", "import").replace("from shop.blocks", "from blocks")
    run(root / "shop", checks + code.replace("\n    ", "\n"))


def test_a_rewrite_without_kernels_of_its_own_is_guarded_too(tmp_path: Path) -> None:
    root = tmp_path / "project"
    spec = make_project(root)
    rewritten = ORIGINAL.replace("self.scale(super().forward(x)) * self.weight\n", "x * (6 * self.weight)\n")
    land(planned(spec, {"blocks.py": rewritten.encode()}))
    code = """
    with torch.no_grad():
        ran("fused", lambda: m(x), original(m, x))
        ran("original", lambda: m(x[:2]), original(m, x[:2]))
    """
    run(root, CHECKS + code.replace("\n    ", "\n"), PATH=str(tmp_path))


def test_sources_that_were_not_packaged_leave_the_original(tmp_path: Path) -> None:
    root = tmp_path / "project"
    spec = make_project(root)
    land(planned(spec))
    (root / "shop/blocks_kernels/fused_block.cpp").unlink()
    code = """
    with torch.no_grad():
        ran("original", lambda: m(x), original(m, x))
    (text,) = [text for category, text in caught if category is RuntimeWarning]
    assert "fused_block.cpp is missing; install the package with its data files" in text, text
    """
    run(root, CHECKS + code.replace("\n    ", "\n"))
