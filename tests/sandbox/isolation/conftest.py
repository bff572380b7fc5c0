import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.isolation import Cell, CellProcess, Isolation, Limits, interpreter_paths, probe
from sandbox.isolation.bubblewrap import Bubblewrap
from sandbox.isolation.docker import Docker
from sandbox.isolation.limits import ResourceLimits
from sandbox.isolation.namespaces import Namespaces

PYTHON = Path(sys.executable)


class Room:
    """A cell over a scratch folder, in which commands are run to their end."""

    def __init__(self, isolation: Isolation, folder: Path) -> None:
        self.isolation = isolation
        self.folder = folder
        self._started: list[CellProcess] = []

    def cell(self, *, limits: Limits = Limits(), readable: tuple[Path, ...] = (), **more: Any) -> Cell:  # noqa: B008
        return Cell((*interpreter_paths(PYTHON), *readable), (self.folder,), self.folder, limits=limits, **more)

    def start(self, *argv: str, **cell: Any) -> CellProcess:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = self.isolation.popen(argv, self.cell(**cell), **pipes)
        self._started.append(process)
        return process

    def run(self, *argv: str, **cell: Any) -> tuple[int, str]:
        process = self.start(*argv, **cell)
        out, _ = process.communicate(timeout=60)
        return process.returncode, out.decode(errors="replace")

    def python(self, code: str, **cell: Any) -> tuple[int, str]:
        return self.run(str(PYTHON), "-c", code, **cell)

    def close(self) -> None:
        for process in self._started:
            self.isolation.kill(process)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def make_docker() -> Docker:
    return Docker()


MakeRoom = Callable[[Callable[[], Isolation]], Room]


@pytest.fixture
def make_room(tmp_path: Path) -> Iterator[MakeRoom]:
    rooms: list[Room] = []

    def make(kind: Callable[[], Isolation]) -> Room:
        isolation = kind()
        if reason := probe(isolation.name):
            pytest.skip(f"{isolation.name}: {reason}")
        folder = tmp_path / "scratch"
        folder.mkdir()
        rooms.append(Room(isolation, folder))
        return rooms[-1]

    yield make
    for room in rooms:
        room.close()


EVERY = [
    pytest.param(Namespaces, id="namespaces"),
    pytest.param(ResourceLimits, id="limits"),
    pytest.param(Bubblewrap, id="bubblewrap"),
    pytest.param(make_docker, id="docker", marks=pytest.mark.docker),
]


@pytest.fixture(params=EVERY)
def room(request: pytest.FixtureRequest, make_room: MakeRoom) -> Room:
    return make_room(request.param)


@pytest.fixture(params=EVERY[:3])
def local_room(request: pytest.FixtureRequest, make_room: MakeRoom) -> Room:
    """A room whose workers can be forked."""
    return make_room(request.param)


@pytest.fixture(params=[EVERY[0], EVERY[2]])
def namespaces(request: pytest.FixtureRequest, make_room: MakeRoom) -> Room:
    """A room in namespaces, whoever made them."""
    return make_room(request.param)


@pytest.fixture
def limits(make_room: MakeRoom) -> Room:
    return make_room(ResourceLimits)
