"""One walk: a project in git that uses a public package, from its own script to a landed kernel and back.

Every step is a command that a developer types. Only the model is played: it writes the files of ``mine`` and asks for a full
verdict, over HTTP. What a step says is kept in ``LOG``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.servers.openai_server import Call, OpenAIServer, Reply

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@dataclass(frozen=True)
class Plan:
    """A project below this folder, and what is done with it.

    Attributes:
        name: Its folder: ``project`` is what git holds, ``mine`` what the model writes.
        package: What it uses, for the table.
        class_name, module: The class, and its file in the project.
        command: The developer's script, by the kinds of device that kernels are there for.
    """

    name: str
    package: str
    class_name: str
    module: str
    command: dict[str, str]


PLANS = (
    Plan(
        "llama",
        "transformers",
        "LlamaRMSNorm",
        "warmtext/norm.py",
        {
            "cpu": "python score.py",
            "cuda": "python score.py --device cuda --hidden 2048 --layers 8 --batch 8 --tokens 1024",
        },
    ),
    Plan(
        "filterresponsenorm",
        "timm",
        "FilterResponseNormTlu2d",
        "pictures/norm.py",
        {
            "cpu": "python classify.py",
            "cuda": "python classify.py --device cuda --pictures 64 --side 224 --blocks 2",
        },
    ),
    Plan("frozenbatchnorm2d", "torchvision", "FrozenBatchNorm2d", "spotter/norm.py", {"cpu": "python features.py"}),
    Plan("globalresponsenorm", "diffusers", "GlobalResponseNorm", "mosaic/norm.py", {"cpu": "python paint.py"}),
    Plan(
        "pairnorm",
        "torch-geometric",
        "PairNorm",
        "deepgraph/norm.py",
        {
            "cpu": "python classify.py",
            "cuda": "python classify.py --device cuda --nodes 60000 --edges 60000 --hidden 256",
        },
    ),
)


class Stopped(Exception):
    """A step that did not do what it had to."""


@dataclass
class Walk:
    """A walk and what is known of it so far.

    Args:
        plan: What is walked.
        folder: A new folder for it.
        python: The interpreter of the project.
        device: ``cpu`` or ``cuda:N``.
        seconds: How long the script is watched, each time.
    """

    plan: Plan
    folder: Path
    python: str
    device: str
    seconds: float
    before: dict[str, Any] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    comparison: dict[str, Any] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)

    def go(self) -> Iterator[str]:
        """Walk, and yield the name of each step that is done; raises ``Stopped`` where one fails."""
        steps = (self.clone, self.test, self.rank, self.optimise, self.land, self.test, self.compare, self.undo)
        for step in steps:
            began = time.monotonic()
            step()
            took = time.monotonic() - began
            self.took[step.__name__] = self.took.get(step.__name__, 0.0) + took
            print(f"{self.plan.name}: {step.__name__} took {took:.1f} s", flush=True)
            yield step.__name__

    def clone(self) -> None:
        """Make the project's repository, and the developer's clone of it."""
        origin = self.folder / "origin"
        shutil.copytree(HERE / self.plan.name / "project", origin, ignore=shutil.ignore_patterns("__pycache__"))
        (origin / ".gitignore").write_text("__pycache__/\n")
        (origin / "pytest.ini").write_text("[pytest]\n")
        author = ("-c", "user.name=You", "-c", "user.email=you@example.org")
        for words in (("init", "-q"), ("add", "-A"), (*author, "commit", "-qm", "The project")):
            self._run(["git", *words], origin)
        self._run(["git", "clone", "-q", str(origin), str(self.project)], self.folder)

    def test(self) -> None:
        """Run the project's own tests."""
        self._run([self.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"])

    def rank(self) -> None:
        """Rank the script's modules; the class has to be captured."""
        command = self.plan.command[self.device.partition(":")[0]]
        words = (
            "hotspots",
            command,
            "--seconds",
            f"{self.seconds}",
            "--measure",
            "0",
            "--capture-mb",
            "2048",
            "--json",
        )
        self.before = json.loads(self._warpsmith(*words, "--save", str(self._recording)))
        if not self._ranked["capture"]:
            raise Stopped(f"{self.plan.class_name} was not captured")

    def optimise(self) -> None:
        """Open a session on the capture, in which the model writes its files and asks for a full verdict; on a GPU it lands."""
        mine = HERE / self.plan.name / "mine"
        suffix = ".cpp" if self.device == "cpu" else ".cu"
        (kernel,) = (path for path in (mine / "kernels").iterdir() if path.suffix == suffix)
        module = Path(self.plan.module).name
        written = {f"kernels/{kernel.name}": kernel.read_text(), module: (mine / module).read_text()}
        writes = [Call("Write", {"file_path": path, "content": content}) for path, content in written.items()]
        script = [
            Reply(text="I read it first.", calls=[Call("Read", {"file_path": module})]),
            Reply(text="One kernel.", calls=[*writes, Call("Check", {"tier": "full"})]),
            *[Reply(text="It is right.")] * 4,
        ]
        landing = () if self.device == "cpu" else ("--land", "full-pass")
        with OpenAIServer(script) as server:
            model = ("--model", "openai/walk", "--api-base", server.base_url)
            self._warpsmith("run", "--capture", self._ranked["capture"], *model, *landing)

    def land(self) -> None:
        """Look at what the run landed; on a CPU, which others use as well, land what there was no time to be had of."""
        if self.device == "cpu":
            self._warpsmith("sessions", "land", "last", "--untimed")
        self.verdict = self._landed()[0]
        if self.verdict["state"] != "fresh" or not self._changed():
            raise Stopped(f"it did not land: {self.verdict['state']}, {self._changed()}")

    def compare(self) -> None:
        """Run the script again for as long, with what landed."""
        self.comparison = json.loads(self._warpsmith("hotspots", "--compare", str(self._recording), "--json"))

    def undo(self) -> None:
        """Take the landing back; nothing may be left of it."""
        self._warpsmith("landed", "undo", self.plan.class_name)
        if self._changed() or self._landed():
            raise Stopped(f"this is left of it: {self._changed()}")

    @property
    def project(self) -> Path:
        """The developer's clone."""
        return self.folder / "clone"

    @property
    def log(self) -> Path:
        """What every command said."""
        return self.folder / "log.txt"

    @property
    def _recording(self) -> Path:
        return self.folder / "recording"

    @property
    def _ranked(self) -> dict[str, Any]:
        """What the ranking says of the class."""
        found: list[dict[str, Any]] = [each for each in self.before["hotspots"] if each["name"] == self.plan.class_name]
        if not found:
            raise Stopped(f"{self.plan.class_name} is not in the ranking")
        return found[0]

    def _landed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._warpsmith("landed", "--json"))
        return found

    def _changed(self) -> list[str]:
        return self._run(["git", "status", "--porcelain"]).split()

    def _warpsmith(self, *words: str) -> str:
        return self._run([sys.executable, "-m", "app.cli", *words])

    def _run(self, command: Sequence[str], where: Path | None = None) -> str:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        device = "cpu" if self.device == "cpu" else "cuda:0"
        settings = {
            "HOME": self.folder / "home",
            "CACHE": self.folder / "cache",
            "PYTHON": self.python,
            "DEVICE": device,
        }
        environment = {
            **os.environ,
            **_only(self.device),
            "PYTHONPATH": path,
            "OPENAI_API_KEY": "none",
            "PROJECT_DEVICE": device,
            **{f"WARPSMITH_{name}": str(value) for name, value in settings.items()},
        }
        with self.log.open("a") as log:
            log.write(f"\n$ {' '.join(command)}\n")
            log.flush()
            done = subprocess.run(
                command, cwd=where or self.project, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
            log.write(done.stdout)
        if done.returncode:
            said = "\n".join(self.log.read_text().splitlines()[-25:])
            raise Stopped(f"exit code {done.returncode}: {' '.join(command)}\n{said}")
        return done.stdout


def _only(device: str) -> dict[str, str]:
    """Return what makes a GPU the only one that processes see; a script of a walk knows no other."""
    if device == "cpu":
        return {}
    index = int(device.partition(":")[2] or 0)
    visible = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
    return {"CUDA_VISIBLE_DEVICES": visible[index] if visible else str(index)}
