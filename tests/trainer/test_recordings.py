import math

import pytest

from trainer.__main__ import main
from trainer.policy.tiny import write_tiny_policy
from trainer.run import metrics
from trainer.run.options import part_of


@pytest.mark.slow
def test_a_bundled_recording_goes_through_ingest_rft_and_value(tmp_path):
    """One of the recordings, whole: eighteen thousand tokens of a real session with what its developer decided."""
    model = write_tiny_policy(tmp_path / "model", layers=1, width=16)
    data, tuned, critic = (tmp_path / name for name in ("set", "tuned", "critic"))
    home = ["--home", str(tmp_path / "home")]
    assert main(["ingest", "demo-cpu", "--tokenizer", str(model), "--out", str(data), *home]) == 0
    common = ["--device", "cpu", "--steps", "1"]
    assert main(["rft", str(data), "--model", str(model), "--out", str(tuned), *common]) == 0
    assert main(["value", str(data), "--model", str(tuned), "--out", str(critic), *common]) == 0
    (imitated,), (expected,) = (metrics.read(run / "metrics.jsonl") for run in (tuned, critic))
    assert imitated["reward"] == expected["reward"] == 3.0
    assert imitated["actions"] > 1000
    assert math.log(2048) * 0.9 < imitated["nll"] < math.log(2048) * 1.1
    assert expected["critic_loss"] == pytest.approx(
        0.5 * (3.0 - 1.0) ** 2, rel=1e-4
    )  # a bounded critic begins in the middle
    assert part_of(critic, "policy") == part_of(tuned, "policy")
