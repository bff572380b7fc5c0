"""The values that kernel files leave open to the compiler's command line, and combinations of them.

A value is open where a kernel file reads ``#ifndef TILE``, ``#define TILE 64``, ``#endif``; a phase can be left out where one
reads ``#ifndef ABLATE_EPILOGUE`` around it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from sandbox.build import ExtraFlags
from sandbox.errors import UsageError

MOST_COMBINATIONS = 32
ABLATE = "ABLATE_"
ALL = "all"
_NAME = re.compile(r"[A-Za-z]\w{0,60}")
_VALUE = re.compile(r"-?[\w.]{1,40}")
_FORM = "#ifndef {0} / #define {0} 64 / #endif"
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b.*", re.MULTILINE)

Defines = Mapping[str, str]
"""Values by name."""


def read_option(text: str) -> tuple[str, list[str]]:
    """Read ``TILE=32,64,128`` into a name and its values.

    Raises:
        UsageError: It has another form.
    """
    name, _, values = text.partition("=")
    return checked(name.strip(), [value.strip() for value in values.split(",")])


def checked(name: str, values: Sequence[object]) -> tuple[str, list[str]]:
    """Return a name and its values as texts, each value once.

    Raises:
        UsageError: The name is no macro's, or a value is no number or word.
    """
    texts = list(dict.fromkeys(str(value) for value in values))
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name}' is not a macro's name.", where="sweep", next_step="Write it as TILE=32,64,128.")
    wrong = next((text for text in texts if not _VALUE.fullmatch(text)), None)
    if wrong is not None or not texts:
        said = f"'{wrong}' is not a value" if wrong else "There are no values"
        raise UsageError(f"{said} for {name}.", where="sweep", next_step="Write it as TILE=32,64,128.")
    return name, texts


def combinations(values: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Return every combination of the values.

    Raises:
        UsageError: There are none, or more than one sweep may have.
    """
    count = math.prod(map(len, values.values()))
    if not values or count > MOST_COMBINATIONS:
        most = f"{count} combinations are more than one sweep has, which is {MOST_COMBINATIONS}."
        raise UsageError(
            most if values else "There is nothing to sweep.",
            where="sweep",
            next_step="Name fewer values, or sweep one macro after the other.",
        )
    return [dict(zip(values, each, strict=True)) for each in itertools.product(*values.values())]


def present_values(files: Mapping[str, bytes], names: Sequence[str]) -> dict[str, str]:
    """Return what the kernel files define each of these names as where the command line does not.

    Raises:
        UsageError: A name is not open: no kernel file mentions it, one defines it whatever the command line says, or two
            define it differently.
    """
    return {name: _present_value(dict(_kernel_texts(files)), name) for name in names}


def phases(files: Mapping[str, bytes]) -> list[str]:
    """Return the phases that kernel files can leave out, in the order they come."""
    found = [
        name
        for _, text in _kernel_texts(files)
        for line in _CONDITION.findall(text)
        for name in re.findall(rf"\b{ABLATE}(\w+)", line)
    ]
    return list(dict.fromkeys(found))


def chosen_phases(files: Mapping[str, bytes], wanted: Sequence[str]) -> list[str]:
    """Return the phases that are asked for; all there are where none or ``all`` is.

    Raises:
        UsageError: The kernel files cannot leave one out, or none at all.
    """
    there = phases(files)
    names = [name.removeprefix(ABLATE) for name in wanted if name != ALL] or there
    missing = next((name for name in names if name not in there), None)
    if missing is not None or not there:
        known = f"those that can are: {', '.join(there)}" if there else "no kernel file has such a phase"
        what = f"The phase {missing} cannot be left out" if missing else "No phase can be left out"
        raise UsageError(
            f"{what}; {known}.",
            where="kernels/",
            next_step=f"Put the phase between #ifndef {ABLATE}{missing or 'EPILOGUE'} and #endif.",
        )
    return list(dict.fromkeys(names))


def flags(defines: Defines) -> ExtraFlags:
    """Return the compilers' flags for these values."""
    return ExtraFlags(compile=tuple(f"-D{name}={value}" for name, value in defines.items()))


def _kernel_texts(files: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    yield from ((path, data.decode(errors="replace")) for path, data in files.items() if path.startswith("kernels/"))


def _present_value(texts: Mapping[str, str], name: str) -> str:
    defined = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+(\S.*?)[ \t]*(?://.*)?$", re.MULTILINE)
    guarded = re.compile(
        rf"^[ \t]*#[ \t]*ifndef[ \t]+{name}\b[^\n]*\n(?=[ \t]*#[ \t]*define[ \t]+{name}\b)", re.MULTILINE
    )
    found: dict[str, str] = {}
    for file, text in texts.items():
        open_here = {match.end() for match in guarded.finditer(text)}
        for match in defined.finditer(text):
            if match.start() not in open_here:
                line = text[: match.start()].count("\n") + 1
                raise UsageError(
                    f"{name} is defined whatever the command line says.",
                    where=f"{file}:{line}",
                    next_step=f"Write {_FORM.format(name)}.",
                )
            found[file] = match[1]
    if len(set(found.values())) > 1:
        different = ", ".join(f"{value} in {file}" for file, value in found.items())
        raise UsageError(
            f"{name} has several values: {different}.", where="kernels/", next_step="Give them names of their own."
        )
    if not found:
        raise UsageError(
            f"No kernel file leaves {name} open.", where="kernels/", next_step=f"Write {_FORM.format(name)} into one."
        )
    return next(iter(found.values()))
