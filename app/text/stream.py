"""The agent's stream as rows, block by block."""

from __future__ import annotations

from textual.content import Content

from app.blocks import Block, Call, Notice, Said, Steps, Words
from app.state import Judged
from app.text.attempt import outcome
from app.text.calls import call_rows, step_rows
from app.text.markdown import markdown_rows
from app.text.plain import clean, clipped
from app.text.rows import Row, row, wrapped

MARGIN = 2
FOLDED_WORDS = 3
MOST_TOLD = 200

_TONES = {
    "info": ("─", "$muted"),
    "good": ("✓", "$text-success"),
    "bad": ("✗", "$text-error"),
    "warn": ("!", "$text-warning"),
}


def block_rows(block: Block, width: int, *, expanded: bool, judged: Judged | None = None) -> list[Row]:
    """Return a block's rows, at most ``width`` wide."""
    if isinstance(block, Words):
        return _words(block, width, expanded)
    if isinstance(block, Call):
        return call_rows(block, width, expanded=expanded, judged=judged)
    if isinstance(block, Steps):
        return _steps(block, width, expanded, judged)
    if isinstance(block, Said):
        return _said(block, width, expanded)
    assert isinstance(block, Notice)
    return _notice(block, width)


def foldable(block: Block) -> bool:
    """Tell whether there is more of a block than is shown folded."""
    if isinstance(block, Call | Steps):
        return not isinstance(block, Call) or block.status != "writing"
    return (isinstance(block, Words) and bool(block.reasoning.strip())) or (
        isinstance(block, Said) and block.speaker != "you"
    )


def _words(words: Words, width: int, expanded: bool) -> list[Row]:
    rows = [row("")]
    if words.reasoning.strip():
        rows += _reasoning(words.reasoning, width, whole=expanded, streaming=not words.text)
    if words.text.strip():
        rows += markdown_rows(words.text, width, MARGIN)
    return rows


def _reasoning(reasoning: str, width: int, *, whole: bool, streaming: bool) -> list[Row]:
    """The model's thinking: a line of it, its end while it streams, or the whole of it."""
    text = clean(reasoning).strip()
    if whole:
        rows: list[Row] = []
        for line in [line for line in text.split("\n") if line.strip()]:
            rows += wrapped(Content.styled(line, "$muted italic"), width, first="  ┆ ", rest="  ┆ ")
        return rows
    if streaming:
        lines = Content.styled(text[-600:].replace("\n", " "), "$muted italic").wrap(max(8, width - 5))
        return [Row(Content("  ┆ ") + line) for line in lines[-FOLDED_WORDS:]]
    return [row("  ", ("thought: ", "$faint"), (clipped(text, width - 14), "$faint italic"))]


def _steps(block: Steps, width: int, expanded: bool, judged: Judged | None) -> list[Row]:
    """Stages of the judge; once they led to a verdict, what it was."""
    if judged is None:
        return step_rows(block.steps, width, whole=expanded)
    head = row(" ", ("◇", "$text-primary"), "  ", (f"judged, {judged.verdict.tier}", "bold"))
    steps = step_rows(block.steps, width, whole=True) if expanded else []
    return [head, *wrapped(outcome(judged), width, first="    ", rest="    "), *steps]


def _said(said: Said, width: int, expanded: bool) -> list[Row]:
    text = clean(said.text).strip()
    if said.speaker == "you":
        heading = row("  ", ("you", "bold $accent"), ("" if said.read else "  not read yet", "$faint"))
        return [row(""), heading, *wrapped(Content(text), width - 1, first="  │ ", rest="  │ ")]
    names = {"task": "task", "decision": "told the agent", "notice": "told the agent", "contrast": "asked to compare"}
    if not expanded:
        return [row("  ", (f"{names[said.speaker]}: ", "$faint"), (clipped(text, width - 20), "$faint"))]
    lines = [
        r
        for line in text.split("\n")[:MOST_TOLD]
        for r in wrapped(Content.styled(line, "$muted"), width, first="  │ ", rest="  │ ")
    ]
    return [row("  ", (names[said.speaker], "$faint")), *lines]


def _notice(notice: Notice, width: int) -> list[Row]:
    sign, style = _TONES[notice.tone]
    rows = [row("")] if notice.tone != "info" else []
    head = Content.assemble((clean(notice.title), f"{style} bold" if notice.tone != "info" else style))
    if notice.tone == "info" and notice.detail:
        head = Content.assemble(head, (f", {clean(notice.detail)}", "$muted"))
    rows += [Row(line.content) for line in wrapped(head, width, first=f" {sign} ", rest="   ")]
    if notice.tone != "info":
        for line in clean(notice.detail).split("\n"):
            rows += wrapped(Content.styled(line, "$muted"), width, first="   ", rest="   ") if line.strip() else []
        if notice.next_step:
            rows += wrapped(Content(clean(notice.next_step)), width, first=" → ", rest="   ")
    return rows
