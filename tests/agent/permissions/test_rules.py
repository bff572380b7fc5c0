"""What rules fit, and how a call is decided by mode, rules and what was allowed before."""

from __future__ import annotations

import pytest

from agent.permissions.approvals import Approvals
from agent.permissions.modes import MODES, Rules, decide, next_mode
from agent.permissions.question import saved_rule
from agent.permissions.rules import covers, first_fit, parse_rule


def rules(*texts):
    return tuple(map(parse_rule, texts))


@pytest.mark.parametrize(
    ("rule", "command", "fits"),
    [
        ("Bash(git push *)", "git push", True),
        ("Bash(git push *)", "git push origin main", True),
        ("Bash(git push *)", "git pushy", False),
        ("Bash(git push *)", "cd /tmp && git  push -f", True),
        ("Bash(git push *)", "echo $(git push)", True),
        ("Bash(git push *)", "echo `git push`", True),
        ("Bash(git push *)", "GIT_DIR=x git push", True),
        ("Bash(git push *)", "git \\\npush", True),
        ("Bash(rm build/\\*)", "rm build/x", False),
        ("Bash(rm build/\\*)", "rm build/*", True),
        ("Bash", "anything", True),
        ("*", "anything", True),
        ("Write", "touch x", False),
    ],
)
def test_a_rule_that_denies_fits_any_part_of_a_command(rule, command, fits):
    assert (first_fit(rules(rule), "Bash", {"command": command}) is not None) == fits


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("ls -l", True),
        ("ls && git log -3", True),
        ("ls; rm x", False),
        ("ls\nrm x", False),
        ("ls | tee x", False),
        ("ls > shifted.py", False),
        ("ls $(rm x)", False),
        ("ls `rm x`", False),
        ("X=1 ls", False),
        ("ls & rm x", False),
    ],
)
def test_a_rule_that_allows_has_to_cover_all_of_a_command(command, allowed):
    assert covers(rules("Bash(ls *)", "Bash(git log *)"), "Bash", {"command": command}) == allowed


def test_write_stands_for_every_tool_that_changes_a_file():
    rule = rules("Write(kernels/**)")
    for tool in ("Write", "Edit", "MultiEdit"):
        assert covers(rule, tool, {"file_path": "./kernels/deep/a.cu"})
        assert not covers(rule, tool, {"file_path": "shifted.py"})
    assert not covers(rule, "Read", {"file_path": "kernels/a.cu"})


@pytest.mark.parametrize("text", ["", "Bash(", "Bash()x", "not a rule", "Write([z-a])"])
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(ValueError, match="is no rule"):
        parse_rule(text)


@pytest.mark.parametrize("command", ["make -j2 && ls *.cu", "echo $HOME > x", "g++ -O2 a.cpp"])
def test_the_rule_that_is_kept_for_a_command_allows_exactly_that_command(command):
    rule = parse_rule(str(saved_rule("Bash", {"command": command})))
    assert covers((rule,), "Bash", {"command": command})
    assert not covers((rule,), "Bash", {"command": f"{command} x"})
    assert not covers((rule,), "Bash", {"command": command.replace("*", "more")}) or "*" not in command


CALLS = {
    "Read": ({"file_path": "a"}, True),
    "Write": ({"file_path": "a"}, False),
    "Bash": ({"command": "ls"}, False),
    "Check": ({}, False),
    "Unheard": ({}, False),
}


@pytest.mark.parametrize(
    ("mode", "effects"),
    [
        ("auto", ["allow", "allow", "allow", "allow", "allow"]),
        ("ask", ["allow", "ask", "ask", "allow", "allow"]),
        ("read-only", ["allow", "deny", "deny", "allow", "deny"]),
    ],
)
def test_what_each_mode_does(mode, effects):
    found = [decide(mode, Rules(), (), tool, a, read_only=ro).effect for tool, (a, ro) in CALLS.items()]
    assert found == effects


def test_deny_wins_over_ask_and_ask_over_allow_and_over_what_was_allowed_before():
    call = ("Bash", {"command": "git push"})
    every = Rules(allow=rules("Bash(git *)"), ask=rules("Bash(git push *)"), deny=rules("Bash(git push -f *)"))
    for mode in ("auto", "ask"):
        assert decide(mode, every, rules("Bash(git push)"), *call, read_only=False).effect == "ask"
        denied = decide(mode, every, (), "Bash", {"command": "git push -f"}, read_only=False)
        assert denied.effect == "deny"
        assert "Bash(git push -f *)" in denied.why
    assert decide("ask", every, (), "Bash", {"command": "git log"}, read_only=False).effect == "allow"
    loose = Rules(allow=rules("*"))
    assert decide("read-only", loose, rules("Bash"), *call, read_only=False).effect == "deny"


def test_modes_go_round():
    mode = "auto"
    seen = [mode := next_mode(mode) for _ in MODES]
    assert sorted(seen) == sorted(MODES)
    assert mode == "auto"


def test_what_is_allowed_for_good_is_kept_by_project_outside_of_it(tmp_path):
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    Approvals(tmp_path / "home", project).add(parse_rule("Bash(make *)"))
    Approvals(tmp_path / "home", project).add(parse_rule("Write(kernels/**)"))
    assert Approvals(tmp_path / "home", project).rules() == list(rules("Bash(make *)", "Write(kernels/**)"))
    assert Approvals(tmp_path / "home", other).rules() == []
    assert list(project.iterdir()) == []
    (tmp_path / "home" / "approvals.json").write_text('{"' + str(project) + '": ["Bash(", 3, "Check"]}')
    assert Approvals(tmp_path / "home", project).rules() == [parse_rule("Check")]
    (tmp_path / "home" / "approvals.json").write_text("{")
    assert Approvals(tmp_path / "home", project).rules() == []
