"""A process that speaks the engine's protocol from a recorded session: says its events, and records what it is told.

    python fake_engine.py SESSION_FOLDER [--from N] [--pause SECONDS] [--die STATUS] [--deltas N]

It waits for ``run`` before it tells the events from number N on, and answers the developer's decisions as the engine
does. Every command it receives is appended to ``SESSION_FOLDER/commands.jsonl``. With ``--deltas`` it first streams that
many words as fast as a model would (200 a second).
"""

import argparse
import json
import sys
import time
from pathlib import Path

ANSWERS = {
    "accept": "hunk_accepted",
    "reject": "hunk_rejected",
    "steer": "steered",
    "interrupt": "interrupted",
    "set_mode": "mode_changed",
    "answer_permission": "permission_answered",
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--from", dest="start", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--die", type=int)
    parser.add_argument("--deltas", type=int, default=0)
    options = parser.parse_args()
    lines = (options.folder / "events.jsonl").read_text().splitlines()[options.start - 1 :]
    number = options.start - 1 + len(lines)
    say({"type": "engine_ready", "session": "1", "folder": str(options.folder)})
    heard = (options.folder / "commands.jsonl").open("a")
    for line in sys.stdin:
        heard.write(line)
        heard.flush()
        command = json.loads(line)
        if command["type"] == "close":
            return 0
        if command["type"] == "run":
            if options.die is not None:
                print("Traceback: the disk is on fire", file=sys.stderr, flush=True)
                return options.die
            stream(options.deltas)
            for event in lines:
                time.sleep(options.pause)
                print(event, flush=True)
        elif command["type"] in ANSWERS:
            number += 1
            answer = {key: value for key, value in command.items() if key != "type"}
            if command["type"] == "answer_permission":
                answer["decision"] = "reject" if command["scope"] == "reject" else "allow"
            say({"n": number, "time": time.time(), "type": ANSWERS[command["type"]], **answer})
    return 0


def stream(deltas: int) -> None:
    for number in range(deltas):
        text = "\n\n" if number % 60 == 59 else f"word{number} "
        say({"type": "delta", "turn": 99, "kind": "text", "text": text, "call": None, "name": ""})
        time.sleep(1 / 200)


def say(event: dict) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    sys.exit(main())
