"""The store: one writer, nothing lost but a torn line, blobs whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent import events as ev
from agent.store import BLOBS, EVENTS, NewerFormat, SessionBusy, SessionWriter, read_blob, read_events
from sandbox.errors import EnvironmentFault


def test_events_come_back_in_order_with_numbers_and_times(tmp_path):
    writer = SessionWriter(tmp_path)
    first, _ = writer.append(ev.Steered(text="one \ud800 µ\u2028"))
    writer.append(ev.RunEnded(reason=ev.EndReason.FINISHED))
    writer.close()
    stored = list(read_events(tmp_path))
    assert [item.n for item in stored] == [1, 2]
    assert stored[0] == first
    assert stored[1].event == ev.RunEnded(reason=ev.EndReason.FINISHED)


def test_a_torn_last_line_is_skipped_by_readers_and_cut_off_by_the_next_writer(tmp_path):
    writer = SessionWriter(tmp_path)
    for text in ("one", "two", "three"):
        writer.append(ev.Steered(text=text))
    writer.close()
    path = tmp_path / EVENTS
    path.write_bytes(path.read_bytes()[:-9])
    assert [item.event.text for item in read_events(tmp_path)] == ["one", "two"]
    again = SessionWriter(tmp_path)
    again.append(ev.Steered(text="four"))
    again.close()
    assert [(item.n, item.event.text) for item in read_events(tmp_path)] == [(1, "one"), (2, "two"), (3, "four")]


def test_a_last_line_that_lacks_only_its_newline_is_kept(tmp_path):
    writer = SessionWriter(tmp_path)
    writer.append(ev.Steered(text="one"))
    writer.close()
    path = tmp_path / EVENTS
    path.write_bytes(path.read_bytes()[:-1])
    again = SessionWriter(tmp_path)
    again.append(ev.Steered(text="two"))
    again.close()
    assert [(item.n, item.event.text) for item in read_events(tmp_path)] == [(1, "one"), (2, "two")]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_cutting_the_file_anywhere_loses_at_most_the_last_line(tmp_path, cut):
    writer = SessionWriter(tmp_path)
    for number in range(3):
        writer.append(ev.Steered(text=str(number)))
    writer.close()
    path = tmp_path / EVENTS
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    lines = whole[:-cut].count(b"\n") + (1 if cut == 1 else 0)
    SessionWriter(tmp_path).close()
    assert len(list(read_events(tmp_path))) == lines


def test_unknown_types_and_newer_fields_are_skipped_with_a_warning(tmp_path):
    known = {"n": 1, "time": 1.0, "type": "steered", "text": "hello", "mood": "new field"}
    lines = [known, {"n": 2, "time": 1.0, "type": "hologram"}, {**known, "n": 3}]
    (tmp_path / EVENTS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.warns(NewerFormat, match="hologram"):
        stored = list(read_events(tmp_path))
    assert [item.n for item in stored] == [1, 3]


def test_infinite_numbers_become_null_so_that_every_line_is_strict_json(tmp_path):
    writer = SessionWriter(tmp_path)
    writer.append(ev.OriginalProfiled(profile={"error": float("inf"), "times": [[1.0, float("nan")]]}))
    writer.close()
    line = json.loads((tmp_path / EVENTS).read_text(), parse_constant=lambda name: pytest.fail(name))
    assert line["profile"] == {"error": None, "times": [[1.0, None]]}


def test_a_second_writer_is_refused_and_named_the_holder_until_the_holder_dies(tmp_path):
    code = "import sys, time; from pathlib import Path; from agent.store import SessionWriter\n"
    code += "w = SessionWriter(Path(sys.argv[1])); print('open', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(SessionBusy, match=f"process {holder.pid}"):
            SessionWriter(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        SessionWriter(tmp_path).close()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def test_blobs_are_named_by_their_hash_and_damage_is_noticed(tmp_path):
    writer = SessionWriter(tmp_path)
    sha256 = writer.blob(b"kernel")
    assert writer.blob(b"kernel") == sha256
    assert read_blob(tmp_path, sha256) == b"kernel"
    (tmp_path / "blobs" / sha256).write_bytes(b"kern")
    with pytest.raises(EnvironmentFault, match="damaged"):
        read_blob(tmp_path, sha256)
    with pytest.raises(EnvironmentFault):
        read_blob(tmp_path, "0" * 64)
    writer.close()


FULL = """
import resource, signal, sys
from pathlib import Path
from agent import events as ev
from agent.store import EVENTS, SessionWriter
from sandbox.errors import EnvironmentFault
folder = Path(sys.argv[1])
writer = SessionWriter(folder)
writer.append(ev.Steered(text="fits"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ((folder / EVENTS).stat().st_size + 40,) * 2)
for write in (lambda: writer.append(ev.Steered(text="x" * 500)), lambda: writer.blob(b"y" * 5000)):
    try:
        write()
    except EnvironmentFault as fault:
        print(fault)
"""


def test_a_disk_that_takes_no_more_is_a_fault_of_the_environment_and_nothing_is_corrupt(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.count("The session cannot be written") == 2
    assert (tmp_path / EVENTS).read_bytes().endswith(b"\n")
    assert list((tmp_path / "blobs").iterdir()) == []
    writer = SessionWriter(tmp_path)
    writer.append(ev.Steered(text="room again"))
    writer.close()
    assert [item.event.text for item in read_events(tmp_path)] == ["fits", "room again"]


def test_what_nobody_could_make_again_is_flushed_to_the_disk(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), real(file)))
    writer = SessionWriter(tmp_path)
    writer.append(ev.StageEvent(part="build", text="compiling"))
    assert synced == []
    writer.append(ev.HunkRejected(attempt=1, file="a.py", hunk="1", reason="no"))
    assert len(synced) == 1
    writer.close()


def test_a_folder_without_events_reads_as_empty(tmp_path: Path):
    assert list(read_events(tmp_path)) == []


def test_what_a_killed_process_had_begun_to_write_is_swept_by_the_next_writer(tmp_path: Path) -> None:
    begin = "import os, sys; from pathlib import Path; from agent import store; Path.replace = lambda *_: os._exit(9)"
    write = f"{begin}\nstore.write_atomically(Path(sys.argv[1]), b'half')"
    (tmp_path / BLOBS).mkdir()
    targets = [tmp_path / "session.json", tmp_path / BLOBS / ("0" * 64)]
    for target in targets:
        assert subprocess.run([sys.executable, "-c", write, target], check=False).returncode == 9
    ours = tmp_path / f".session.json.{os.getpid()}.tmp"
    ours.write_bytes(b"being written")
    assert len([*tmp_path.rglob(".*.tmp")]) == 3
    SessionWriter(tmp_path).close()
    assert [*tmp_path.rglob(".*.tmp")] == [ours]
