"""Values that kernels leave open, and phases they can leave out: read from their source, with clear refusals."""

from __future__ import annotations

import pytest

from sandbox.errors import UsageError
from sandbox.looking.defines import chosen_phases, combinations, flags, phases, present_values, read_option

OPEN = b"""\
#include <cstdint>
#ifndef TILE  // columns
#define TILE 64  // of a block
#endif
  # ifndef UNROLL
  # define UNROLL 4
  # endif
#ifndef ABLATE_LOAD
int load;
#endif
#if !defined(ABLATE_EPILOGUE) && !defined(ABLATE_LOAD)
int both;
#endif
"""
FILES = {"kernels/a.cu": OPEN, "model_new.py": b"#ifndef OTHER\n#define OTHER 1\n"}


def test_present_values_and_phases_are_read_from_the_kernels() -> None:
    assert present_values(FILES, ["UNROLL", "TILE"]) == {"UNROLL": "4", "TILE": "64"}
    assert phases(FILES) == ["LOAD", "EPILOGUE"]
    assert chosen_phases(FILES, ["ABLATE_EPILOGUE"]) == ["EPILOGUE"]
    assert chosen_phases(FILES, ["all"]) == chosen_phases(FILES, []) == ["LOAD", "EPILOGUE"]


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        (OPEN, "OTHER", ["leaves OTHER open", "#ifndef OTHER / #define OTHER 64 / #endif"]),
        (OPEN, "TIL", ["leaves TIL open"]),
        (b"int a;\n#define TILE 64\n", "TILE", ["whatever the command line says", "kernels/b.cu:2"]),
        (b"#ifndef TILE\n#define TILE 32\n#endif\n", "TILE", ["64 in kernels/a.cu, 32 in kernels/b.cu"]),
    ],
)
def test_a_name_that_is_not_open_is_refused(source: bytes, name: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        present_values({**FILES, "kernels/b.cu": source}, [name])
    assert all(word in str(refused.value) for word in words), refused.value


def test_a_phase_that_no_kernel_has_is_refused() -> None:
    with pytest.raises(UsageError, match="TAIL cannot be left out; those that can are: LOAD, EPILOGUE"):
        chosen_phases(FILES, ["TAIL"])
    with pytest.raises(UsageError, match="no kernel file has such a phase"):
        chosen_phases({"kernels/a.cu": b"int a;"}, [])


def test_options_become_combinations_and_flags() -> None:
    values = dict(map(read_option, ["TILE=32, 64,64", "UNROLL=2,4"]))
    every = combinations(values)
    assert every[0] == {"TILE": "32", "UNROLL": "2"}
    assert len(every) == 4
    assert flags(every[3]).compile == ("-DTILE=64", "-DUNROLL=4")


@pytest.mark.parametrize("text", ["TILE", "TILE=", "=3", "TILE=1;rm", "TILE=1,-", "2=3", "T=$(x)", "T= "])
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="TILE=32,64,128"):
        combinations(dict([read_option(text)]))


def test_a_sweep_is_bounded() -> None:
    with pytest.raises(UsageError, match="36 combinations are more than one sweep has, which is 32"):
        combinations({"A": list("123456"), "B": list("123456")})
    with pytest.raises(UsageError, match="nothing to sweep"):
        combinations({})
