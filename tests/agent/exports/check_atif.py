"""Validate exported documents with the models that ATIF is published as.

    python3.12 -m venv /tmp/atif && /tmp/atif/bin/pip install harbor
    warpsmith sessions export --all --format atif --out sessions.jsonl
    /tmp/atif/bin/python tests/agent/exports/check_atif.py sessions.jsonl

Needs Python 3.12 and the package ``harbor``, and nothing of ours.
"""

import json
import sys
from pathlib import Path

from harbor.models.trajectories import Trajectory


def main(paths: list[str]) -> None:
    for path in paths:
        for line in Path(path).read_text().splitlines():
            document = Trajectory.model_validate(json.loads(line), strict=True)
            if document.to_json_dict() != json.loads(line):
                raise SystemExit(f"{document.trajectory_id}: something was lost on the way through the models")
            calls = sum(len(step.tool_calls or ()) for step in document.steps)
            results = sum(len(step.observation.results) for step in document.steps if step.observation)
            print(f"{document.trajectory_id}: {len(document.steps)} steps, {calls} calls, {results} results: valid")


if __name__ == "__main__":
    main(sys.argv[1:])
