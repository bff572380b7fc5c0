import io

from trainer.run import metrics
from trainer.run.metrics import Narration


def test_lines_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [{"step": 1, "reward": 0.25, "explained_variance": None}, {"step": 2, "reward": 1.5}]
    for line in lines:
        metrics.write(path, line)
    assert metrics.read(path) == lines


def test_a_torn_last_line_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    metrics.write(path, {"step": 1, "reward": 0.25})
    with path.open("ab") as file:
        file.write(b'{"step": 2, "rew')
    assert metrics.read(path) == [{"step": 1, "reward": 0.25}]
    assert metrics.cut(path, 1) == [{"step": 1, "reward": 0.25}]
    assert path.read_bytes().endswith(b"}\n")


def test_what_came_after_a_step_is_forgotten(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for step in range(1, 6):
        metrics.write(path, {"step": step})
    assert metrics.cut(path, 3) == metrics.read(path) == [{"step": step} for step in (1, 2, 3)]
    assert metrics.cut(tmp_path / "none.jsonl", 3) == []


def test_the_best_step_is_the_first_of_the_best():
    history = [{"step": 1, "x": 0.1}, {"step": 2, "x": 0.5}, {"step": 3}, {"step": 4, "x": 0.5}, {"step": 5, "x": None}]
    assert metrics.best(history, "x") == 2
    assert metrics.best(history, "y") == 0


def test_off_a_terminal_each_step_is_a_line():
    stream = io.StringIO()
    with Narration(4, stream=stream) as narration:
        narration.step({"step": 3, "reward": 0.5, "entropy": 1.234567, "explained_variance": None})
    assert stream.getvalue() == "step 3 of 4: reward 0.5, entropy 1.235\n"


def test_only_one_process_speaks():
    stream = io.StringIO()
    with Narration(4, shown=False, stream=stream) as narration:
        narration.step({"step": 1, "reward": 0.5})
    assert stream.getvalue() == ""
