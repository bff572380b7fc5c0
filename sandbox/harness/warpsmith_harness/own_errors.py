"""How far the reference's own errors go on inputs that no budget was made for: what a candidate is allowed there."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from warpsmith_harness import contents, values
from warpsmith_harness.compare import inexact, own_error, row_errors, row_scales
from warpsmith_harness.questions import Examiner, Question

_NUDGED_RUNS = 3
_STEEPEST = 64.0
"""How much larger than the nudges, relative to the largest output, an error may be where rounding still decides little."""

Again = Callable[[Question, List[torch.Tensor]], Tuple[List[torch.Tensor], List[torch.Tensor]]]
"""Returns what the reference answers on other inputs, which it may change, and what it leaves in those and in the state."""


class Unstable(Exception):
    """The reference's answer hangs on the last bits of these inputs."""


class OwnErrors:
    """Looks at the reference's errors against the oracle.

    Args:
        examiner: Asks the reference.
        again: Asks it a question again on other inputs.
    """

    def __init__(self, examiner: Examiner, again: Again) -> None:
        self._examiner = examiner
        self._again = again
        self._usual: Optional[List[float]] = None

    def usual(self, tensors: List[torch.Tensor], structure: Any) -> List[float]:
        """Return the reference's largest error on the task's own inputs over each output's RMS; looked at once.

        Special inputs can leave the reference nearly exact where an honest kernel is not: a convolution of tiny inputs that
        adds its bias last rounds once, and one that begins its sum with the bias at every term. Relative to the output, no
        distribution is held to less than the reference needs on its usual inputs. Half precision has no such allowance:
        there it would let a lower precision pass.
        """
        if self._usual is None:
            question = self._examiner.ask(tensors, structure)
            rows, exact = question.exact.rows, question.exact.outputs
            self._usual = [_share(_some(out, rows), best) for out, best in zip(question.expected, exact)]
        return self._usual

    def look_at(self, question: Question, stable: bool) -> None:
        """Note the reference's largest errors by row, on these inputs and on some nudged as rounding nudges them.

        One run may be exact by chance, and a few outputs hold a few samples of what rounding does: both would reject a
        kernel that only sums in another order. With ``stable`` it raises ``Unstable`` where rounding decides what the
        answer is.
        """
        rows, exact = question.exact.rows, question.exact.outputs
        question.own = [row_errors(_some(out, rows), best) for out, best in zip(question.expected, exact)]
        question.own_touched = [row_errors(tensor, tensor) for tensor in question.touched]
        for _ in range(_NUDGED_RUNS):
            outputs, touched = self._again(question, _nudged(question.tensors))
            if [out.shape for out in outputs] != [out.shape for out in question.expected]:
                raise Unstable
            if stable and any(_flipped(out, old) for out, old in zip(outputs, question.expected)):
                raise Unstable
            question.own = _largest_errors(question.own, [_some(out, rows) for out in outputs], exact)
            question.own_touched = _largest_errors(question.own_touched, touched, question.touched)
        limit = _STEEPEST * contents.amplitude(question.tensors)
        if stable and any(float(e.max()) > limit * _largest(best) for e, best in zip(question.own, exact) if e.numel()):
            raise Unstable


def allow_usual(question: Question, usual: Sequence[float]) -> None:
    """Raise what was noted of each output to its usual error, relative to what is exact here."""
    if question.own is not None:
        for index, (share, best) in enumerate(zip(usual, question.exact.outputs)):
            question.own[index] = torch.maximum(question.own[index], share * row_scales(best))


def _nudged(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """Return copies of inputs, nudged."""
    copies = [values.clone_like(tensor) for tensor in tensors]
    for tensor in copies:
        contents.nudge(tensor)
    return copies


def _share(ours: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the largest error over the RMS of what is exact; 0 where it tells nothing."""
    if not ours.is_floating_point() or torch.finfo(ours.dtype).eps > torch.finfo(torch.float32).eps:
        return 0.0
    error, scale = own_error(ours, exact)
    return error / scale if scale else 0.0


def _largest_errors(
    before: List[torch.Tensor], outputs: List[torch.Tensor], exact: List[torch.Tensor]
) -> List[torch.Tensor]:
    """Return the larger of errors that were seen before and those of another run."""
    return [torch.maximum(old, row_errors(out, best)) for old, out, best in zip(before, outputs, exact)]


def _some(output: torch.Tensor, rows: Optional[torch.Tensor]) -> torch.Tensor:
    return output if rows is None else output[rows]


def _flipped(nudged: torch.Tensor, usual: torch.Tensor) -> bool:
    """Whether an integer or boolean output changed with rounding."""
    return not inexact(usual) and not torch.equal(nudged, usual)


def _largest(exact: torch.Tensor) -> float:
    if not inexact(exact):
        return 0.0
    return float(torch.nan_to_num(exact.abs(), 0.0, 0.0, 0.0).max())
