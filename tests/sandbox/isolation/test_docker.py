"""What only containers promise, and what is said without an engine."""

import socket
import time
from pathlib import Path

import docker
import psutil
import pytest

from sandbox.errors import EnvironmentFault
from sandbox.isolation import Cell, Isolation, best_isolation, probe
from sandbox.isolation.docker import Docker

from .conftest import MakeRoom, Room, make_docker


@pytest.fixture
def containers(make_room: MakeRoom) -> Room:
    return make_room(make_docker)


@pytest.mark.docker
def test_nothing_outside_is_seen_or_written(containers: Room, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("planted")
    kept = containers.folder / ".git"
    kept.mkdir()
    script = f"cat {tmp_path}/secret; ls /home; echo x > /x; echo x > .git/x; ls -A /root"
    _, text = containers.run("sh", "-c", script, readable=(kept,))
    assert "planted" not in text
    assert text.count("Read-only") == 2
    assert list(kept.iterdir()) == []


@pytest.mark.docker
def test_there_is_no_network(containers: Room) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        assert "ConnectionRefusedError" in containers.python(code)[1]


@pytest.mark.docker
def test_keys_in_readable_folders_are_hidden(containers: Room, tmp_path: Path) -> None:
    for name in ("project/.env", "project/.ssh/id_rsa"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("planted")
    script = f"cd {tmp_path}/project && cat .env && ls .ssh"
    assert containers.run("sh", "-c", script, readable=(tmp_path / "project",)) == (0, "")


@pytest.mark.docker
def test_a_gpu_that_cannot_be_had_is_explained(containers: Room) -> None:
    if "nvidia" in docker.from_env().info().get("Runtimes", {}):
        pytest.skip("this engine can hand out GPUs")
    with pytest.raises(EnvironmentFault, match="nvidia-container-toolkit"):
        containers.run("true", gpu=True)


@pytest.mark.docker
def test_what_runs_in_it_is_known_outside(containers: Room) -> None:
    process = containers.start("sleep", "1000")
    while not process.inside:
        time.sleep(0.05)
    (below,) = psutil.Process(process.inside).children()
    assert below.name() == "sleep"
    containers.isolation.kill(process)
    assert not below.is_running()


@pytest.mark.docker
def test_no_container_is_left(containers: Room) -> None:
    process = containers.start("sleep", "1000")
    label = {"label": f"warpsmith.process={process.pid}"}
    assert len(docker.from_env().containers.list(filters=label)) == 1
    containers.isolation.kill(process)
    assert docker.from_env().containers.list(all=True, filters=label) == []


@pytest.mark.docker
def test_containers_are_used_where_they_are_asked_for(containers: Room) -> None:
    chosen = best_isolation("docker")
    assert (chosen.name, probe("docker")) == ("docker", "")
    assert (chosen.workers, chosen.holds_zygote) == ("docker", True)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Isolation:
    monkeypatch.setenv("DOCKER_HOST", f"unix:///tmp/{tmp_path.name}.sock")
    return Docker()


def test_a_missing_engine_is_said(nowhere: Isolation) -> None:
    with pytest.raises(EnvironmentFault, match=r"no Docker engine answers at .*: "):
        nowhere.popen(["true"], Cell((), (), Path("/")))


def test_something_else_behind_the_socket_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.getsockname()[1]}")
        server.close()
        with pytest.raises(EnvironmentFault, match=r"no Docker engine answers at .*: "):
            Docker().popen(["true"], Cell((), (), Path("/")))
