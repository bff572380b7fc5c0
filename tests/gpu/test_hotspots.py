"""``warpsmith hotspots`` on a GPU: device time by events, while the host runs ahead, and captures of what took it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

LAYERS = """\
import torch
from torch import nn


class Heavy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        for _ in range(4):
            x = torch.tanh(self.linear(x))
        return x


class Light(nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x) * 2
"""

TRAIN = """\
import torch
from torch import nn
from layers import Heavy, Light


class Net(nn.Module):
    def __init__(self, width=4096):
        super().__init__()
        self.heavy, self.light = Heavy(width), Light()

    def forward(self, x):
        return self.light(self.heavy(x))


def main():
    torch.manual_seed(0)
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x = torch.randn(4096, 4096, device="cuda")
    while True:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""


def hotspots(folder: Path, *options: str) -> dict:
    """Run the command and return what it prints as JSON."""
    command = [sys.executable, "-m", "app.cli", "hotspots", *options, "--json", "--home", "home"]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    print(done.stderr[-3000:])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_device_time_is_that_of_the_gpu_and_never_waited_for(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(LAYERS)
    (tmp_path / "train.py").write_text(TRAIN)
    told = hotspots(tmp_path, f"{sys.executable} train.py", "--seconds", "8", "--measure", "2")
    print(json.dumps({key: told[key] for key in ("device", "steps", "pace")}, indent=1)[:2000])
    by_name = {each["name"]: each for each in told["hotspots"]}
    for name in ("Heavy", "Light", "Net", "Linear"):
        each = by_name[name]
        print(
            f"{name:8} share {each['share']:.1%} forward {each['forward']['device']:.1%} "
            f"backward {each['backward']['device']:.1%} {each['device_us']:.0f} us device {each['latency_us']:.0f} us host"
        )
        print(f"         {each['gain']}")
    heavy, light = by_name["Heavy"], by_name["Light"]
    assert told["device"] != "cpu"
    assert heavy["share"] > light["share"] > 0
    assert heavy["backward"]["device"] > 0
    assert heavy["device_us"] > heavy["latency_us"], "the host waited for the device"
    assert heavy["variants"][0]["autocast"] == "bfloat16"
    assert heavy["variants"][0]["device"] == "cuda"
    assert light["gain"]["unknown"] == ""
    assert light["gain"]["copy_us"] > 0
    assert light["gain"]["compile_us"] > 0
