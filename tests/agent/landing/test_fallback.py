"""The original takes with it what it leans on, and nothing more."""

from __future__ import annotations

import ast

from agent.landing.fallback import missing_attributes, plan_fallback

BASE = """\
import torch
from torch import nn

LIMIT = 3


def clip(x):
    return x.clamp(max=LIMIT)


class Norm(nn.Module):
    def forward(self, x):
        return clip(x)


class Output:
    pass


@register
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm()

    def helper(self, x):
        return x

    def forward(self, x):
        return Output(self.helper(self.norm(x)))


@register
def build():
    return M()
"""


def taken(landed: str, base: str = BASE) -> tuple[list[str], dict[str, str], bool]:
    """Names of the statements that are executed again, the classes among them, and whether forward is direct."""
    found = plan_fallback(base.encode(), landed.encode(), "M", "M")
    body = ast.parse(base).body
    names = [getattr(body[position], "name", None) or ast.unparse(body[position]) for position in found.statements]
    return names, found.classes, found.direct


def test_only_the_class_where_only_the_class_changed() -> None:
    assert taken(
        BASE.replace("return Output(self", "return Output(fused(self")[:-1].replace("(x)))\n", "(x))))\n")
    ) == (
        ["M"],
        {"M": "M"},
        True,
    )


def test_a_changed_helper_method_makes_it_indirect() -> None:
    assert taken(BASE.replace("        return x\n", "        return fused(x)\n"))[2] is False


def test_new_methods_leave_it_direct() -> None:
    assert taken(BASE.replace("    def helper", "    def more(self):\n        pass\n\n    def helper"))[2] is True


def test_what_leans_on_a_changed_name_comes_too() -> None:
    names, classes, direct = taken(BASE.replace("LIMIT = 3", "LIMIT = 4"))
    assert names == ["LIMIT = 3", "clip", "Norm", "M"]
    assert classes == {"M": "M", "Norm": "Norm"}
    assert direct is False


def test_what_the_class_does_not_reach_stays() -> None:
    assert taken(BASE.replace("return M()", "return M().eval()"))[0] == ["M"]


def test_removed_imports_and_functions_come_back() -> None:
    landed = BASE.replace("import torch\n", "", 1).replace(BASE[BASE.index("def clip") : BASE.index("class Norm")], "")
    used = BASE.replace("x.clamp(max=LIMIT)", "torch.clamp(x, max=LIMIT)")
    assert taken(landed, used)[0] == ["import torch", "clip", "Norm", "M"]


def test_old_style_super_is_indirect() -> None:
    base = BASE.replace("return Output(", "super(M, self).forward\n        return Output(")
    assert taken(BASE, base)[2] is False


def test_attributes_the_original_sets_must_stay() -> None:
    base = BASE.replace(
        "self.norm = Norm()", "self.norm = Norm()\n        self.register_buffer('seen', None)\n        self.n: int = 3"
    )
    landed = BASE.replace("self.norm = Norm()", "self.norm = Norm()\n        self.extra = 1")
    assert missing_attributes(base.encode(), landed.encode(), "M", "M") == ["n", "seen"]
    assert missing_attributes(BASE.encode(), landed.encode(), "M", "M") == []
