"""Libraries in the folder that a candidate's Triton compiles into: its own pass, what is planted there does not.

What stands for Triton here writes C files as Triton does; ``tests/gpu/test_triton.py`` has the real one.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox.guard.triton_libraries import TritonFolders, forms_in, make_folders, tritons_own
from sandbox.isolation import Cell, Limits, best_isolation

DRIVER = '''
TYPES = {"i32": "int32_t", "fp32": "double"}

def make_launcher(signature):
    declared = ", ".join(f"{TYPES[each]} arg{i}" for i, each in enumerate(signature))
    letters = "".join({"i32": "i", "fp32": "d"}[each] for each in signature)
    src = f"""
#include <stdint.h>
LONG
static const char* format = \\"{letters}\\";
int launch({declared}) {{
  {" ".join(f"(void)arg{i};" for i, _ in enumerate(signature))}
  return format[0];
}}
"""
    return src
'''.replace("LONG", "\n".join(f"static inline int helper_{i}(int a) {{{{ return a + {i}; }}}}" for i in range(40)))
UTILITIES = "#include <assert.h>\nint fill(int a) { assert(a > 0); return a + 1; }\n"
EVIL = "__attribute__((constructor)) static void evil(void) {}\nint launch(int a) { return a; }\n"


def launcher(*signature: str) -> str:
    """Return what the imitation writes for the types of a kernel's arguments."""
    names: dict[str, object] = {}
    exec(DRIVER, names)
    written = names["make_launcher"](signature)  # type: ignore[operator]
    assert isinstance(written, str)
    return written


@dataclass(frozen=True)
class Place:
    """A candidate's folders, and the interpreter's packages with the imitation."""

    folders: TritonFolders
    packages: Path
    work: Path

    def compiled(self, source: str, *more: str, name: str = "__triton_launcher") -> bytes:
        """Compile with the candidate's compiler, as Triton does."""
        file, library = self.work / f"{name}.c", self.work / f"{name}.so"
        file.write_text(source)
        flags = ["-O3", "-shared", "-fPIC", "-Wno-psabi", "-o", str(library), f"-I{self.work}", "-I/usr/include"]
        subprocess.run([self.folders.compiler, file, *flags, *more], check=True, env=os.environ)
        return library.read_bytes()

    def put(self, content: bytes, name: str = "ABC/__triton_launcher.cpython-311-x86_64-linux-gnu.so") -> str:
        path = self.folders.cache / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return str(path)

    def own(self, *mapped: str) -> list[str]:
        cell = Cell((self.packages,), (), self.packages, {"PATH": os.environ["PATH"]}, Limits(20.0, 2 * 1024**3))
        return [str(path) for path in tritons_own(mapped, self.folders, [self.packages], best_isolation(), cell)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for each in [tmp_path, *list(tmp_path.parents)[:1]]:
        each.chmod(0o755)
    driver = tmp_path / "packages/triton/backends/nvidia/driver.py"
    driver.parent.mkdir(parents=True)
    driver.write_text(DRIVER)
    driver.with_suffix(".c").write_text(UTILITIES)
    (tmp_path / "work").mkdir()
    folders = make_folders(tmp_path / "compiler", tmp_path / "cache", os.environ["PATH"])
    return Place(folders, tmp_path / "packages", tmp_path / "work")


def test_what_triton_compiles_is_its_own(place: Place) -> None:
    first = place.put(place.compiled(launcher("i32", "fp32")), "ABC/__triton_launcher.so")
    second = place.put(place.compiled(launcher("i32")), "DEF/__triton_launcher.so")
    utilities = place.put(place.compiled(UTILITIES, name="cuda_utils"), "GHI/cuda_utils.so")
    assert place.own(first, second, utilities, "/usr/lib/libm.so") == [first, second, utilities]


def test_a_library_that_was_planted_is_not(place: Place) -> None:
    place.compiled(launcher("i32"))
    evil = place.work / "evil.c"
    evil.write_text(EVIL)
    subprocess.run(["gcc", "-shared", "-fPIC", str(evil), "-o", str(place.work / "evil.so")], check=True)
    assert place.own(place.put((place.work / "evil.so").read_bytes())) == []


def test_a_source_that_triton_would_not_write_is_not_believed(place: Place) -> None:
    right = launcher("i32")
    changed = [
        EVIL,
        right + EVIL.replace("launch", "another"),
        right.replace("return a + 7;", "return a + 8;"),
        right.replace("int32_t arg0)", "int32_t arg0) { system(0); } int other(int32_t arg0)"),
        right.replace('"i"', '"i"; static const char* more = "system"'),
    ]
    assert all(source != right for source in changed)
    assert [place.own(place.put(place.compiled(source))) for source in changed] == [[]] * len(changed)


def test_flags_of_others_are_not_believed(place: Place) -> None:
    evil = place.work / "evil.h"
    evil.write_text(EVIL.replace("launch", "another"))
    assert place.own(place.put(place.compiled(launcher("i32"), "-include", str(evil)))) == []
    assert place.own(place.put(place.compiled(launcher("i32"), str(_object(place))))) == []


def _object(place: Place) -> Path:
    source = place.work / "object.c"
    source.write_text("int another(void) { return 1; }\n")
    subprocess.run(["gcc", "-c", "-fPIC", str(source), "-o", str(place.work / "object.o")], check=True)
    return place.work / "object.o"


def test_what_has_another_place_or_is_gone_is_not_believed(place: Place) -> None:
    content = place.compiled(launcher("i32"))
    link = place.folders.cache / "ABC/linked.so"
    assert place.own(place.put(content, "loose.so"), place.put(content, "ABC/of.more.dots.so")) == []
    link.symlink_to(place.put(content))
    assert place.own(str(link), f"{place.put(content)} (deleted)") == []


def test_folders_are_empty_for_the_next(place: Place, tmp_path: Path) -> None:
    place.put(place.compiled(launcher("i32")))
    again = make_folders(tmp_path / "compiler", tmp_path / "cache", os.environ["PATH"])
    assert [each.name for each in again.cache.rglob("*")] == ["kept"]


def test_without_triton_nothing_is_its_own(place: Place) -> None:
    library = place.put(place.compiled(launcher("i32")))
    (place.packages / "triton/backends/nvidia/driver.py").unlink()
    assert place.own(library) == []


def test_forms_hold_the_whole_of_a_file(place: Place) -> None:
    written, held = forms_in(place.packages)
    assert written.fits(launcher())
    assert not written.fits(UTILITIES)
    assert held.fits(UTILITIES)
    assert not held.fits(UTILITIES + " ")
