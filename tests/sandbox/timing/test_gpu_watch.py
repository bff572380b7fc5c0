"""What is made of NVML's readings. The readings are as an H200 and a B200 gave them; reading itself needs a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox.machine.devices import list_gpus
from sandbox.timing.gpu_watch import GpuReading, clock_notes, clocks_of, trouble_of, watch_device

QUIET = GpuReading(reasons=0x0, sm_mhz=1980, memory_mhz=3201, celsius=38, use=((4711, 93),))
OURS = {4711}


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (0x0, ""),
        (0x1, ""),  # idle
        (0x2, ""),  # clocks set by somebody
        (0x4, ""),  # at the power limit: as fast as it can
        (0x8 | 0x40, "slowed down by a hardware slowdown and its temperature"),
        (0x20 | 0x40, "slowed down by its temperature"),
        (0x80, "slowed down by the power supply"),
    ],
)
def test_only_slowing_down_is_trouble(reasons: int, said: str) -> None:
    trouble = trouble_of(replace(QUIET, reasons=reasons), OURS)
    assert said in trouble
    assert bool(trouble) == bool(said)


def test_a_desktop_is_no_trouble_and_a_busy_neighbour_is() -> None:
    assert trouble_of(replace(QUIET, use=((4711, 93), (1350, 0), (1420, 3))), OURS) == ""
    assert trouble_of(replace(QUIET, use=((4711, 60), (9001, 38))), OURS).endswith("(pid 9001)")


def test_clocks_that_stay_are_not_spoken_of() -> None:
    readings = [replace(QUIET, sm_mhz=1980 - 15 * (number % 2)) for number in range(40)]
    clocks = clocks_of(readings)
    assert (clocks["sm_mhz"], clocks["sm_mhz_lowest"], clocks["memory_mhz"]) == (1972, 1965, 3201)
    assert abs(clocks["sm_change"]) < 0.01
    assert clock_notes(clocks) == []


def test_clocks_that_fall_under_load_are() -> None:
    falling = [
        replace(QUIET, sm_mhz=mhz, celsius=celsius, reasons=0x4)
        for mhz, celsius in (
            (1965, 52),
            (1965, 58),
            (1890, 63),
            (1800, 66),
            (1710, 69),
            (1650, 70),
            (1590, 71),
            (1590, 71),
        )
    ]
    clocks = clocks_of(falling)
    assert clocks["sm_change"] == pytest.approx(-0.191, abs=0.001)
    assert clocks["power_limited"] == 1.0
    (note,) = clock_notes(clocks)
    assert "fell by 19%" in note
    assert "1590 to 1965 MHz, up to 71 °C, at the power limit" in note


def test_a_gpu_that_tells_nothing_has_no_clocks() -> None:
    assert clocks_of([]) == clocks_of([GpuReading()]) == {}
    assert clock_notes({}) == []


@pytest.mark.skipif(bool(list_gpus()), reason="there is a GPU")
def test_without_a_driver_the_verdict_says_that_nobody_watched() -> None:
    watch = watch_device("cuda:0", "8932f937-d72c-4106-c12f-20bd9faed9f6")
    assert watch.trouble(set()) == ""
    assert watch.clocks() == {}
    (note,) = watch.notes()
    assert note.startswith("nobody watched the GPU")
    watch.close()
