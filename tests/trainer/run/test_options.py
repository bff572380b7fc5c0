import argparse
from dataclasses import replace

import pytest
import torch

from sandbox.errors import UsageError
from trainer.run.options import add_run_options
from trainer.run.presets import preset
from trainer.run.processes import Processes
from trainer.run.run import Origin, Run


@pytest.mark.parametrize("option", [("--seed", "-1"), ("--steps", "0"), ("--lora", "0")])
def test_what_no_run_can_begin_with_is_told(option, capsys):
    parser = argparse.ArgumentParser()
    add_run_options(parser, steps="1")
    with pytest.raises(SystemExit):
        parser.parse_args(["--model", "policy", "--out", "run", *option])
    assert f"argument {option[0]}: it has to be" in capsys.readouterr().err


def test_a_set_made_anew_at_the_same_place_is_noticed(tmp_path):
    alone, before = Processes(0, 1, torch.device("cpu")), Origin("rft", preset("cuda-agent"), "policy", data="set")
    Run(tmp_path, replace(before, data_sha256="a"), alone)
    with pytest.raises(UsageError, match="data_sha256 was 'a' and is 'b' now"):
        Run(tmp_path, replace(before, data_sha256="b"), alone)


def test_the_folder_of_another_stage_is_refused_by_the_stage(tmp_path):

    alone = Processes(0, 1, torch.device("cpu"))
    Run(tmp_path, Origin("ppo", preset("cuda-agent"), "policy", data="set"), alone)
    with pytest.raises(UsageError, match="stage was 'ppo' and is 'value' now"):
        Run(tmp_path, Origin("value", preset("long-horizon"), "other", data="other"), alone)
