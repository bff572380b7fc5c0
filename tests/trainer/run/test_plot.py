import struct
from xml.etree import ElementTree

import pytest
from rich.console import Console

from sandbox.errors import UsageError
from trainer.__main__ import main
from trainer.run import metrics
from trainer.run.plot import course, draw, lines_of, table


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "first"
    folder.mkdir()
    for step in range(1, 13):
        variance = None if step == 1 else step / 12
        metrics.write(folder / "metrics.jsonl", {"step": step, "reward": -1 + step / 4, "explained_variance": variance})
    return folder


def test_a_png_is_drawn(run, tmp_path):
    out = tmp_path / "pictures" / "curves.png"
    assert main(["plot", str(run), "--out", str(out)]) == 0
    data = out.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(b"\x89PNG")
    assert width > 2 * height


def test_an_svg_has_axes_for_what_the_runs_have_and_a_legend_for_several(run, tmp_path):
    other = [{"step": 1, "reward": 0.5, "entropy": 1.0}]
    draw({"first": lines_of(run), "second": other}, tmp_path / "curves.svg")
    tree = ElementTree.parse(tmp_path / "curves.svg")
    axes = [element for element in tree.iter() if element.get("id", "").startswith("axes_")]
    legends = [element for element in tree.iter() if element.get("id", "").startswith("legend_")]
    assert (len(axes), len(legends)) == (3, 1)


def test_the_terminal_shows_first_last_and_course(run):
    console = Console(width=100, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(table("first", lines_of(run)))
    text = captured.get()
    assert "first, 12 steps" in text
    row = next(line for line in text.splitlines() if "Reward" in line)
    assert row.split()[1:3] == ["-0.75", "2"]
    assert "▁" in row
    assert "█" in row
    assert "Entropy" not in text


def test_a_course_has_no_more_blocks_than_fit():
    assert course([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert course([3.0, 3.0]) == "▁▁"
    assert len(course(list(range(1000)), width=40)) == 40


def test_a_folder_without_steps_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no step was recorded"):
        lines_of(tmp_path)


def test_an_unknown_format_is_refused(run, tmp_path):
    with pytest.raises(UsageError, match=r"Name a \.png, \.svg or \.pdf"):
        draw({"first": lines_of(run)}, tmp_path / "curves.docx")
