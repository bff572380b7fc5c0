"""nvcc taken apart: the commands that it runs for one file, so that the halves of a compilation run side by side.

nvcc itself runs them one after the other: the host's front end, the device's compiler, assembler and container, and last
the host compiler, which reads all headers once more. Its ``--dryrun`` prints these commands (sccache reads them there too).
Where they are not the known ones, nvcc is run as it is.

The host compiler's input holds no body of device code. With what only says where lines came from taken out, an edit of a
kernel's body leaves it as it was, so that its object can be kept and only the device's image in it be replaced.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

PARTS = {
    "text": "part.cudafe1.cpp",
    "stub": "part.cudafe1.stub.c",
    "image": "part.fatbin",
    "embedded": "part.fatbin.c",
}
"""What the two halves leave for the host compiler, by its name in a file's folder."""

MODULE_ID = "part.module_id"
"""What both halves read there."""

PREPROCESSED = "part.cpp4.ii"
"""The file's text as the preprocessor leaves it for the host, likewise."""

_FILE, _KEEP = "WARPSMITHSOURCE", "WARPSMITHFOLDER"
_KINDS = {
    "preprocess_host": r'-E .*\.cpp4\.ii"',
    "front": r"^\S*cudafe\+\+",
    "preprocess_device": r'-E .*\.cpp1\.ii"',
    "device": r"^\S*cicc\b|/cicc\b",
    "assemble": r"^\S*ptxas ",
    "contain": r"^\S*fatbinary ",
    "host": r'-c -x c\+\+ .*\.cudafe1\.cpp"',
}
_VARIABLES = ("CICC_PATH", "NVVMIR_LIBRARY_DIR", "LD_LIBRARY_PATH", "PATH")
_CONDITION = re.compile(rb"^#(if|el|endif)[^\n]*\n", re.MULTILINE)
_BARE_LINE = re.compile(rb"^# \d+\n", re.MULTILINE)
_SPREAD = re.compile(rb"^([^#\n][^\n]*)\n(?=::exit\(___\);\})", re.MULTILINE)
"""What stands in for the body of a device function; its end is on a line of its own where the body has several."""

_NAMED_LINE = re.compile(rb'^# \d+ "', re.MULTILINE)


@dataclass(frozen=True)
class Phases:
    """Shell commands for one file.

    Attributes:
        folder: Where the parts go, relative to the folder that the commands are run in.
        front: Preprocesses for the host and takes the device code out.
        device: Compiles the device code into an image.
        host: Compiles what the front end left, with the image in it, into the object.
        module_id: Content of ``MODULE_ID`` in ``folder``: names what has no name in the device code.
    """

    folder: str
    front: str
    device: str
    host: str
    module_id: str


def take_apart(command: Sequence[str], file: str, output: str) -> Phases | None:
    """Return what nvcc would run for a file, or null where it would not run what is known.

    Args:
        command: nvcc with its flags, without the file and the output.
        file: The file, relative to where the commands will be run.
        output: The object, likewise.
    """
    lines = _dry_run(tuple(command))
    if lines is None:
        return None
    folder = f"{output}.d"

    def chain(*kinds: str) -> str:
        return " && ".join(_name(lines[kind], folder, file, output) for kind in ("variables", *kinds))

    front = chain("preprocess_host", "front")
    device = chain("preprocess_device", "device", "assemble", "contain")
    digest = hashlib.sha256(file.encode()).hexdigest()
    stem = re.sub(r"\W", "_", PurePosixPath(file).name)
    return Phases(folder, front, device, chain("host"), f"_{digest[:8]}_{len(stem)}_{stem}_{digest[8:16]}")


def without_places(text: bytes) -> bytes:
    """Return what the host compiler reads without bodies of device code and without line numbers."""
    text = _BARE_LINE.sub(b"", b"".join(_compiled(text)))
    return _NAMED_LINE.sub(b'# 1 "', _SPREAD.sub(rb"\1", text))


def _compiled(text: bytes) -> Iterator[bytes]:
    """Yield what lies outside ``#if 0``; such a condition may hold others."""
    depth = start = 0
    for found in _CONDITION.finditer(text):
        if depth == 0 and found[0] == b"#if 0\n":
            yield text[start : found.start()]
            start = found.start()
            depth = 1
        elif depth:
            depth += {b"if": 1, b"endif": -1}.get(found[1], 0)
            start = found.end() if depth == 0 else start
    yield text[start:]


@lru_cache(maxsize=64)
def _dry_run(command: tuple[str, ...]) -> dict[str, str] | None:
    """Return nvcc's commands by their kind, and the variables they need as one more; null if they are not the known ones."""
    asked = [*command, "--dryrun", "-keep", "-keep-dir", _KEEP, "-c", f"{_FILE}.cu", "-o", f"{_KEEP}.o"]
    try:
        done = subprocess.run(
            asked, capture_output=True, text=True, timeout=60, check=True, cwd="/", env={"PATH": os.defpath}
        )
    except (OSError, subprocess.SubprocessError):
        return None
    variables: dict[str, str] = {}
    found: dict[str, str] = {}
    for line in _commands(done.stderr):
        variable = re.match(r"(\w+)=(.*)", line)
        kinds = [kind for kind, pattern in _KINDS.items() if re.search(pattern, line)]
        if variable:
            variables[variable[1]] = variable[2].strip()
        elif len(kinds) == 1 and kinds[0] not in found:
            found[kinds[0]] = line.replace(" --gen_module_id_file", "")
        elif not line.startswith("rm "):
            return None
    if set(found) != set(_KINDS) or f"{_KEEP}/{_FILE}.module_id" not in found["front"]:
        return None
    words = [f"{name}={shlex.quote(variables[name])}" for name in _VARIABLES if name in variables]
    return {**found, "variables": f"export {' '.join(words)}"}


def _commands(told: str) -> Iterator[str]:
    for line in told.splitlines():
        if line.startswith("#$ "):
            yield line[3:].strip()


def _name(line: str, folder: str, file: str, output: str) -> str:
    """Put the real names into a command."""
    line = line.replace(f"{_KEEP}/{_FILE}.", f"{folder}/part.").replace(f"{_KEEP}.o", output)
    return re.sub(rf"(?:/)?{_FILE}\.cu\b", file, line).replace(f"{_FILE}.", "part.")
