"""The practice family: its answers are read strictly but fairly, and operators that are held out stay apart."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox.build.toolchain import find_host_compiler
from trainer.tasks.rows import known_answers, practice
from trainer.tasks.task import NoAnswer, Task

TASKS = {task.name: task for task in practice("cpu") + practice("cpu", held_out=True)}
RANGE, UPDATE = TASKS["range-of-sum-first-24"], TASKS["update-of-smallest-first-44"]


def kernel(task: Task, answer: str) -> str:
    return next(content.decode() for path, content in task.candidate(answer).items() if path.endswith(".cpp"))


def test_held_out_operators_are_never_asked_about_in_training() -> None:
    trained, held_out = practice("cpu"), practice("cpu", held_out=True)
    assert {task.operator for task in trained}.isdisjoint(task.operator for task in held_out)
    assert len({task.name for task in trained + held_out}) == len(trained) + len(held_out)
    told = "\n".join(message["content"] for task in trained for message in task.messages)
    assert not any(known_answers(task)["right"] in told for task in held_out)


def test_no_question_tells_its_own_answer() -> None:
    for task in practice("cpu", held_out=True):
        assert known_answers(task)["right"] not in "\n".join(message["content"] for message in task.messages)


def test_a_range_goes_into_the_loop() -> None:
    text = kernel(RANGE, "first = 0, last = min(columns, 24)")
    assert "const int first = 0, last = min ( columns , 24 );" in text
    assert "total = total + value" in text


def test_an_update_goes_into_the_body() -> None:
    text = kernel(UPDATE, "total = fminf(total, value)")
    assert "if (j < 44) total = fminf ( total , value );" in text
    assert "total = INFINITY" in text


@pytest.mark.parametrize(
    "answer",
    [
        "first = 0, last = 24",
        "first=0,last=24;",
        "first = 0; last = 24\nand so on",
        "\n  first =  0 ,  last = 24  ",
    ],
)
def test_layout_and_what_follows_the_line_make_no_difference(answer: str) -> None:
    assert RANGE.candidate(answer) == RANGE.candidate("first = 0, last = 24")


@pytest.mark.parametrize(
    ("task", "answer", "why"),
    [
        (RANGE, "", "form"),
        (RANGE, "first = 0", "form"),
        (RANGE, "last = 24, first = 0", "form"),
        (RANGE, "first = 0, last = n", "no 'n'"),
        (RANGE, "first = 0, last = system(0)", "no 'system'"),
        (RANGE, "first = 0, last = (24", "do not match"),
        (RANGE, "first = 0, last = 24) + (1", "do not match"),
        (RANGE, "first = 0, last = 24 { }", "no expression"),
        (RANGE, "first = 0, last = 24; total = 1", "no expression"),
        (UPDATE, "total += value", "form"),
        (UPDATE, "total = first", "no 'first'"),
        (UPDATE, 'total = "value"', "no expression"),
        (UPDATE, "The total is the smallest value.", "form"),
    ],
)
def test_what_is_no_such_line_is_refused(task: Task, answer: str, why: str) -> None:
    with pytest.raises(NoAnswer, match=why):
        task.candidate(answer)


@pytest.mark.slow
def test_every_right_answer_compiles_on_the_cpu(tmp_path: Path) -> None:
    program = str(find_host_compiler().path)
    for number, task in enumerate(TASKS.values()):
        (tmp_path / f"kernel{number}.cpp").write_text(kernel(task, known_answers(task)["right"]))
    done = subprocess.run(
        [program, "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", *sorted(map(str, tmp_path.glob("*.cpp")))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
