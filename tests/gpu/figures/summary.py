"""Turns the lines of all runs into tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean, median

from tests.gpu.figures.measuring import measuring_version
from tests.gpu.figures.results import Line

_FASTER = 0.95
_VERDICT_HEAD = (
    "figure",
    "load",
    "tier",
    "trials",
    "us",
    "read 5 % faster",
    "raised",
    "rate",
    "95 % at most",
    "s each",
)
_ASKED = {
    "aa20": "0 false wins in 1,000",
    "aa8": "at most 1 in 1,000",
    "power": "raised in 99 of 100 full verdicts",
}


def upper_bound(count: int, trials: int, confidence: float = 0.95) -> float:
    """Return the largest rate under which seeing no more than ``count`` still has a chance of 1 - ``confidence``.

    The exact one-sided bound of Clopper and Pearson, by bisection; with count 0 it is nearly 3 in ``trials``.
    """
    if count >= trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(count, trials, middle) > 1 - confidence else (low, middle)
    return high


def _at_most(count: int, trials: int, rate: float) -> float:
    """Return the chance of ``count`` or fewer of ``trials`` at a rate strictly between 0 and 1."""
    logs = (math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) for k in range(count + 1))
    return sum(math.exp(log + k * math.log(rate) + (trials - k) * math.log1p(-rate)) for k, log in enumerate(logs))


def tables(lines: Iterable[Line]) -> str:
    """Return every table for which there are lines, device by device."""
    runs: dict[str, Line] = {}
    by_device: dict[str, list[Line]] = defaultdict(list)
    others = 0
    for line in lines:
        run = runs.get(line["run"])
        if line["kind"] == "run":
            runs[line["run"]] = line
        elif run is not None and run.get("measuring") == measuring_version():
            by_device[str(run["device"])].append(line)
        else:
            others += 1
    told = [_device(device, found, runs) for device, found in sorted(by_device.items())] or ["No trial is known."]
    return "\n".join([*told, *([f"{others} lines measured in another way are left out"] if others else [])])


def _device(device: str, lines: Sequence[Line], runs: dict[str, Line]) -> str:
    taken = {line["run"] for line in lines}
    judges = sorted({str(runs[run]["judge"]) for run in taken})
    head = f"{device}: {len(taken)} runs, {len(judges)} versions of the judge ({', '.join(judges)})"
    parts = [head, "=" * len(head), *_verdicts(lines), *_protocols(lines), *_nsight(lines)]
    return "\n".join(parts) + "\n"


def _verdicts(lines: Sequence[Line]) -> Iterator[str]:
    groups = _grouped(lines, "trial", lambda line: (line["figure"], line["load"], line["tier"]))
    if not groups:
        return
    yield from _table(_VERDICT_HEAD, [(*key, *_counts(key[0], trials)) for key, trials in groups])
    for figure, asked in _ASKED.items():
        if any(key[0] == figure for key, _ in groups):
            yield f"{figure}: asked for is {asked}"
    wrong = [line for line in lines if line["kind"] == "trial" and (line.get("rejections") or line["reward"] == -1)]
    yield f"{len(wrong)} trials rejected wrongly" + "".join(f"\n  {line['reason']}" for line in wrong[:5])
    yield ""


def _counts(figure: str, trials: Sequence[Line]) -> tuple[str, ...]:
    """Return the cells of a row; for power the rate is that of misses."""
    timed = [line for line in trials if "ratio" in line and "disturbed" not in line]
    if not timed:
        return (f"0 ({len(trials)} disturbed)", *[""] * 6)
    raised = sum((line["reward"] or 0) > 1 for line in timed)
    counted = len(timed) - raised if figure == "power" else raised
    ratio = fmean(1 / line["ratio"] for line in timed)
    disturbed = len(trials) - len(timed)
    return (
        f"{len(timed)}" + (f" (+{disturbed} disturbed)" if disturbed else ""),
        f"{median(line['us'] for line in timed):.1f} ({ratio:.4f})",
        str(sum(line["ratio"] * _FASTER > 1 for line in timed)),
        str(raised),
        ("missed " if figure == "power" else "") + f"{counted / len(timed):.2%}",
        f"{upper_bound(counted, len(timed)):.2%}",
        f"{fmean(line['wall'] for line in trials):.1f}",
    )


def _protocols(lines: Sequence[Line]) -> Iterator[str]:
    groups = _grouped(lines, "protocol", lambda line: (line["figure"], line["load"], line["method"]))
    rows = []
    for key, found in groups:
        ratios = [ratio for line in found for ratio in line.get("ratios", [])]
        faster = sum(ratio * _FASTER > 1 for ratio in ratios)
        told = (
            (str(len(ratios)), str(faster), f"{faster / len(ratios):.1%}") if ratios else (found[0]["missing"], "", "")
        )
        rows.append((*key, *told))
    if rows:
        yield from _table(("figure", "load", "usual protocol", "trials", "read 5 % faster", "rate"), rows)
        yield ""


def _nsight(lines: Sequence[Line]) -> Iterator[str]:
    rows = [
        (module, f"{median(our):.2f}", f"{median(their):.2f}", f"{median(our) / median(their) - 1:+.1%}", str(len(our)))
        for (module,), found in _grouped(lines, "ncu", lambda line: (line["module"],))
        for our, their in [([line["judge_us"] for line in found], [line["ncu_us"] for line in found])]
    ]
    if rows:
        yield from _table(("one kernel", "judge us", "ncu us", "difference", "times"), rows)
        yield "ncu: asked for is a difference within 3 %, at 20 us and up\n"


def _grouped(
    lines: Sequence[Line], kind: str, key: Callable[[Line], tuple[str, ...]]
) -> list[tuple[tuple[str, ...], list[Line]]]:
    groups: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for line in lines:
        if line["kind"] == kind:
            groups[key(line)].append(line)
    return list(groups.items())


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
