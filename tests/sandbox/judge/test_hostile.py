"""Modules that attack the judge: what they reach is seen from outside, and the next verdict is as right as ever.

The static guard looks away, so that isolation and the design are what is tested; what it says itself comes last.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.isolation import best_isolation, probe
from sandbox.judge import Judge
from sandbox.verdict import Verdict
from sandbox.wire import HARNESS
from tests.sandbox.judge.conftest import LIMITS
from tests.scale_task import MODEL_NEW, Write, kernel, write_candidate, write_task

SECRET = f"planted-{uuid.uuid4().hex}"
Check = Callable[..., Verdict]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A developer's home with keys in it, and another session's folder."""
    folder = tmp_path_factory.mktemp("home")
    for name in (".ssh/id_rsa", ".config/tool/credentials", "notes.txt", "sessions/other/events.jsonl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SECRET)
    return folder


@pytest.fixture(
    scope="module",
    params=[pytest.param("", id="best"), pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.long])],
)
def attacked(request: pytest.FixtureRequest, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    if request.param and (reason := probe(request.param)):
        pytest.skip(f"{request.param}: {reason}")
    folder = tmp_path_factory.mktemp("attacked")
    spec = write_task(folder)
    for place in (spec.root / ".env", folder / "cache/other", folder / "scratch/judge-other/model.py"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(SECRET)
    limits = replace(LIMITS, call_seconds=4.0, quick=replace(LIMITS.quick, cases=2, placements=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("SOME_API_KEY", SECRET)
        patch.setenv("SOME_ADDRESS", f"https://user:{SECRET}@example.org")
        isolation = best_isolation(request.param)
        judge = Judge(spec, isolation=isolation, cache=folder / "cache", scratch=folder / "scratch", limits=limits)
        with judge:
            yield judge


@pytest.fixture
def check(unguarded: None, attacked: Judge, tmp_path: Path) -> Check:
    """Judge a candidate, then a right one: whatever the first did, the second is right."""

    def judged(python: str = MODEL_NEW, source: str | None = None) -> Verdict:
        verdict = attacked.check(write_candidate(tmp_path / "hostile", source, python))
        after = attacked.check(write_candidate(tmp_path / "right"))
        assert after.correct, after.reason
        assert SECRET not in json.dumps(verdict.to_json())
        return verdict

    return judged


def module(load: str = "", call: str = "", then: str = "") -> str:
    """The right module with something in front, and in its call before and behind its work."""
    text = MODEL_NEW.replace("import torch\n", f"import torch\n{textwrap.dedent(load)}\n", 1)
    lines = [("        out = torch", call, "        out = torch"), ("        return out", then, "        return out")]
    for place, added, rest in lines:
        text = text.replace(place, textwrap.indent(textwrap.dedent(added).strip(), " " * 8) + f"\n{rest}", 1)
    return text


def rejected(verdict: Verdict, *words: str) -> None:
    assert verdict.reward == -1, verdict.reason
    assert verdict.reason.startswith("The candidate is at fault"), verdict.reason
    for word in words:
        assert word in verdict.reason


# --- what it may not read -----------------------------------------------------------------------------------------

LOOK = '''
import ctypes, os, re

PATTERN = re.compile(b"planted-[0-9a-f]{32}")

def read(path, most=1 << 20):
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(most)
    except OSError:
        return b""

def memory(pid):
    """Everything that is written in a process's memory and not in a file."""
    for line in read(f"/proc/{pid}/maps").decode().splitlines():
        span, rights, _, _, inode, *name = line.split(None, 5)
        start, end = (int(each, 16) for each in span.split("-"))
        if rights.startswith("rw") and inode == "0" and end - start < 1 << 28:
            try:
                with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
                    file.seek(start)
                    yield file.read(end - start)
            except (OSError, OverflowError, ValueError):
                pass

def trace(pid):
    """Tell whether a process can be attached to; it would stand still from then on."""
    return ctypes.CDLL(None).ptrace(16, int(pid), None, None) == 0

def look(paths, pids):
    """Return in how many ways the secret was found."""
    found = {"file": [path for path in paths if PATTERN.search(read(path))]}
    names = [name for name in os.listdir("/proc") if name.isdigit()]
    found["environment"] = [pid for pid in {*names, *pids} if PATTERN.search(read(f"/proc/{pid}/environ"))]
    found["variable"] = [name for name, value in os.environb.items() if PATTERN.search(value)]
    found["descriptor"] = [fd for fd in os.listdir("/proc/self/fd") if PATTERN.search(read(f"/proc/self/fd/{fd}", 0))]
    found["memory"] = [pid for pid in {*pids, str(os.getpid()), str(os.getppid())} if any(map(PATTERN.search, memory(pid)))]
    return {way: where for way, where in found.items() if where}
'''


def test_a_planted_key_is_nowhere_to_be_read(check: Check, attacked: Judge, home: Path) -> None:
    crew = attacked._crew
    assert crew is not None
    assert crew._zygote is not None
    folder = attacked.spec.root.parent
    places = [
        path for root in (home, folder) for path in root.rglob("*") if path.is_file() and "judge-" not in str(path)
    ]
    places.append(folder / "scratch/judge-other/model.py")
    pids = [str(pid) for pid in (os.getpid(), crew.bench.pid, crew._zygote.pid)]
    arguments = f"look({[str(path) for path in places]!r}, {pids!r})"
    asked = [sys.executable, "-c", f"{LOOK}\nprint({arguments})"]
    outside = subprocess.run(asked, capture_output=True, text=True, check=True, env={"SOME_API_KEY": SECRET})
    for way in ("file", "environment", "variable"):
        assert way in outside.stdout, "what looks for the key finds it where nothing is in its way"
    tracing = f"[pid for pid in {pids!r} if trace(pid)]"
    looking = module(
        f"{LOOK}\nFOUND = {arguments}, {tracing}", then="if any(FOUND): raise RuntimeError(f'found: {FOUND}')"
    )
    verdict = check(looking)
    assert verdict.correct, verdict.reason


def test_it_holds_no_descriptor_of_anything_but_its_channel_and_shared_memory(check: Check) -> None:
    looking = """
        import os
        names = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        links = [os.readlink(name) for name in names if os.path.lexists(name)]
        left = [link for link in links if not link.startswith(("pipe:", "socket:", "/memfd:warpsmith", "/dev/null", "/proc/"))]
        assert not left and sum(link.startswith("socket:") for link in links) == 1, links
    """
    verdict = check(module(call=looking))
    assert verdict.correct, verdict.reason


# --- whom it may not reach ----------------------------------------------------------------------------------------


def test_no_connection_and_no_signal_arrives_and_nobody_is_slowed_down(check: Check, attacked: Judge) -> None:
    crew = attacked._crew
    assert crew is not None
    assert crew._zygote is not None
    others = (os.getpid(), crew.bench.pid, crew._zygote.pid)

    def rights() -> list[tuple[object, ...]]:
        bounds = [Path(f"/proc/{pid}/limits").read_text() for pid in others]
        return [
            (pid, os.sched_getaffinity(pid), os.getpriority(os.PRIO_PROCESS, pid), bound)
            for pid, bound in zip(others, bounds, strict=True)
        ]

    having = rights()
    name = f"hostile-{uuid.uuid4().hex[:8]}"
    signals: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: signals.append(number))
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        named, abstract = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        path = str(Path("/tmp") / f"{name}.sock")
        stack.callback(Path(path).unlink)
        for each, address in ((named, path), (abstract, f"\0{name}")):
            each.bind(address)
            each.listen()
        stream, datagram = int(socket.SOCK_STREAM), int(socket.SOCK_DGRAM)
        addresses = [
            (int(socket.AF_INET), stream, tcp.getsockname()),
            (int(socket.AF_INET), datagram, udp.getsockname()),
            (int(socket.AF_UNIX), stream, path),
            (int(socket.AF_UNIX), stream, f"\0{name}"),
        ]
        calling = f"""
            import os, resource, socket
            def call(family, kind, address):
                try:
                    with socket.socket(family, kind) as caller:
                        caller.settimeout(2)
                        caller.connect(address)
                        caller.send(b"stolen")
                except OSError:
                    pass
            for family, kind, address in {addresses!r}:
                call(family, kind, address)
            own = {{os.getpid(), os.getppid()}}
            seen = {{int(name) for name in os.listdir("/proc") if name.isdigit()}}
            for pid in sorted({{*{others}, *seen}} - own):
                for change in (
                    lambda: os.kill(pid, {int(signal.SIGUSR1)}),
                    lambda: os.sched_setaffinity(pid, {{0}}),
                    lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
                    lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3)),
                ):
                    try:
                        change()
                    except OSError:
                        pass
        """
        verdict = check(module(call=calling))
        assert verdict.correct, verdict.reason
        assert rights() == having
        for listener in (tcp, named, abstract):
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()
        udp.setblocking(False)
        with pytest.raises(BlockingIOError):
            udp.recv(16)
    signal.signal(signal.SIGUSR1, before)
    assert signals == []


# --- what it may not write ----------------------------------------------------------------------------------------


def test_nothing_of_the_developers_and_of_the_judges_can_be_written(check: Check, attacked: Judge, home: Path) -> None:
    assert attacked._work is not None
    check()
    files = [home / "notes.txt", attacked.spec.path, HARNESS / "main.py", HARNESS / "warpsmith_harness" / "compare.py"]
    files += [path for path in attacked._cache.rglob("*") if path.is_file() and "work" not in path.parts]
    files += attacked._work.rglob("*.py")
    folders = sorted({path.parent for path in files})

    def seen() -> dict[str, str]:
        told = {
            str(path): f"{path.stat().st_mode} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files[:4]
        }
        return told | {
            str(folder): " ".join(sorted(path.name for path in folder.iterdir()))
            for folder in folders[:40]
            if folder.exists()
        }

    before = seen()
    writing = f"""
        import contextlib, os
        for path in {[str(path) for path in files]!r}:
            for change in (
                lambda: open(path, "ab").write(b"x"), lambda: os.chmod(path, 0o777), lambda: os.truncate(path, 0),
                lambda: os.rename(path, path + ".gone"), lambda: os.unlink(path),
                lambda: os.symlink("/etc/passwd", path + ".link"), lambda: open(path + ".new", "w").write("x"),
            ):
                with contextlib.suppress(OSError):
                    change()
    """
    verdict = check(module(call=writing))
    assert verdict.correct, verdict.reason
    after = seen()
    assert {name: told for name, told in after.items() if before[name] != told and "candidate" not in name} == {}


# --- what it may not replace --------------------------------------------------------------------------------------

DELEGATING = "out.copy_(torch.relu(x * self.weight + y))"
PATCHES = {
    "the watch on operators": "watch.OperatorWatch.__torch_dispatch__ = lambda s, f, t, a=(), k=None: f(*a, **(k or {}))",
    "what turns operators into findings": "watch.delegation = lambda *_: []",
    "what surrounds a call": "watch.call_watched = lambda call, *_: (*watch.values.flatten(call()), [])",
    "a function's code": "f = lambda computed, policy: []; watch.delegation.__code__ = f.__code__",
    "a function's memory": "f = lambda computed, policy: []; ctypes.memmove(id(watch.delegation) + 16, id(f) + 16, 80)",
    "a clock of the harness": "timing.Stopwatch.device = lambda *_: ([0.01], None)",
    "a clock of Python": "time.perf_counter_ns = lambda kept=[0]: kept.append(kept[-1] + 1) or kept[-1]",
    "a clock of torch": "torch.cuda.Event.elapsed_time = lambda *_: 0.001",
    "what sends": "Channel.send = lambda s, m, d=(), send=Channel.send: send(s, {**m, 'findings': []}, d)",
    "what compares": "import warpsmith_harness.compare as compare; compare.compare = lambda *_, **__: True",
    "a method of tensors": "torch.Tensor.clone = lambda s, **_: s",
    "a helper that the program may look for": "import __main__; __main__.flush = lambda *_: None",
}
REACHED = """
import ctypes, gc, json, time
from warpsmith_harness import timing, watch
from warpsmith_harness.protocol import Channel
"""


@pytest.mark.parametrize("patch", PATCHES)
def test_what_is_replaced_in_its_own_process_is_found(check: Check, patch: str) -> None:
    rejected(
        check(module(f"{REACHED}\n{PATCHES[patch]}", then=DELEGATING)), "tampering", "replaced code of the judge's"
    )


def test_what_is_replaced_later_by_a_thread_is_found(check: Check) -> None:
    later = "import threading\ntimer = threading.Timer(0.01, lambda: setattr(watch, 'delegation', lambda *_: []))"
    waiting = "if not timer.is_alive() and not timer.finished.is_set(): timer.start()\ntimer.join()"
    rejected(check(module(REACHED + later, call=waiting, then=DELEGATING)), "tampering")


def test_symbols_of_the_c_library_cannot_be_taken_over(check: Check) -> None:
    clock = 'extern "C" int clock_gettime(int, void*) { return 0; }\n'
    rejected(check(source=clock + kernel()), "clock_gettime")


def test_a_signal_handler_that_ends_it_is_no_answer(check: Check) -> None:
    ending = """
        import os, signal
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        signal.pause()
    """
    rejected(check(module(call=ending)), "exit status 0")


# --- for whom it may not answer -----------------------------------------------------------------------------------

CHANNEL = '''
import json, os, stat, struct, sys, threading, time
from warpsmith_harness.protocol import signature

def channel():
    """Find the socket among the descriptors."""
    for number in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                return number
        except OSError:
            pass

def request():
    """Find what the worker was asked, among its frames."""
    frame = sys._getframe()
    while "request" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["request"]

def send(message):
    if "id" in message:
        message = {**message, "signature": signature(message, message["id"])}
    body = json.dumps(message).encode()
    write(struct.pack(">I", len(body)) + body)

def write(data):
    while data:
        data = data[os.write(channel(), data):]

EMPTY = {"findings": [], "notes": [], "structure": None, "outputs": [], "touched": [], "absent": []}
PROBLEM = {"what": "cudaIpcOpenMemHandle failed", "where": "", "traceback": ""}
'''
FORGED = {
    "an answer before it is asked": "send({**EMPTY, 'id': 1})",
    "an answer without a number": "send(EMPTY)",
    "another answer to what was asked": "send({**EMPTY, 'id': request()['id']})",
    "two answers, both right in form": "send({**EMPTY, 'id': request()['id']}); send({**EMPTY, 'id': request()['id']})",
    "times that are none": "if request()['op'] == 'time': send({'id': request()['id'], 'us': [float('nan')] * 64})",
    "times without end": "if request()['op'] == 'time': send({'id': request()['id'], 'us': [1e999] * 64})",
    "junk": r"write(b'\0\0\0\x10' + b'{' * 16)",
    "data without end": "while True: send({**EMPTY, 'id': 1})",
    "an answer to another request": "request()['id'] ^= 1",
    "a problem that is none": "send({'id': request()['id'], 'problem': [1, 2]})",
    "findings that are none": "send({**EMPTY, 'id': request()['id'], 'findings': [None]})",
}


@pytest.mark.parametrize("forged", FORGED)
def test_an_answer_in_the_workers_place_is_found(check: Check, forged: str) -> None:
    rejected(check(module(CHANNEL, call=FORGED[forged])), "result-channel")


def test_an_answer_while_loading_is_found(check: Check) -> None:
    rejected(check(module(f"{CHANNEL}\nsend({{'threads': 1, 'id': 1}})")), "result-channel")


def test_a_machine_that_is_blamed_in_the_workers_place_is_asked_itself(check: Check) -> None:
    blaming = "send({'id': request()['id'], 'problem': {**PROBLEM, 'kind': 'transport'}}); time.sleep(60)"
    rejected(check(module(CHANNEL, call=blaming)), "one without the candidate shares it")


@pytest.mark.parametrize(
    ("silence", "words"),
    [
        ("threading.Thread(target=lambda: os.read(channel(), 1 << 20), daemon=True).start(); time.sleep(0.1)", ""),
        ("if os.fork() == 0: time.sleep(60)\nos._exit(0)", "exit status 0"),
        ("os.close(channel()); time.sleep(60)", "closed its channel"),
        ("import signal; os.kill(os.getpid(), signal.SIGSTOP)", "was stopped (SIGSTOP)"),
    ],
    ids=["requests are swallowed", "a child keeps the channel", "the channel is closed", "it stops itself"],
)
def test_silence_is_no_answer(check: Check, silence: str, words: str) -> None:
    rejected(check(module(CHANNEL, call=silence)), words or "did not finish within")


def test_a_worker_that_reads_nothing_does_not_stop_the_judge() -> None:
    from sandbox.wire import Channel, ChannelTimeout, pair

    ours, theirs = pair()
    with pytest.raises(ChannelTimeout):
        Channel(ours).send({"inputs": "x" * (8 << 20)}, timeout=0.2)
    theirs.close()


# --- what the static guard says of it ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "python",
    [
        module("import os", call="open('/tmp/out', 'w').write(str(dict(os.environ)))"),
        module("import socket", call="socket.create_connection(('127.0.0.1', 1))"),
        module(f"{REACHED}\n{PATCHES['what sends']}"),
        module(CHANNEL, call=FORGED["an answer without a number"]),
    ],
    ids=["reads and writes", "connects", "replaces", "answers"],
)
def test_the_static_guard_stops_it_before(attacked: Judge, candidate: Write, python: str) -> None:
    verdict = attacked.check(candidate(python=python))
    rejected(verdict, "the guard rejects it")
    assert verdict.verify is None
