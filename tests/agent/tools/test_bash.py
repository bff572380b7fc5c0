import asyncio
import re
import secrets
import time
from pathlib import Path

import psutil
import pytest

from agent.tools import workspace_tools
from sandbox.isolation import best_isolation, probe
from sandbox.isolation.limits import ResourceLimits
from sandbox.workspace import Workspace

from .conftest import REFERENCE, Hands


@pytest.fixture
def nap() -> str:
    """A duration for ``sleep`` that no other test uses, so that its process can be told from all others."""
    return f"1000.{secrets.randbelow(10**12):012d}"


def alive(marker: str) -> list[int]:
    """Return the processes whose command line holds a marker."""
    running = (
        each for each in psutil.process_iter(["cmdline", "status"]) if each.info["status"] != psutil.STATUS_ZOMBIE
    )
    return [each.pid for each in running if marker in " ".join(each.info["cmdline"] or [])]


async def test_folder_variables_and_functions_stay(hands: Hands) -> None:
    assert await hands.done("Bash", command="pwd") == str(hands.folder)
    await hands.done("Bash", command="cd kernels\nexport A=1\nb=2\nf() { echo f$1; }")
    assert await hands.done("Bash", command="pwd; echo $A$b; f 3") == f"{hands.folder}/kernels\n12\nf3"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("printf 'no newline'", "no newline"),
        ("printf 'a\\0\\377b'", "a\0\ufffdb"),
        ("true", "[no output]"),
        ("cat; read x; echo read $?", "read 1"),
        ("echo out; echo err >&2", "out\nerr"),
        ("(exit 3)", "[exit status 3]"),
        ("echo \"it's\"; cat <<'E'\n$x \\n\nE", "it's\n$x \\n"),
        ("sh -c 'kill -SEGV $$'; echo $?", "139"),
        ("ls /proc/self/fd | wc -l", "4"),
    ],
)
async def test_commands_of_every_kind_end_where_they_end(hands: Hands, command: str, text: str) -> None:
    result = await hands.use("Bash", command=command)
    assert result.text.replace("Segmentation fault\n", "").endswith(text)
    assert await hands.done("Bash", command="echo next") == "next"


async def test_a_command_that_does_not_parse_fails_alone(hands: Hands) -> None:
    await hands.done("Bash", command="a=1")
    for command in ("echo 'x", "if true", "x=(", "}"):
        assert "exit status" in await hands.refused("Bash", command=command)
    assert await hands.done("Bash", command="echo $a") == "1"


async def test_redirecting_the_shell_itself_hides_nothing_from_the_next(hands: Hands) -> None:
    await hands.done("Bash", command="exec >/tmp/hidden; echo x; exec 2>&-")
    assert await hands.done("Bash", command="cat /tmp/hidden; echo err >&2") == "x\nerr"


async def test_a_shell_that_ends_is_replaced_and_the_model_told(hands: Hands) -> None:
    for command, how in (("a=1; exit 7", "status 7"), ("a=1; kill -KILL $$", "signal 9"), ("exec false", "status 1")):
        text = await hands.refused("Bash", command=command)
        assert how in text
        assert "new shell" in text
        assert await hands.done("Bash", command="echo [$a]; pwd") == f"[]\n{hands.folder}"


async def test_a_time_limit_stops_a_command_with_everything_it_started(hands: Hands, nap: str) -> None:
    await hands.done("Bash", command="true")
    text = await hands.refused("Bash", command=f"echo begun; setsid sleep {nap} & sleep {nap}", timeout_seconds=2)
    assert text.startswith("begun\n[stopped after 2 s")
    assert alive(nap) == []
    assert await hands.done("Bash", command="echo next") == "next"


async def test_a_cancelled_command_leaves_nothing_behind(hands: Hands, nap: str) -> None:
    await hands.done("Bash", command="true")
    task = asyncio.create_task(hands.use("Bash", command=f"sleep {nap}"))
    while not alive(nap):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(nap) == []
    assert await hands.done("Bash", command="echo next") == "next"


async def test_closing_leaves_nothing_behind_and_can_be_done_twice(hands: Hands, nap: str) -> None:
    await hands.done("Bash", command=f"setsid sleep {nap} & disown")
    await hands.done("Bash", command=f"sleep {nap}", run_in_background=True)
    while not alive(nap):
        await asyncio.sleep(0.01)
    hands.all.close()
    hands.all.close()
    assert alive(nap) == []


async def test_a_gigabyte_of_output_is_read_and_not_kept(hands: Hands) -> None:
    memory = psutil.Process().memory_info
    before = memory().rss
    result = await hands.use("Bash", command="echo first; yes | head -c 1000000000; echo last")
    assert memory().rss - before < 50_000_000
    assert result.text.startswith("first\n")
    assert result.text.endswith("last")
    assert result.full is not None
    assert re.search(r"999,6\d\d,\d\d\d bytes were not kept", result.full)


async def test_output_of_jobs_left_behind_is_shown_with_the_next_command(hands: Hands) -> None:
    later = "(until [ -e kernels/go ]; do sleep 0.01; done; echo late) & echo now"
    assert await hands.done("Bash", command=later) == "now"
    assert await hands.done("Bash", command="touch kernels/go; wait; echo then") == "late\nthen"


async def test_commands_are_run_one_after_the_other(hands: Hands) -> None:
    both = await asyncio.gather(hands.done("Bash", command="sleep 0.2; echo a"), hands.done("Bash", command="echo b"))
    assert both == ["a", "b"]


async def test_a_background_command_is_watched_and_ends_by_itself(hands: Hands) -> None:
    await hands.done("Bash", command="cd kernels; x=5")
    command = 'pwd; echo "it\'s $x" >&2; until [ -e /tmp/go ]; do sleep 0.01; done; exit 4'
    assert "bash_1" in await hands.done("Bash", command=command, run_in_background=True)
    text = ""
    while "it's 5" not in text:
        text += await hands.done("BashOutput", bash_id="bash_1")
    assert "is running" in text
    assert f"{hands.folder}/kernels\n" in text
    await hands.done("Bash", command="touch /tmp/go")
    while "ended with status 4" not in text:
        text = await hands.done("BashOutput", bash_id="bash_1")
    assert "it's" not in text
    assert "already" in await hands.refused("KillBash", bash_id="bash_1")


async def test_a_background_command_is_killed(hands: Hands, nap: str) -> None:
    await hands.done("Bash", command=f"sleep {nap} & sleep {nap}", run_in_background=True)
    while not alive(nap):
        await asyncio.sleep(0.01)
    assert await hands.done("KillBash", bash_id="bash_1") == "bash_1 was killed."
    assert "was killed" in await hands.done("BashOutput", bash_id="bash_1")
    deadline = time.monotonic() + 60
    while alive(nap) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert alive(nap) == []


async def test_a_chatty_background_command_goes_on_and_its_log_ends(hands: Hands) -> None:
    command = "yes | head -c 50000000; touch /tmp/done"
    await hands.done("Bash", command=command, run_in_background=True)
    await hands.done("Bash", command="until [ -e /tmp/done ]; do sleep 0.01; done")
    assert len((await hands.use("BashOutput", bash_id="bash_1")).text) < 20_000
    assert int(await hands.done("Bash", command="du -skx /tmp | cut -f1")) < 20_000


async def test_background_commands_end_with_their_shell_and_the_model_is_told(hands: Hands) -> None:
    await hands.done("Bash", command="sleep 1000", run_in_background=True)
    assert "new shell" in await hands.done("Bash", command="exit")
    assert "was lost" in await hands.refused("BashOutput", bash_id="bash_1")
    assert "was lost" in await hands.refused("KillBash", bash_id="bash_1")
    assert "Known are: bash_1" in await hands.refused("BashOutput", bash_id="bash_2")


async def test_settings_of_the_shell_do_not_break_the_tools(hands: Hands) -> None:
    await hands.done("Bash", command="set -eum; PATH=/nowhere; head() { :; }; kill() { :; }; TMPDIR=/nowhere")
    assert "could not be started" in await hands.refused("Bash", command="echo x", run_in_background=True)
    await hands.done("Bash", command="unset TMPDIR")
    await hands.done("Bash", command="echo hello", run_in_background=True)
    text = ""
    while "hello" not in text:
        text = (await hands.use("BashOutput", bash_id="bash_1")).text
    assert await hands.done("Bash", command="echo still here") == "still here"


async def test_the_shell_sees_the_workspace_and_not_the_keys(
    hands: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if best_isolation().name != "namespaces":
        pytest.skip("namespaces are refused here")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    (tmp_path / "secret").write_text("planted")
    assert "planted" not in (await hands.use("Bash", command=f"env; cat {tmp_path}/secret")).text
    text = (await hands.use("Bash", command="echo x >> model.py; rm -f model.py; echo y > .git/config; ls /dev")).text
    assert "Read-only" in text
    assert "nvidia" not in text
    assert (hands.folder / "model.py").read_text() == REFERENCE
    assert "y" not in (hands.folder / ".git" / "config").read_text().split()


async def test_git_works_in_the_shell(hands: Hands) -> None:
    await hands.done("Bash", command="echo '# new' >> model_new.py")
    assert await hands.done("Bash", command="git status --short") == " M model_new.py"
    assert "+# new" in await hands.done("Bash", command="git diff")


async def test_files_pass_between_shell_and_file_tools(hands: Hands) -> None:
    await hands.done("Write", file_path="kernels/new/a.cpp", content="int main() { return 0; }\n")
    await hands.done("Bash", command="sed -i s/0/3/ kernels/new/a.cpp; touch kernels/new/b")
    await hands.done("Edit", file_path="kernels/new/a.cpp", old_string="3", new_string="5")
    assert "exit status 5" in await hands.refused("Bash", command="g++ kernels/new/a.cpp -o /tmp/a && /tmp/a")
    await hands.done("Bash", command="rm -r kernels/new")


async def test_a_shell_that_dies_between_commands_is_replaced(hands: Hands) -> None:
    await hands.done("Bash", command="(until [ -e kernels/go ]; do sleep 0.01; done; kill -KILL $$) & a=1")
    (hands.folder / "kernels" / "go").touch()
    text = "[1]"
    while text == "[1]":
        await asyncio.sleep(0.5)
        text = (await hands.use("Bash", command="echo [$a]")).text
    assert text == "[]" or "new shell" in text


@pytest.mark.parametrize("name", ["limits", pytest.param("docker", marks=pytest.mark.docker)])
async def test_the_shell_works_in_the_other_isolations(workspace: Workspace, nap: str, name: str) -> None:
    if reason := probe(name):
        pytest.skip(reason)
    isolation = best_isolation("docker") if name == "docker" else ResourceLimits()
    hands = Hands(workspace_tools(workspace, isolation, print), workspace, [])
    try:
        await hands.done("Bash", command="cd kernels; x=1")
        for number in range(20):
            assert await hands.done("Bash", command=f"echo {number} $x >&2; echo end") == f"{number} 1\nend"
        assert await hands.done("Bash", command="pwd; touch a.cu") == f"{hands.folder}/kernels"
        assert (hands.folder / "kernels/a.cu").exists()
        assert "bash_1" in await hands.done("Bash", command="echo hello", run_in_background=True)
        await hands.refused("Bash", command=f"setsid sleep {nap} & sleep {nap}", timeout_seconds=1)
        assert alive(nap) == []
    finally:
        hands.all.close()
