"""``warpsmith hotspots`` as a developer uses it: from their script to a ranking, to a session's task, and once more."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, command_of
from tests.sandbox.hotspots.conftest import BLOCKS

pytestmark = pytest.mark.timeout(300)

TRAIN = """\
import torch
from net.blocks import Net

def main():
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    print("the script's own words")
    while True:
        loss = model(torch.randn(8, 16)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

if __name__ == "__main__":
    main()
"""


def test_a_script_without_end_is_ranked_shown_and_compared(cli: Cli) -> None:
    (cli.folder / "net").mkdir()
    (cli.folder / "net" / "__init__.py").touch()
    (cli.folder / "net" / "blocks.py").write_text(BLOCKS)
    (cli.folder / "train.py").write_text(TRAIN)
    options = ["--seconds", "1", "--measure", "0"]
    done = cli.run("hotspots", f"{sys.executable} -W ignore train.py", *options, "--save", "seen", "--json")
    assert done.code == 0, done.err
    assert "the script's own words" in done.err
    told = json.loads(done.out)
    assert told["status"] is None
    block = next(each for each in told["hotspots"] if each["name"] == "Block")
    assert block["target"] == f"{cli.folder}/net/blocks.py:Block"
    assert block["variants"][0]["inputs"] == ["float32[8, 16]", "scale=0.5"]
    assert block["variants"][0]["training"]
    assert block["calls_per_step"] == 3
    assert block["unopened"] == ""
    assert json.loads((Path(block["capture"]) / "manifest.json").read_text())["refused"] == ""
    shown = cli.run("hotspots", "--show", "seen")
    assert shown.code == 0
    shown.says("net/blocks.py:5", "float32[8, 16], scale=0.5", "forward", "Linear")
    compared = cli.run("hotspots", "--compare", "seen", "--json")
    assert compared.code == 0, compared.err
    comparison = json.loads(compared.out)
    assert comparison["loss"]["same"]
    assert "nothing that landed was loaded" in comparison["conclusion"]
    assert not [process for process in cli.processes() if command_of(process)]
    damaged_recordings_are_refused(cli, cli.folder / "seen")


def damaged_recordings_are_refused(cli: Cli, folder: Path) -> None:
    """Damage a recording in one way after the other; each is told, and what another version added is none."""

    def told(*words: str, option: str = "--show") -> None:
        refused = cli.run("hotspots", option, folder)
        assert refused.code == 2, refused.err
        refused.says(*words, "next:")

    (process,) = folder.glob("process-*.json")
    whole = json.loads(process.read_text())
    newer = {**whole, "new": 1, "windows": [{**each, "new": 1} for each in whole["windows"]]}
    process.write_text(json.dumps(newer))
    assert cli.run("hotspots", "--show", folder).code == 0
    (folder / "gains.json").write_text("[")
    told("What was measured", "gains.json")
    (folder / "gains.json").unlink()
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "directory": str(folder / "gone")}))
    told("cannot be entered", "gone", option="--compare")
    for text in (json.dumps({"pid": 1}), json.dumps({**whole, "windows": [3]}), process.read_text()[:100]):
        process.write_text(text)
        told("damaged", process.name)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 130)], ids=["Ctrl-C", "SIGTERM"])
def test_whoever_has_seen_enough_gets_the_ranking_and_whoever_ends_it_gets_none(
    cli: Cli, number: int, code: int
) -> None:
    (cli.folder / "train.py").write_text(f"import torch\n\n{BLOCKS}\n{TRAIN.replace('from net.blocks import Net', '')}")
    kept = ["--save", "kept"] if code else []
    watching = cli.start("hotspots", f"{sys.executable} -W ignore train.py", "--measure", "0", "--json", *kept)
    assert watching.stderr is not None
    said = iter(watching.stderr.readline, "")
    assert any("it is warm; recording" in line for line in said)
    watching.send_signal(number)
    done = cli.finish(watching)
    assert done.code == code, done.err
    ranked = json.loads(done.out)["hotspots"] if done.out else []
    assert ("Block" in {each["name"] for each in ranked}) == (code == 0)
    assert not kept or list((cli.folder / "kept").iterdir()) == []
    assert not [process for process in cli.processes() if command_of(process)]


def test_what_cannot_be_ranked_is_refused(cli: Cli) -> None:
    refused = cli.run("hotspots", f"{sys.executable} -c 'raise SystemExit(3)'")
    assert refused.code == 2
    refused.says("failed after", "exit status 3", "next:")
    (cli.folder / "file").touch()
    for options, words in (
        (["--save", "file/x"], ["cannot be made", "file/x"]),
        (["--save", "file"], ["no empty folder"]),
        (["--seconds", "nan"], ["no time to watch"]),
        (["--seconds", "-1"], ["no time to watch"]),
        (["--steps", "-1"], ["must be 0 or more"]),
        (["--measure", "-2"], ["must be 0 or more"]),
        (["--capture-mb", "-1"], ["must be 0 or more", "--capture-mb"]),
        (["--compare", "kept"], ["neither a command nor another folder"]),
    ):
        done = cli.run("hotspots", f"{sys.executable} train.py", *options)
        assert done.code == 2, done.err
        done.says(*words, "next:")
    missing = cli.run("hotspots", "--show", "nothing")
    assert missing.code == 2
    missing.says("no recording in this folder")
