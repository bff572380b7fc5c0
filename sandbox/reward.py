"""The reward of a judged candidate: the table of conditions, in order, with a sentence that says why."""

from __future__ import annotations

from sandbox.timing.statistics import FASTER, SHORT_GAIN, SHORT_US, too_short_to_call
from sandbox.verdict import BuildReport, GuardReport, ProfileReport, Reward, Speedup, VerifyReport

FAILED: Reward = -1
CORRECT: Reward = 1
BEATS_EAGER: Reward = 2
BEATS_COMPILE: Reward = 3


def reward(
    build: BuildReport | None,
    guard: GuardReport | None,
    verify: VerifyReport | None,
    profile: ProfileReport | None,
    disturbed: str = "",
    *,
    timed: bool = True,
) -> tuple[Reward | None, str]:
    """Return the reward and one sentence that names whose fault it is, or why it is what it is.

    Args:
        build: The part's report, or None when it did not run.
        guard: As ``build``.
        verify: As ``build``.
        profile: As ``build``.
        disturbed: Why nothing could be judged; empty if it could. A profile that says it was disturbed earns nothing by
            its times, but a wrong answer stays wrong however busy the machine was.
        timed: Whether times were asked for; where they were not, what is correct earns 1 and no more.

    Returns:
        -1 failed, 1 correct, 2 faster than eager, 3 faster than eager and torch.compile; None if it could not be judged.
    """
    if disturbed:
        return None, f"The environment is at fault: {_ended(disturbed)}"
    failure = _failure(build, guard, verify)
    if failure:
        return FAILED, failure
    if profile is not None and profile.disturbed:
        return None, f"The environment is at fault: {_ended(profile.disturbed)}"
    if build is None or guard is None or verify is None or (profile is None and timed):
        return None, "The environment is at fault: the candidate could not be judged to the end."
    if profile is None:
        return CORRECT, "Correct; it was not timed, because correctness alone was asked for."
    return _by_time(profile)


def undecided(profile: ProfileReport) -> str:
    """Return ``eager`` or ``compile`` where that one's measured ratio would earn the next reward and its interval does not.

    Then it is the measurement that is too coarse, not the candidate that is too slow; empty where that is not so, and
    where the times are too short for any measurement to tell.
    """
    for name in ("eager", "compile"):
        gain = profile.speedup.get(name)
        if gain is None:
            return ""
        if not _faster(gain):
            return name if gain.ratio * FASTER > 1 and not _short(profile, name) else ""
    return ""


def _failure(build: BuildReport | None, guard: GuardReport | None, verify: VerifyReport | None) -> str:
    """Return what the candidate did wrong in the first part that failed, or an empty string."""
    if build is not None and not build.ok:
        found = next(iter(build.diagnostics), None)
        told = f"{found.file}:{found.line}: {found.message}" if found else "the compiler gave no message"
        return f"The candidate is at fault: it does not build; {_ended(told)}"
    if guard is not None and not guard.ok:
        rejected = next((finding for finding in guard.findings if finding.severity == "reject"), None)
        told = f"{rejected.rule}: {rejected.evidence}" if rejected else "a rule it does not name"
        return f"The candidate is at fault: the guard rejects it; {_ended(told)}"
    if verify is not None and not verify.ok:
        case = next((case for case in verify.cases if not case.ok), None)
        told = f"case {case.name}: {case.reason or 'its output is wrong'}" if case else "no case could be compared"
        return f"The candidate is at fault: it is not correct; {_ended(told)}"
    return ""


def _by_time(profile: ProfileReport) -> tuple[Reward | None, str]:
    eager, compiled = profile.speedup.get("eager"), profile.speedup.get("compile")
    if eager is None:
        return None, "The environment is at fault: the eager baseline could not be timed."
    against_eager, unsure = _told("eager", eager), undecided(profile)
    if not _faster(eager):
        if _short(profile, "eager"):
            return CORRECT, f"Correct; {_too_short('eager', eager)}."
        if unsure:
            return CORRECT, f"Correct; {_too_wide('eager', eager)}."
        if compiled is not None and _faster(compiled):
            return CORRECT, f"Correct, but not faster than eager: {against_eager}, {_told('torch.compile', compiled)}."
        return CORRECT, f"Correct, but not at least 5 % faster than eager: {against_eager}."
    if compiled is None:
        baseline = profile.baselines.get("compile")
        why = f" ({baseline.error.rstrip('.')})" if baseline is not None and baseline.error else ""
        return BEATS_EAGER, (
            f"Correct and faster than eager: {against_eager}; torch.compile cannot run the module{why}, so 2 is the most."
        )
    if not _faster(compiled):
        if _short(profile, "compile"):
            return BEATS_EAGER, (
                f"Correct and faster than eager: {against_eager}; {_too_short('torch.compile', compiled)}."
            )
        if unsure:
            return (
                BEATS_EAGER,
                f"Correct and faster than eager: {against_eager}; {_too_wide('torch.compile', compiled)}.",
            )
        return BEATS_EAGER, (
            f"Correct and faster than eager, but not at least 5 % faster than torch.compile: {against_eager}, "
            f"{_told('torch.compile', compiled)}."
        )
    return BEATS_COMPILE, (
        f"Correct and faster than eager and torch.compile: {against_eager}, {_told('torch.compile', compiled)}."
    )


def _faster(speedup: Speedup) -> bool:
    """Whether the whole interval of t / t_baseline is under 0.95; its upper end is 1 over the speedup's lower."""
    return speedup.low * FASTER > 1


def _short(profile: ProfileReport, name: str) -> bool:
    """Whether the ratio would earn the reward, and the times are too short to call it."""
    gain, theirs = profile.speedup[name], profile.baselines[name].us(profile.judged_by)
    return theirs is not None and gain.ratio * FASTER > 1 and too_short_to_call(profile.us, theirs, gain)


def _told(name: str, speedup: Speedup) -> str:
    return f"{speedup.ratio:.2f} times {name} ({speedup.low:.2f} to {speedup.high:.2f})"


def _too_wide(name: str, speedup: Speedup) -> str:
    interval = f"{speedup.low:.2f} to {speedup.high:.2f}"
    return (
        f"{speedup.ratio:.2f} times {name}, but the interval {interval} is too wide to tell: "
        "check again (a full verdict draws more placements than a quick one)"
    )


def _too_short(name: str, speedup: Speedup) -> str:
    return (
        f"{speedup.ratio:.2f} times {name} is too short to call: below {SHORT_US:.0f} us a gain under "
        f"{SHORT_GAIN - 1:.0%} can be where the buffers lie"
    )


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
