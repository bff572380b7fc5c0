"""Tasks from KernelBench files, whose answer is a whole candidate."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.errors import UsageError
from tests.scale_task import MODEL_NEW, REFERENCE, kernel
from trainer.tasks.task import NoAnswer
from trainer.tasks.whole import whole_tasks

ANSWER = f"I fuse all of it.\n```python\n{MODEL_NEW}```\nand\n```cpp\n{kernel()}```\n"


def test_each_kernelbench_file_is_a_task(tmp_path: Path) -> None:
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "scale.py").write_text(REFERENCE)
    (tmp_path / "helper.py").write_text("def help(): ...\n")
    tasks = whole_tasks(tmp_path, "cpu")
    assert [task.name for task in tasks] == ["level1-scale"]
    assert REFERENCE.strip() in tasks[0].messages[-1]["content"]
    assert "cudaStream_t" not in tasks[0].messages[0]["content"]
    assert "cudaStream_t" in whole_tasks(tmp_path, "cuda:0")[0].messages[0]["content"]


def test_an_answer_is_two_files(tmp_path: Path) -> None:
    (tmp_path / "scale.py").write_text(REFERENCE)
    files = whole_tasks(tmp_path, "cpu")[0].candidate(ANSWER)
    assert files == {"model_new.py": MODEL_NEW.encode(), "kernels/scale_add.cpp": kernel().encode()}


def test_the_last_block_of_a_kind_counts(tmp_path: Path) -> None:
    (tmp_path / "scale.py").write_text(REFERENCE)
    drafted = "```python\nclass ModelNew: ...\n```\n" + ANSWER
    assert whole_tasks(tmp_path, "cpu")[0].candidate(drafted)["model_new.py"] == MODEL_NEW.encode()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("It is fast already.", "no block of Python"),
        (f"```python\n{MODEL_NEW}```", "no block of kernels"),
        (f"```python\n{MODEL_NEW}```\n```cpp\nint add();\n```", "no launcher"),
        (f"```python\n{MODEL_NEW}```\n```cpp\n{kernel()}", "no block of kernels"),
    ],
)
def test_half_an_answer_is_none(tmp_path: Path, answer: str, why: str) -> None:
    (tmp_path / "scale.py").write_text(REFERENCE)
    with pytest.raises(NoAnswer, match=why):
        whole_tasks(tmp_path, "cpu")[0].candidate(answer)


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def help(): ...\n")
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="no KernelBench file"):
            whole_tasks(folder, "cpu")
