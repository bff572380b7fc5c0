"""What compiling shows of kernel files beyond their text: what the preprocessor left of them, and what their objects hold.

The guard reads it. Text can hide a name from whoever searches it; the compiler's own output cannot.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sandbox.build.sources import FOLDER

RULES = """\
rule preprocess
  command = $run > $out.log 2>&1 && mv $out.part $out
rule inspect
  command = readelf -W -S -s $in > $out && $
    { objdump -d --no-show-raw-insn $in | grep -E "file format|$$(printf '\\t')($calls)" > $out.calls; }
"""
"""Ninja's rules; ``inspect`` needs ``calls``, and what ``preprocess`` runs writes a ``.part``: half a text is none."""

SYSTEM_CALLS = r"syscall|sysenter|svc|int +.0x80"
"""Instructions that enter the system's kernel, as the disassembler writes them."""

_MARKER = re.compile(rb'^# (\d+) "((?:\\.|[^"\\\n])*)"((?: \d)*)[^\n]*\n', re.MULTILINE)
_MOST_LINES = 1_100_000
_SECTION = re.compile(
    r"^\s*\[\s*\d+\]\s+(?P<name>.*?)\s+(?P<type>[A-Z_]+)\s+[0-9a-f]{8,16}\s+[0-9a-f]+\s+(?P<size>[0-9a-f]+)\s"
)
_SYMBOL = re.compile(
    r"^\s*\d+:\s+[0-9a-f]+\s+\S+\s+(?P<type>\w+)\s+(?P<bind>\w+)\s+\w+\s+(?:\[[^\]]*\]\s+)?(?P<section>\w+)\s+(?P<name>\S.*)$"
)
_AT_LOAD = re.compile(r"\.(?:(?:preinit|init|fini)_array|ctors|dtors)(?:\..*)?")
_ONE_PIECE = re.compile(r"\.(?:init|fini)")
_OF_CPP_OBJECTS = re.compile(r"_GLOBAL__(?:sub_)?[ID][_.]|_ZL\d+__sti____cudaRegisterAllv")
_POINTER_BYTES = 8


@dataclass(frozen=True)
class OwnText:
    """What the preprocessor left of a file of the workspace, each line where it stands in that file."""

    file: str
    text: str


@dataclass(frozen=True)
class ObjectSymbols:
    """What the object of one source needs and holds.

    Attributes:
        file: The source.
        asked: Names that it needs from elsewhere.
        defined: Names that it defines for everybody; not those of templates and inline functions, which many define.
        at_load: How many functions run when it is loaded or unloaded, beside constructors of C++ objects.
        resolved: Names whose address code of the source's own decides at load.
        system_calls: Instructions that enter the system's kernel.
    """

    file: str
    asked: tuple[str, ...] = ()
    defined: tuple[str, ...] = ()
    at_load: int = 0
    resolved: tuple[str, ...] = ()
    system_calls: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ObjectSymbols:
        """Rebuild it from its JSON data."""
        read: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in data.items()}
        return cls(**read)


@dataclass(frozen=True)
class Inspection:
    """What compiling showed of all files of a workspace. A header has a text for each way in which it was read."""

    texts: tuple[OwnText, ...] = ()
    objects: tuple[ObjectSymbols, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Inspection:
        """Rebuild it from its JSON data."""
        texts = tuple(OwnText(**each) for each in data["texts"])
        return cls(texts, tuple(ObjectSymbols.from_json(each) for each in data["objects"]))


def own_texts(preprocessed: bytes, file: str) -> tuple[OwnText, ...]:
    """Pick the lines of the workspace's own files out of preprocessed text.

    A file begins where a marker enters it and ends where one leaves it; a marker that only gives another name, as
    ``#line`` does, changes nothing.

    Args:
        preprocessed: The compiler's output, markers included.
        file: The source, relative to the workspace; its own lines are those outside all headers.
    """
    lines: dict[str, dict[int, list[str]]] = {}
    entered = [file]
    for name, flags, number, text in _pieces(preprocessed):
        if "1" in flags:
            entered.append(_of_workspace(name))
        elif "2" in flags and len(entered) > 1:
            entered.pop()
        if entered[-1] and text.strip():
            kept = lines.setdefault(entered[-1], {})
            for offset, line in enumerate(text.decode(errors="replace").split("\n")):
                if line.strip():
                    kept.setdefault(min(number + offset, _MOST_LINES), []).append(line)
    return tuple(OwnText(name, _joined(kept)) for name, kept in sorted(lines.items()))


def _pieces(preprocessed: bytes) -> Iterator[tuple[str, list[str], int, bytes]]:
    """Yield, for each marker, the name, flags and line number it tells, and the text up to the next."""
    markers = list(_MARKER.finditer(preprocessed))
    ends = [marker.start() for marker in markers[1:]] + [len(preprocessed)]
    for marker, end in zip(markers, ends, strict=True):
        yield (
            marker[2].decode(errors="replace"),
            marker[3].decode().split(),
            int(marker[1]),
            preprocessed[marker.end() : end],
        )


def _of_workspace(name: str) -> str:
    """Return a file's path relative to the workspace, or an empty text for one that lies elsewhere."""
    path = os.path.normpath(name)
    return path if path.startswith(f"{FOLDER}/") else ""


def _joined(lines: Mapping[int, list[str]]) -> str:
    return "\n".join(" ".join(lines.get(number, ())) for number in range(1, max(lines) + 1)) + "\n"


def read_object(file: str, listing: str, calls: str) -> ObjectSymbols:
    """Read what ``inspect`` left: ``listing`` of sections and symbols, and instructions among ``SYSTEM_CALLS``."""
    symbols = [found for line in listing.splitlines() if (found := _SYMBOL.match(line))]
    names = [(each["name"].partition("@")[0], each["type"], each["bind"], each["section"] == "UND") for each in symbols]
    ours = {name for name, _, _, undefined in names if not undefined}
    constructors = sum(bool(_OF_CPP_OBJECTS.match(name)) for name, kind, _, _ in names if kind == "FUNC")
    return ObjectSymbols(
        file,
        asked=tuple(sorted({name for name, _, _, undefined in names if undefined})),
        defined=tuple(
            sorted({name for name, _, bind, undefined in names if not undefined and _is_offered(name, bind)})
        ),
        at_load=max(0, sum(_functions_at_load(listing)) - constructors),
        resolved=tuple(
            sorted(name for name, kind, _, _ in names if kind == "IFUNC" and f"{name}.resolver" not in ours)
        ),
        system_calls=tuple(sorted({line.split("\t")[-1].strip() for line in calls.splitlines() if "\t" in line})),
    )


def _is_offered(name: str, bind: str) -> bool:
    return bind == "GLOBAL" or (bind == "WEAK" and not name.startswith(("_Z", "DW.ref.")))


def _functions_at_load(listing: str) -> Iterator[int]:
    for line in listing.splitlines():
        section = _SECTION.match(line)
        if section and (_AT_LOAD.fullmatch(section["name"]) or section["type"].endswith("_ARRAY")):
            yield int(section["size"], 16) // _POINTER_BYTES
        elif section and _ONE_PIECE.fullmatch(section["name"]):
            yield int(int(section["size"], 16) > 0)


def was_inspected(listing: str, calls: str) -> bool:
    """Whether both tools have told something."""
    return "Section Headers" in listing and "file format" in calls


def inspected(texts: Iterable[OwnText], objects: Iterable[ObjectSymbols]) -> Inspection:
    """Return an inspection of all files, each text once."""
    return Inspection(tuple(dict.fromkeys(texts)), tuple(objects))
