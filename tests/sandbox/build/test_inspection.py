"""What compiling shows beyond the text: the preprocessor's output of the workspace's own files, and symbols."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.build import Built
from sandbox.build.inspection import ObjectSymbols, own_texts

Build = Callable[..., Built]

HIDDEN = """\
#include <cstdio>
#include "names.h"
#define JOIN(a, b) a##b
extern "C" int JOIN(sys, tem)(const char*);

extern "C" int f(float* y, int n) {
  return JOIN(sys, tem)(CMD) + n;
}
"""


def lines(built: Built, file: str) -> dict[int, str]:
    [text] = [each.text for each in built.inspection.texts if each.file == file]
    return {number: " ".join(line.split()) for number, line in enumerate(text.split("\n"), 1) if line.strip()}


def symbols(built: Built) -> ObjectSymbols:
    [found] = built.inspection.objects
    return found


def test_names_that_macros_join_are_seen_on_their_line(build: Build) -> None:
    built = build({"f.cpp": HIDDEN, "names.h": '\n#define CMD "id"\ninline int g() { return __LINE__; }\n'})
    assert built.report.ok
    found = lines(built, "kernels/f.cpp")
    assert found[4] == 'extern "C" int system(const char*);'
    assert found[7] == 'return system("id") + n;'
    assert lines(built, "kernels/names.h") == {3: "inline int g() { return 3; }"}
    assert "system" in symbols(built).asked
    assert symbols(built).defined == ("f",)


def test_an_edit_of_one_file_keeps_what_was_seen_of_the_others(build: Build) -> None:
    first = build(
        {"a.cpp": 'extern "C" int a(int n) { return n; }\n', "f.cpp": HIDDEN, "names.h": '#define CMD "id"\n'}
    )
    second = build({"a.cpp": 'extern "C" int a(int n) { return 2 * n; }\n'})
    assert lines(first, "kernels/a.cpp") != lines(second, "kernels/a.cpp")
    assert lines(first, "kernels/f.cpp") == lines(second, "kernels/f.cpp")
    assert [each.file for each in second.inspection.objects] == ["kernels/a.cpp", "kernels/f.cpp"]


def test_what_runs_at_load_is_counted_without_c_plus_plus_objects(build: Build) -> None:
    honest = """\
#include <iostream>
#include <vector>
static std::vector<int> kept(3);
extern "C" int f(int n) { return kept[n]; }
"""
    assert symbols(build({"f.cpp": honest})).at_load == 0
    hook = "int ready;\n__attribute__((constructor)) static void g() { ready = 1; }\n"
    assert symbols(build({"f.cpp": hook + honest})).at_load == 1


def test_names_resolved_by_code_and_system_calls_are_seen(build: Build) -> None:
    source = """\
extern "C" { static int one() { return 1; } static void* pick() { return (void*)one; } }
int chosen() __attribute__((ifunc("pick")));
__attribute__((target_clones("avx2", "default"))) static int cloned(int n) { return n * 3; }
extern "C" int f(int n) {
  long result;
  asm volatile(".byte 0x0f, 0x05" : "=a"(result) : "a"(39L) : "rcx", "r11", "memory");
  return (int)result + chosen() + cloned(n);
}
"""
    found = symbols(build({"f.cpp": source}))
    assert found.resolved == ("_Z6chosenv",)
    assert found.system_calls == ("syscall",)


def test_a_renamed_line_stays_the_files_own() -> None:
    text = b"""# 0 "kernels/f.cpp"
# 0 "<built-in>"
# 0 "<command-line>"
# 1 "/usr/include/stdc-predef.h" 1 3 4
int theirs;
# 0 "<command-line>" 2
# 1 "kernels/f.cpp"
int ours;
# 7 "/usr/include/stdio.h"
int hidden;
# 1 "kernels/../kernels/part.h" 1
int part;
# 3 "kernels/f.cpp" 2
int last;
"""
    found = {each.file: each.text for each in own_texts(text, "kernels/f.cpp")}
    assert found == {
        "kernels/f.cpp": "int ours;\n\nint last;\n\n\n\nint hidden;\n",
        "kernels/part.h": "int part;\n",
    }
