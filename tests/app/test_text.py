"""What is drawn, as text."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from agent import events
from app.blocks import Call, Said, Words
from app.fold import fold
from app.state import Decision, Judged, SessionState
from app.text.attempt import outcome, sparkline, table_heading, table_row
from app.text.bars import bar, whisker
from app.text.calls import summary
from app.text.code import code_rows
from app.text.diff import Diff, Marks, diff
from app.text.markdown import markdown_rows, pieces
from app.text.plain import clean, clipped
from app.text.rows import Row
from app.text.status import activity, joined, problem_rows
from app.text.stream import block_rows
from app.text.verdict import verdict_rows
from sandbox.verdict import Baseline, Finding, GuardReport, KernelRun, TaskCheck
from tests.app import sessions


def plain(rows: list[Row]) -> str:
    return "\n".join(row.content.plain for row in rows)


@pytest.fixture
def state(tmp_path: Path) -> SessionState:
    state = SessionState()
    for n, time, event in sessions.stored(sessions.record(tmp_path)):
        fold(state, event, n=n, time=time)
    return state


# --- text from outside ---------------------------------------------------------------------------------------------


def test_terminal_sequences_are_removed_and_hidden_characters_shown() -> None:
    assert clean("\x1b[31mred\x1b[0m \x1b]0;title\x07ok") == "red ok"
    assert clean("a\x1b[2Jb\x9bc\x00") == "ab�c�"
    assert clean("access\u202e;level\u2066") == "access�;level�"
    assert clean("one\r\ntwo\rthree\ttab") == "one\ntwo�three\ttab"


def test_nothing_drawn_carries_control_characters(state: SessionState) -> None:
    evil = "\x1b[2J\x07\u202e"
    call = Call(0.0, "c", "Bash", {"command": evil}, status="failed", output=evil)
    blocks = [call, Words(0.0, 1, evil, evil), Said(0.0, "you", evil), Said(0.0, "task", evil)]
    verdict = replace(state.attempts[3].verdict, reason=evil, guard=GuardReport(True, (Finding(evil, "label", evil),)))
    rows = [row for block in blocks for row in block_rows(block, 60, expanded=True)]
    rows += verdict_rows(Judged(1, {}, verdict, 0.0), 60)
    rows += diff({"a.py": b""}, {"a.py": evil.encode()}, Marks()).rows
    assert not {"\x1b", "\x07", "\u202e"} & set(plain(rows))


def test_clipped_says_that_there_is_more() -> None:
    assert clipped("short", 10) == "short"
    assert clipped("a longer text", 8) == "a longe…"
    assert clipped("first\nsecond", 20) == "first …"


# --- Markdown ------------------------------------------------------------------------------------------------------


def test_markdown_loses_its_signs_and_keeps_its_words() -> None:
    text = "# Title\n\nIt is **bold** and `code`.\n\n- one\n- two\n\n1. first\n\n> quoted\n\n```python\nx = 1\n\ny = 2\n```\nend"
    shown = plain(markdown_rows(text, 40))
    assert shown.split("\n") == [
        "Title", "", "It is bold and code.", "", "• one", "• two", "", "1. first", "", "│ quoted", "",
        "  x = 1", "  ", "  y = 2", "end",
    ]  # fmt: skip


def test_fenced_code_is_never_cut_at_its_blank_lines() -> None:
    assert list(pieces("a\n\n```\nx\n\ny\n```\n\nb")) == ["a", "```\nx\n\ny\n```", "b"]
    assert list(pieces("```\nstill\n\nopen")) == ["```\nstill\n\nopen"]


def test_rows_are_never_wider_than_the_view() -> None:
    text = sessions.CLOSING + "\n\n- " + "word " * 40 + "\n\n```\n" + "x" * 200 + "\n```"
    for width in (24, 47, 80):
        assert max(row.content.cell_length for row in markdown_rows(text, width, margin=2)) <= width


def test_multiplication_signs_and_snake_case_are_left_alone() -> None:
    assert plain(markdown_rows("2*3*4 and a_b_c and x ** y", 60)) == "2*3*4 and a_b_c and x ** y"


# --- differences ---------------------------------------------------------------------------------------------------

OLD = {"blocks.py": sessions.ORIGINAL.encode()}
NEW = {
    "blocks.py": sessions.tidied(sessions.fused(sessions.ORIGINAL)).encode(),
    "kernels/k.cu": sessions.KERNEL.encode(),
}


def headings(drawn: Diff) -> list[str]:
    return [drawn.rows[section.start].content.plain.strip() for section in drawn.sections]


def test_a_difference_shows_each_hunk_with_signs_numbers_and_context() -> None:
    drawn = diff(OLD, NEW, Marks())
    assert headings(drawn) == [
        "── hunk 1 of 3 +2 −0",
        "── hunk 2 of 3 +4 −4",
        "── hunk 3 of 3 +1 −1",
        "── whole file +30 −0",
    ]
    shown = plain(drawn.rows)
    assert "   28      -         summed = x + residual" in shown
    assert "        30 +         out = torch.empty_like(x)" in shown
    assert "   27   29       def forward" in shown
    assert "⋯ 17 lines unchanged" in shown
    assert "kernels/k.cu  new  +30 −0" in shown


def test_all_lines_of_the_new_state_are_shown_or_counted() -> None:
    drawn = diff(OLD, NEW, Marks())
    first_file = drawn.rows[: drawn.sections[3].start - 2]
    signs = [row.content.plain[11] for row in first_file if row.gutter == 13]
    skipped = sum(int(row.content.plain.split()[1]) for row in first_file if "unchanged" in row.content.plain)
    assert signs.count(" ") + signs.count("+") + skipped == NEW["blocks.py"].count(b"\n")
    assert signs.count(" ") + signs.count("-") + skipped == OLD["blocks.py"].count(b"\n")


def test_decisions_are_said_in_words() -> None:
    hunks = [section.hunk for section in diff(OLD, NEW, Marks()).sections]
    decided = {
        (hunks[0].file, hunks[0].id): Decision(True),
        (hunks[1].file, hunks[1].id): Decision(False, "too clever"),
    }
    earlier = {(hunks[2].file, hunks[2].id): (2, "not asked for")}
    shown = headings(diff(OLD, NEW, Marks(decided, earlier)))
    assert shown[0].endswith("✓ accepted")
    assert shown[1].endswith("✗ rejected: too clever")
    assert shown[2].endswith("! you rejected this in attempt 2: not asked for")


def test_a_missing_final_newline_is_said() -> None:
    drawn = diff({"a.py": b"x = 1\n"}, {"a.py": b"x = 1"}, Marks())
    assert "x = 1  (no newline at the end)" in plain(drawn.rows)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00bytes", b"a\x0cb\nc\n", b"\n\n\n", "ü\u2028x\n".encode()])
def test_any_bytes_can_be_compared(content: bytes) -> None:
    diff({"a.py": content}, {"a.py": content + b"more\n", "kernels/k.cu": content}, Marks())
    diff({"a.py": content}, {}, Marks())


def test_code_is_copied_without_its_line_numbers() -> None:
    rows = list(code_rows("x = 1\ny = 2\n", "a.py", messages={2: ["wrong"]}))
    assert [row.copied for row in rows] == ["x = 1", "y = 2", "wrong"]


# --- measurements --------------------------------------------------------------------------------------------------


def test_bars_are_to_scale_and_never_empty() -> None:
    assert bar(10, 10, 8) == "████████"
    assert bar(5, 10, 8) == "████"
    assert bar(0.001, 10, 8) == "▏"
    assert bar(20, 10, 8) == "████████"


def test_whiskers_show_interval_centre_and_where_one_is() -> None:
    assert whisker(2, 3, 4, start=0, end=6, width=7, mark_at=1) == " ┊├●┤  "
    assert whisker(1, 1, 1, start=1, end=1, width=3, mark_at=1)[0] == "●"


@pytest.mark.parametrize("width", [47, 58, 60, 79, 99, 140])
def test_the_table_fits_its_width_and_lines_up(state: SessionState, width: int) -> None:
    heading = table_heading(width).plain
    rows = [table_row(judged, width, best=judged is state.best()).content.plain for judged in state.attempts]
    assert max(len(row) for row in rows) <= width
    ends = heading.index("reward") + len("reward")
    assert [row[ends - 2 : ends].strip() for row in rows] == ["−1", "−1", "1", "3"]
    assert [row[0] for row in rows] == [" ", " ", " ", "★"]


def test_the_sparkline_crosses_out_what_was_wrong(state: SessionState) -> None:
    assert sparkline(state.attempts, 20) == "××▂█"
    assert sparkline(state.attempts, 2) == "▂█"


def test_an_outcome_names_the_part_that_failed(state: SessionState) -> None:
    first, second, _, fourth = (outcome(judged).plain for judged in state.attempts)
    assert first.startswith("#1 ✗ build The candidate does not compile")
    assert second.startswith("#2 ✗ verify The candidate's answer is wrong")
    assert fourth.startswith("#4 ✓ correct  13.2 µs  3.12× eager  1.18× compile")


@pytest.mark.parametrize("width", [40, 58, 100])
def test_a_verdict_shows_its_evidence(state: SessionState, width: int) -> None:
    failed, wrong, _, good = (" ".join(plain(verdict_rows(judged, width)).split()) for judged in state.attempts)
    assert 'kernels/residual_norm.cu:19 identifier "totl" is undefined' in failed
    assert "differs in 2,097,152 of" in wrong
    assert "own-kernels: calls no torch" in wrong
    assert "residual_norm" in good
    assert "13.2 µs" in good
    assert "3.12× [3.02, 3.21]" in good
    assert "plain copy" in good
    assert "over 5 placements" in good
    assert "5 of 5 cases agree" in good
    assert "measured today 20:27:28" in good


@pytest.mark.parametrize("width", [80, 120])
def test_what_a_gpu_shows_fits_and_what_needs_eyes_comes_first(state: SessionState, width: int) -> None:
    judged = state.attempts[-1]
    assert judged.verdict.profile is not None
    profile = replace(
        judged.verdict.profile,
        kernels=(KernelRun("residual_norm", 1, 13.1, 0.97, 40, 1024, 0, 2048, 256, 0.75),),
        graph_us=12.9,
        warm_us=11.0,
        copy_us=13.0,
        remarkable="10.5 times the best baseline needs your own eyes",
    )
    check = TaskCheck("tf32", ("x",), ("bias",))
    rows = verdict_rows(replace(judged, verdict=replace(judged.verdict, profile=profile, task_check=check)), width)
    text = plain(rows)
    assert all(row.content.cell_length <= width for row in rows)
    assert text.index("needs your own eyes") < text.index("candidate")
    assert "replayed as a CUDA graph" in text
    assert "the end of the" in text
    assert "75%" in text
    assert "the original ignores bias" in text


def test_a_baseline_that_was_not_timed_says_why(state: SessionState) -> None:
    profile = state.attempts[3].verdict.profile
    assert profile is not None
    baselines = {**profile.baselines, "compile": Baseline("default", None, error="took too long to compile")}
    changed = replace(profile, baselines=baselines, disturbed="another process used the GPU")
    verdict = replace(state.attempts[3].verdict, profile=changed, reward=None)
    shown = plain(verdict_rows(replace(state.attempts[3], verdict=verdict), 80))
    assert "not timed: took too long to compile" in shown
    assert "disturbed: another process used the GPU" in shown
    assert "reward –" in shown


# --- the stream ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 80])
def test_every_block_fits_folded_and_wraps_its_words(state: SessionState, width: int) -> None:
    for block in state.blocks:
        rows = block_rows(block, width, expanded=False, judged=state.attempts[3])
        assert rows
        assert max(row.content.cell_length for row in rows) <= width


def test_a_call_shows_more_when_it_is_opened(state: SessionState) -> None:
    call = next(block for block in state.blocks if isinstance(block, Call) and block.name == "Edit")
    assert plain(block_rows(call, 60, expanded=False)).strip().startswith("✓  Edit blocks.py +5 −5")
    opened = plain(block_rows(call, 90, expanded=True))
    assert "-         summed = x + residual" in opened
    assert "+         out = torch.empty_like(x)" in opened
    assert "│ Edited blocks.py." in opened


def test_a_call_that_is_written_shows_how_it_grows() -> None:
    call = Call(
        0.0, "live-0", "Write", raw='{"file_path": "k.cu", "content": "one\\ntwo\\nthree\\nfour', status="writing"
    )
    shown = plain(block_rows(call, 60, expanded=False))
    assert "Write" in shown
    assert "55 characters" in shown
    assert shown.split("\n")[-1].strip() == "four"


def test_summaries_say_what_a_call_does() -> None:
    assert summary("Bash", {"command": "ls -l"}) == "ls -l"
    assert summary("Read", {"file_path": "a.py", "offset": 10, "limit": 5}) == "a.py from line 10, 5 lines"
    assert summary("TodoWrite", {"todos": [{"content": "x", "status": "in_progress"}]}) == "0 of 1 done; now: x"
    assert summary("Unknown", {"a": 1}) == "a=1"
    assert summary("Bash", {"_raw": "{broken"}).startswith("cannot be read")


def test_unread_steering_says_so() -> None:
    assert "not read yet" in plain(block_rows(Said(0.0, "you", "go on", read=False), 40, expanded=False))
    assert "not read yet" not in plain(block_rows(Said(0.0, "you", "go on"), 40, expanded=False))


# --- the lines at the top ------------------------------------------------------------------------------------------


def test_the_activity_follows_the_state(state: SessionState) -> None:
    assert activity(state, 0.0)[0][0] == "■ The agent is done"
    assert activity(SessionState(), 0.0)[0][0] == "◌ starting the engine"
    assert activity(SessionState(ready=True), 0.0)[0][0] == "○ ready"
    assert activity(SessionState(cut_off=True, ready=True), 0.0)[0][0] == "○ cut off"
    assert activity(SessionState(lost=True), 0.0)[0][0] == "✗ the engine is gone"
    at_work = SessionState(running=True, turn=3, turn_limit=9)
    assert activity(at_work, 5.0)[1][0] == "turn 3/9"
    for name in ("Profile", "Read"):
        fold(at_work, events.ToolStarted(call_id=name, name=name, arguments={}))
    assert activity(at_work, 5.0)[2][0].startswith("Profile "), "whose result comes first is waited for"


def test_what_does_not_fit_into_a_line_is_cut_where_enough_of_it_is_left() -> None:
    pieces = [("● running", ""), ("profile: waiting for another session", ""), ("turn 3/9", "")]
    assert joined(pieces, 30, cut=True).plain == "● running · profile: waiting …"
    assert joined(pieces, 23, cut=True).plain == joined(pieces, 30).plain == "● running"


def test_what_is_judged_ahead_is_told_beside_the_thinking_and_with_the_check_that_takes_it() -> None:
    state = SessionState(running=True)
    fold(state, events.StageAhead(part="verify", text="3 of 5 cases"))
    assert joined(activity(state, 0.0), 56).plain == "● running · thinking 0.0 s · judging ahead: verify"
    fold(state, events.StageAhead(part=events.JUDGED, text="2.10× eager"))
    assert "judged ahead: 2.10× eager" in joined(activity(state, 0.0), 56).plain
    fold(state, events.ToolStarted(call_id="c", name="Check", arguments={"tier": "quick"}))
    fold(state, events.JudgedAhead(seconds=6.2, taken=True))
    assert "quick · was judged ahead for 6.2 s" in plain(block_rows(state.blocks[0], 60, expanded=False))
    assert not any("ahead" in text for text, _ in activity(state, 0.0))
    fold(state, events.StageAhead(part="build", text="one kernel"))
    fold(state, events.JudgedAhead(seconds=0.4, taken=False))
    assert state.ahead is None


def test_without_a_problem_nothing_is_shown() -> None:
    assert problem_rows(None, 80) == []


def test_a_disturbed_attempt_without_times_shows_none(state: SessionState) -> None:
    profile = state.attempts[3].verdict.profile
    assert profile is not None
    nothing = replace(profile, device_us=0.0, speedup={}, samples={}, disturbed="other programs kept the CPU busy")
    verdict = replace(state.attempts[3].verdict, profile=nothing, reward=None, reason="The environment is at fault.")
    judged = replace(state.attempts[3], verdict=verdict)
    assert outcome(judged).plain == "#4 ✓ correct, not timed  The environment is at fault."
    assert "0.0" not in table_row(judged, 100, best=False).content.plain
    shown = plain(verdict_rows(judged, 80))
    assert "! disturbed: other programs kept the CPU busy" in shown
    assert "µs" not in shown


@pytest.mark.parametrize("width", [30, 47])
def test_a_long_paragraph_wraps_as_if_it_came_at_once(width: int) -> None:
    words = [f"word{number}" for number in range(900)]
    rows = markdown_rows(" ".join(words), width)
    assert " ".join(row.content.plain for row in rows).split() == words
    assert max(len(row.content.plain) for row in rows) <= width
    assert all(
        len(row.content.plain) + len(next(iter(after.content.plain.split()))) >= width for row, after in pairwise(rows)
    )


def test_rows_of_a_growing_paragraph_are_the_very_same() -> None:
    text = " ".join(f"word{number}" for number in range(900))
    before, after = markdown_rows(text, 47, 2), markdown_rows(text + " and more", 47, 2)
    assert sum(one is other for one, other in zip(before, after, strict=False)) > len(before) * 0.8


def test_what_is_known_of_a_profile_stays_on_one_row_while_it_is_taken() -> None:
    state = SessionState()
    fold(state, events.ToolStarted(call_id="c", name="Check", arguments={"tier": "full"}))
    fold(state, events.StageEvent(part="verify", text="verifying"))
    fold(state, events.StageEvent(part="profile", text="placement 1 of 5"))
    before = block_rows(state.blocks[0], 90, expanded=False)
    known = {"placement": 1, "of": 5, "device_us": 12.34, "speedup": {"eager": 1.42, "compile": 1.1, "best": 0.98}}
    fold(state, events.StageEvent(part="profile", text="placement 1 of 5: 12.3 us, 1.42 times eager", partial=known))
    told = block_rows(state.blocks[0], 90, expanded=False)
    fold(state, events.StageEvent(part="profile", text="placement 2 of 5"))
    after = block_rows(state.blocks[0], 90, expanded=False)
    assert len(told) == len(after) == len(before) + 1
    assert told[-1].content.plain.split() == [
        "●○○○○",
        "12.3",
        "µs",
        "1.42×",
        "eager",
        "1.10×",
        "compile",
        "0.98×",
        "best",
    ]
    assert told[-1].content.plain == after[-1].content.plain
    assert [rows[-2].content.plain.strip() for rows in (told, after)] == [
        "profile placement 1 of 5",
        "profile placement 2 of 5",
    ]
    assert all(row.content.cell_length <= 30 for row in block_rows(state.blocks[0], 30, expanded=False))
    told_in_full = "".join(row.content.plain for row in block_rows(state.blocks[0], 90, expanded=True))
    assert "●○○○○" in told_in_full


def test_stages_of_an_older_session_know_of_no_early_results() -> None:
    event = events.from_json({"type": "stage", "part": "profile", "text": "placement 1 of 5"})
    assert event == events.StageEvent(part="profile", text="placement 1 of 5")
    assert events.to_json(event)["partial"] == {}
