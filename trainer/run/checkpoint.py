"""Checkpoints: whole or not there, written by every process its own part, read by any number of processes.

::

    RUN/checkpoints/step-000012/
        state.json          the step, the order of the data, what the parts are
        part-00000.safetensors ...   what resuming needs: trained weights and both moments of Adam, rows of each process
        policy/, critic/    finished folders, as others load them

A checkpoint is written into a folder of another name, seen onto the disk, and renamed; then ``RUN/latest`` names it. Nothing
in it is code: tensors are safetensors, everything else is JSON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from agent.store import write_atomically
from sandbox.errors import EnvironmentFault, UsageError, machine_fault
from trainer.run.processes import Processes, own_part

FORMAT = 1
KEPT = 2
"""How many checkpoints are kept unless told otherwise."""
BEGUN_FROM = "begun-from"
"""The file in a checkpoint that another run began from: it is kept for as long as somebody may go on with that run."""


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run.

    Attributes:
        run: The run's folder.
        processes: Who writes and reads together.
        kept: How many are kept.
    """

    run: Path
    processes: Processes
    kept: int = KEPT

    @property
    def latest(self) -> int | None:
        """The step of the last complete checkpoint, or null where there is none."""
        name = self.run / "latest"
        return int(name.read_text().strip().removeprefix("step-")) if name.exists() else None

    def folder(self, step: int) -> Path:
        """Return where the checkpoint of a step is."""
        return self.run / "checkpoints" / f"step-{step:06d}"

    def steps(self) -> list[int]:
        """Return the steps that there are checkpoints of, in order."""
        return sorted(int(path.name[5:]) for path in (self.run / "checkpoints").glob("step-*"))

    def write(
        self,
        step: int,
        tensors: Mapping[str, Tensor],
        state: Mapping[str, Any],
        finished: Callable[[Path], None],
        protected: frozenset[int] = frozenset(),
    ) -> None:
        """Write the checkpoint of a step, name it the latest, and remove those that are too old.

        Args:
            step: Number of the last update in it.
            tensors: By name; each process has its own rows of those that are sharded.
            state: JSON values that the tensors do not hold.
            finished: Writes ``policy/`` and ``critic/`` below the folder it is given; called in every process.
            protected: Steps whose checkpoints are kept however old they are.

        Raises:
            EnvironmentFault: The disk is full or refuses; every checkpoint that was there is still whole.
        """
        passing = self.run / "checkpoints" / f".writing-{step:06d}"
        with self.processes.together():
            if self.processes.first:
                shutil.rmtree(passing, ignore_errors=True)
                passing.mkdir(parents=True)
        try:
            with self.processes.together(), _told():
                _write_part(passing / f"part-{self.processes.rank:05d}.safetensors", tensors)
            with self.processes.together(), _told():
                finished(passing)
            with self.processes.together(), _told():
                if self.processes.first:
                    head = {**state, "format": FORMAT, "step": step, "parts": self.processes.world}
                    (passing / "state.json").write_text(json.dumps(head, indent=1))
                    _seal(passing, self.folder(step))
                    self._name(step)
                    self._prune(protected)
        except BaseException:
            if self.processes.first:
                shutil.rmtree(passing, ignore_errors=True)
            raise

    def read(self, step: int, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """Fill tensors from the checkpoint of a step, and return its state.

        Args:
            step: Which.
            tensors: By name, sharded as they are in this process now, however they were when they were written.

        Raises:
            UsageError: The checkpoint holds other tensors, or is of a newer version.
        """
        folder = self.folder(step)
        state: dict[str, Any] = json.loads((folder / "state.json").read_text())
        if state["format"] > FORMAT:
            raise UsageError("This checkpoint is of a newer version.", where=str(folder), next_step="Update Warpsmith.")
        pieces: dict[str, list[tuple[Path, int, int]]] = {}
        for number in range(state["parts"]):
            part = folder / f"part-{number:05d}.safetensors"
            with safe_open(part, "pt") as file:
                offsets = json.loads(file.metadata()["offsets"])
                for name in file.keys():  # noqa: SIM118 - it is no dictionary
                    rows = file.get_slice(name).get_shape()[0]
                    pieces.setdefault(name, []).append((part, offsets[name], rows))
        if pieces.keys() != tensors.keys():
            odd = sorted(pieces.keys() ^ tensors.keys())[0]
            raise UsageError(
                "The checkpoint is of another model or other adapters.",
                where=f"{folder}: {odd}",
                next_step="Give the options that the run began with, or name another folder with --out.",
            )
        for name, tensor in tensors.items():
            _read_rows(name, tensor, pieces[name])
        return state

    def go_back(self, step: int) -> int | None:
        """Make the newest checkpoint up to a step the latest, and remove those after it.

        Returns:
            The step that the run now stands at; null where no checkpoint is that old, and the run begins anew.
        """
        older = [there for there in self.steps() if there <= step]
        with self.processes.together():
            if self.processes.first:
                if older:
                    self._name(older[-1])
                else:
                    (self.run / "latest").unlink(missing_ok=True)
                for there in self.steps():
                    if there > step:
                        self._remove(there)
        return older[-1] if older else None

    def _name(self, step: int) -> None:
        write_atomically(self.run / "latest", f"{self.folder(step).name}\n".encode())
        _sync(self.run)

    def _prune(self, protected: frozenset[int]) -> None:
        for step in self.steps()[: -self.kept]:
            if step not in protected and not (self.folder(step) / BEGUN_FROM).exists():
                self._remove(step)
        for cut_off in (self.run / "checkpoints").glob(".*"):  # what was being written or removed when a run was killed
            shutil.rmtree(cut_off, ignore_errors=True)

    def _remove(self, step: int) -> None:
        """Remove a checkpoint, which is none any more from the first moment on: half of one must not be gone back to."""
        folder = self.folder(step)
        gone = folder.with_name(f".removing-{folder.name}")
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
        shutil.rmtree(gone)


def _write_part(path: Path, tensors: Mapping[str, Tensor]) -> None:
    parts = {name: own_part(tensor.detach()) for name, tensor in tensors.items()}
    rows = {name: part.cpu().reshape(-1, *part.shape[1:]).contiguous() for name, (part, _) in parts.items()}
    offsets = {name: offset for name, (_, offset) in parts.items()}
    save_file(rows, path, metadata={"offsets": json.dumps(offsets)})  # one entry: several are written in any order


def _read_rows(name: str, tensor: Tensor, pieces: list[tuple[Path, int, int]]) -> None:
    own, first = own_part(tensor)
    target = own.detach().view(-1, *own.shape[1:])
    for path, offset, rows in pieces:
        low, high = max(first, offset), min(first + len(target), offset + rows)
        if low < high:
            with safe_open(path, "pt") as file:
                found = file.get_slice(name)[low - offset : high - offset]
            with torch.no_grad():
                target[low - first : high - first].copy_(found)


def _seal(passing: Path, final: Path) -> None:
    for path in [*passing.rglob("*"), passing]:
        _sync(path)
    if final.exists():
        shutil.rmtree(final)
    passing.rename(final)
    _sync(final.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _told() -> Iterator[None]:
    """Say what a full disk or a refusal means, whichever library met it."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise _refusal(error) from error


def _refusal(error: OSError | SafetensorError) -> EnvironmentFault:
    number = error.errno if isinstance(error, OSError) else next(iter(re.findall(r"os error (\d+)", str(error))), None)
    fault = machine_fault(OSError(int(number), "")) if number else None
    return EnvironmentFault(
        f"The checkpoint cannot be written: {fault.what if fault else error}",
        next_step="Free some space and give the same command again: the run goes on from its last checkpoint.",
    )
