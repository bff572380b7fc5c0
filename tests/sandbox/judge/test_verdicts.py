"""What becomes of a candidate: each is judged by real processes, and none may touch the next verdict."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

import psutil
import pytest

from sandbox.errors import UsageError
from sandbox.judge import Judge
from sandbox.snapshot import digest, read_candidate
from sandbox.verdict import Verdict
from tests.conftest import skip_if_disturbed
from tests.scale_task import MODEL_NEW, Write, kernel


def assert_rejected(verdict: Verdict, *words: str) -> None:
    assert verdict.reward == -1
    assert verdict.profile is None
    for word in words:
        assert word in verdict.reason


@pytest.mark.alone
def test_a_right_candidate_is_timed_beside_the_baselines(judge: Judge, candidate: Write) -> None:
    folder = candidate()
    verdict = judge.check(folder)
    assert verdict.correct, verdict.reason
    assert verdict.profile is not None
    skip_if_disturbed(verdict.profile.disturbed)
    assert verdict.reward in (1, 2)
    assert verdict.candidate_sha256 == digest(read_candidate(folder, judge.spec))
    assert set(verdict.profile.samples) == {"candidate", "eager", "copy"}
    assert all(len(placements) >= 2 and all(placements) for placements in verdict.profile.samples.values())
    assert verdict.profile.baselines["best"].mode == "eager"
    assert "not ready within 0 s" in verdict.profile.baselines["compile"].error
    assert [case.name for case in verdict.verify.cases][:3] == [f"fresh inputs {n}" for n in (1, 2, 3)]
    assert any(case.name == "a timed call" for case in verdict.verify.cases)
    assert verdict.seconds.total >= verdict.seconds.verify > 0
    assert Verdict.from_json(verdict.to_json()) == verdict


@pytest.mark.alone
def test_a_full_verdict_has_five_placements_and_harder_inputs(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(), "full")
    assert verdict.correct, verdict.reason
    assert verdict.profile is not None
    assert {"large inputs", "tiny inputs", "inputs with flipped signs"} <= {case.name for case in verdict.verify.cases}
    skip_if_disturbed(verdict.profile.disturbed)
    assert len(verdict.profile.samples["candidate"]) >= 5


def test_a_file_alone_is_judged_with_the_kernels_beside_it(judge: Judge, candidate: Write) -> None:
    assert judge.check(candidate() / "model_new.py").correct


def test_what_nobody_wants_timed_is_right_or_wrong_and_nothing_else(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(), "full", timed=False)
    assert verdict.correct, verdict.reason
    assert (verdict.reward, verdict.profile, verdict.seconds.profile) == (1, None, 0.0)
    assert {"large inputs", "tiny inputs"} <= {case.name for case in verdict.verify.cases}


def test_a_wrong_answer_is_not_timed(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(kernel().replace("? value : 0", "? value : 0.001f * value")))
    assert_rejected(verdict, "The candidate is at fault", "fresh inputs 1")
    assert verdict.build.ok
    assert verdict.guard.ok
    assert verdict.verify.cases[0].max_abs_error > 0


def test_what_does_not_compile_is_told_by_line_and_nothing_else_runs(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(kernel(before="int64_t rows = undeclared;")))
    assert_rejected(verdict, "undeclared")
    assert verdict.build.diagnostics[0].file.endswith("scale_add.cpp")
    assert verdict.build.diagnostics[0].line == 5
    assert verdict.guard is None
    assert verdict.verify is None


def test_a_candidate_without_its_file_is_a_usage_error(judge: Judge, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        judge.check(tmp_path)


def test_python_that_raises_is_told_with_its_line(judge: Judge, candidate: Write) -> None:
    python = MODEL_NEW.replace("out = torch.empty_like(x)", "out = torch.empty_like(self.missing)")
    assert_rejected(judge.check(candidate(python=python)), "missing", "model_new.py:12")


def test_a_crash_is_named_with_its_kernel(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(kernel(before="*(volatile int*)nullptr = 1;")))
    assert_rejected(verdict, "crashed with SIGSEGV in scale_add (model_new.py:13) while verifying")


def test_a_kernel_that_never_returns_is_killed(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(kernel(before="for (volatile int i = 0;;) i = 1 - i;")))
    assert_rejected(verdict, "did not finish within", "while verifying")


def test_leaving_the_process_with_success_is_no_answer(unguarded: None, judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(kernel(before="_exit(0);", includes="unistd.h")))
    assert_rejected(verdict, "ended its process with exit status 0 while verifying")


def test_printing_a_lot_neither_blocks_nor_fails(unguarded: None, judge: Judge, candidate: Write) -> None:
    before = """
      static bool told = false;
      static char line[1 << 20];
      memset(line, 'x', sizeof line);
      for (int i = 0; !told && i < 100; ++i) if (write(1, line, sizeof line) < 0) return 1;
      told = true;
    """
    verdict = judge.check(candidate(kernel(before=before, includes="cstring unistd.h")))
    assert verdict.correct, verdict.reason


def test_taking_all_memory_ends_the_candidate_alone(unguarded: None, judge: Judge, candidate: Write) -> None:
    before = """
      for (;;) {
        char* block = (char*)malloc(64 << 20);
        if (!block) return 1;
        memset(block, 1, 64 << 20);
      }
    """
    verdict = judge.check(candidate(kernel(before=before, includes="cstdlib cstring")))
    assert_rejected(verdict, "the candidate")


def test_a_daemon_does_not_outlive_its_verdict(unguarded: None, judge: Judge, candidate: Write) -> None:
    name = "ws" + uuid.uuid4().hex[:10]
    before = f"""
      if (fork() == 0) {{
        setsid();
        if (fork() == 0) {{ prctl(PR_SET_NAME, "{name}"); for (;;) sleep(1000); }}
        _exit(0);
      }}
    """
    judge.check(candidate(kernel(before=before, includes="sys/prctl.h unistd.h")))
    assert not [process for process in psutil.process_iter(["name"]) if process.info["name"] == name]


def test_a_fork_bomb_is_contained(unguarded: None, judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(kernel(before="for (;;) if (fork() < 0) usleep(1000);", includes="unistd.h")))
    assert_rejected(verdict, "while verifying")


def test_writing_to_an_input_is_found(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(kernel(after="const_cast<float*>(x)[3] += 1;")))
    assert_rejected(verdict, "mutation", "input 0")


def test_writing_to_a_parameter_is_found(judge: Judge, candidate: Write) -> None:
    verdict = judge.check(candidate(kernel(after="const_cast<float*>(w)[3] += 1;")))
    assert_rejected(verdict, "mutation", "weight")


def test_a_stale_answer_is_wrong(unguarded: None, judge: Judge, candidate: Write) -> None:
    before = """
      static float* saved = nullptr;
      if (saved) { memcpy(out, saved, n * d * sizeof(float)); return 0; }
    """
    after = "saved = (float*)malloc(n * d * sizeof(float)); memcpy(saved, out, n * d * sizeof(float));"
    assert_rejected(judge.check(candidate(kernel(before, after, "cstdlib cstring"))), "fresh inputs 2")


@pytest.mark.parametrize("before", ["return 0;", "n -= 1;"], ids=["all", "a row"])
def test_uninitialised_output_is_wrong(judge: Judge, candidate: Write, before: str) -> None:
    assert_rejected(judge.check(candidate(kernel(before=before))), "fresh inputs 1")


def test_an_answer_that_a_later_call_overwrites_is_found(judge: Judge, candidate: Write) -> None:
    python = MODEL_NEW.replace("out = torch.empty_like(x)", "out = self.out").replace(
        "self.weight = nn.Parameter(torch.ones(dim))",
        "self.weight = nn.Parameter(torch.ones(dim)); self.out = torch.empty(32, dim)",
    )
    assert_rejected(judge.check(candidate(python=python)), "reused-output")


def test_calls_that_differ_in_their_last_bits_are_right_and_said(
    unguarded: None, judge: Judge, candidate: Write
) -> None:
    after = "static int calls = 0; if (++calls % 2) out[0] = std::nextafter(out[0], 2.0f);"
    verdict = judge.check(candidate(kernel(after=after, includes="cmath")))
    assert verdict.correct, verdict.reason
    assert any("do not agree bit for bit; each is within the budget" in note for note in verdict.verify.notes)
    right = judge.check(candidate())
    assert not any("bit for bit" in note for note in right.verify.notes)


def test_honest_until_it_is_timed(unguarded: None, judge: Judge, candidate: Write) -> None:
    """A kernel that counts its calls and stops working after the ones that look like a test."""
    verdict = judge.check(candidate(kernel(before="static int calls = 0; if (++calls > 12) return 0;")))
    assert verdict.reward == -1
    assert "a timed call" in verdict.reason


def test_a_check_that_is_no_longer_wanted_ends(judge: Judge, candidate: Write) -> None:
    cancel = threading.Event()
    timer = threading.Timer(1.5, cancel.set)
    timer.start()
    verdict = judge.check(candidate(kernel(before="for (volatile int i = 0;;) i = 1 - i;")), cancel=cancel)
    assert verdict.reward is None
    assert "interrupted" in verdict.reason
    assert judge.check(candidate()).correct
