"""The cell that workers are forked in: what it is made of, who is in it, and what is said where it cannot be had."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import psutil
import pytest

from sandbox.errors import EnvironmentFault
from sandbox.house import House, house_of
from sandbox.isolation import Isolation, best_isolation, interpreter_paths, probe
from sandbox.judge import Judge
from sandbox.judge_limits import JudgeLimits
from sandbox.task import TaskSpec
from sandbox.wire import HARNESS
from sandbox.zygote import Zygote
from tests.sandbox.judge.conftest import LIMITS
from tests.scale_task import write_candidate, write_task


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def in_a_house(isolation: Isolation, spec: TaskSpec, work: Path) -> House:
    found = house_of(isolation, spec, work, (*interpreter_paths(spec.python), spec.root, HARNESS), JudgeLimits())
    assert found is not None
    return found


@pytest.fixture(scope="module")
def containers() -> Isolation:
    if reason := probe("docker"):
        pytest.skip(f"docker: {reason}")
    return best_isolation("docker")


@pytest.fixture(scope="module")
def judge(containers: Isolation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    folder = tmp_path_factory.mktemp("house")
    with Judge(
        write_task(folder), isolation=containers, cache=folder / "cache", scratch=folder / "scratch", limits=LIMITS
    ) as opened:
        yield opened


def zygote_of(judge: Judge) -> Zygote:
    assert judge._crew is not None
    judge._crew.open()
    assert judge._crew._zygote is not None
    return judge._crew._zygote


def own_namespaces(pid: int) -> set[str]:
    """Return the namespaces that a process does not share with this one."""
    names = ("ipc", "mnt", "net", "pid", "uts")
    return {name for name in names if namespace(pid, name) != namespace(os.getpid(), name)}


def owner(pid: int) -> tuple[int, int]:
    about = Path(f"/proc/{pid}/status").read_text()
    return (int(about.partition("Uid:")[2].split()[0]), int(about.partition("Gid:")[2].split()[0]))


def namespace(pid: int, name: str) -> Path:
    return Path(f"/proc/{pid}/ns/{name}").readlink()


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestContainer:
    def test_it_has_nothing_that_it_does_not_need(self, judge: Judge) -> None:
        keeper = zygote_of(judge)._process.process.pid
        (container,) = docker.from_env().containers.list(filters={"label": f"warpsmith.process={keeper}"})
        had = container.attrs["HostConfig"]
        assert (had["NetworkMode"], had["CapDrop"], had["ReadonlyRootfs"]) == ("none", ["ALL"], True)
        assert (had["IpcMode"], had["PidMode"], had["Privileged"]) == ("private", "", False)
        assert had["PidsLimit"] > 0
        assert 0 < had["Memory"] < psutil.virtual_memory().total
        assert "no-new-privileges" in had["SecurityOpt"]
        writable = [each["Destination"] for each in container.attrs["Mounts"] if each["RW"]]
        assert sorted(Path(each).name.split("-")[-2 if "door" in each else 0] for each in writable) == [
            "door",
            "written",
        ]

    def test_workers_are_in_it_without_rights(self, judge: Judge) -> None:
        crew = judge._crew
        assert crew is not None
        worker = crew.start_worker([], None, {})
        try:
            zygote = zygote_of(judge)
            assert own_namespaces(zygote.pid) == {"ipc", "mnt", "net", "pid", "uts"}
            payload = worker.family()[-1]
            assert namespace(payload, "pid") == namespace(zygote.pid, "pid")
            status = dict(line.split(":\t", 1) for line in Path(f"/proc/{payload}/status").read_text().splitlines())
            assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb")} == {0}
            assert int(status["Seccomp_filters"]) >= 2, "the engine's filter, and ours"
            worker.finish()
        finally:
            worker.stop()

    def test_what_workers_leave_goes_with_the_last_of_them(self, judge: Judge) -> None:
        crew = judge._crew
        assert crew is not None
        workers = [crew.start_worker([], None, {}) for _ in range(2)]
        inside = Path(f"/proc/{zygote_of(judge).pid}/root")
        left = [inside / "dev/shm/left", inside / "tmp/left"]
        for path in left:
            path.mkdir()
            (path / "file").write_text("left")
            for each in (path, path / "file"):
                os.chown(each, *owner(zygote_of(judge).pid))
        workers[0].stop()
        assert all(path.exists() for path in left)
        workers[1].stop()
        assert not any(path.exists() for path in left)
        assert crew._house is not None
        assert crew._house.cell.writable[0].exists()

    def test_a_judge_goes_on_in_another_where_it_is_killed(self, judge: Judge, tmp_path: Path) -> None:
        zygote = zygote_of(judge)
        psutil.Process(zygote.pid).kill()
        zygote._process.process.wait(30)
        assert judge.check(write_candidate(tmp_path / "right")).correct
        assert zygote_of(judge).pid != zygote.pid

    def test_all_of_it_goes_with_whoever_keeps_it(self, judge: Judge) -> None:
        zygote = zygote_of(judge)
        crew = judge._crew
        assert crew is not None
        worker = crew.start_worker([], None, {})
        members = [psutil.Process(pid) for pid in (zygote.pid, worker.pid, *worker.family())]
        keeper = zygote._process.process.pid
        zygote.stop()
        assert psutil.wait_procs(members, timeout=10)[1] == []
        assert docker.from_env().containers.list(all=True, filters={"label": f"warpsmith.process={keeper}"}) == []

    def test_a_gpu_that_the_engine_cannot_hand_out_is_said(self, containers: Isolation, work: Path) -> None:
        if "nvidia" in docker.from_env().info().get("Runtimes", {}):
            pytest.skip("this engine can hand out GPUs")
        spec = replace(write_task(work), device="cuda:0")
        with pytest.raises(EnvironmentFault, match="nvidia-container-toolkit"):
            in_a_house(containers, spec, work).start("zygote", spec.python, {}, {})

    def test_what_does_not_come_up_is_said_with_what_to_do(self, containers: Isolation, work: Path) -> None:
        spec = write_task(work)
        with pytest.raises(EnvironmentFault, match="it ended with status 1") as raised:
            in_a_house(containers, spec, work).start("zygote", Path("/usr/bin/false"), {}, {})
        assert "--isolation" in raised.value.next_step


def test_an_isolation_on_this_machine_needs_none(work: Path) -> None:
    spec = write_task(work)
    assert house_of(best_isolation(), spec, work, (), JudgeLimits()) is None


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
def test_a_candidates_library_is_shown_alone(containers: Isolation, work: Path) -> None:
    house = in_a_house(containers, write_task(work), work)
    for name in ("first.so", "second.so"):
        (work / name).write_text(name)
    house.show(work / "first.so")
    shown = house.show(work / "second.so")
    assert [path.read_text() for path in shown.parent.iterdir()] == ["second.so"]
