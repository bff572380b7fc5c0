"""What the process that draws must never import, and what its first frame can do without."""

import subprocess
import sys

HEAVY = ("torch", "litellm", "docker", "pynvml")
LATER = ("pygments.lexers", "tree_sitter", "git", "textual.widgets._markdown", "agent.landing", "sandbox.build")


def imported(module: str) -> set[str]:
    code = f"import sys, {module}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_ide_imports_nothing_heavy() -> None:
    screens = (
        "app.ide",
        "app.screens.picker",
        "app.screens.task_form",
        "app.screens.help",
        "app.screens.sessions",
        "app.screens.landing",
        "app.screens.search",
        "app.screens.search_form",
    )
    assert not imported(", ".join(screens)) & set(HEAVY)


def test_the_first_frame_waits_for_nothing_it_does_not_draw() -> None:
    assert not imported("app.ide") & set(LATER)


def test_the_state_is_folded_without_a_screen() -> None:
    assert "textual" not in imported("app.fold")
