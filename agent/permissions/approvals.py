"""What the developer allowed for good: rules by project, in a file of the developer's own, outside every project."""

from __future__ import annotations

import json
from pathlib import Path

from agent.permissions.rules import Rule, parse_rule
from agent.store import write_atomically

APPROVALS = "approvals.json"


class Approvals:
    """The saved rules of one project.

    Args:
        home: The folder of the developer's data (``Settings.home``).
        project: Root of the developer's project.
    """

    def __init__(self, home: Path, project: Path) -> None:
        self._file = home / APPROVALS
        self._project = str(project.resolve())

    def rules(self) -> list[Rule]:
        """Return what is allowed in this project; what cannot be read allows nothing."""
        kept = self._read().get(self._project, [])
        rules = []
        for text in kept if isinstance(kept, list) else []:
            try:
                rules.append(parse_rule(str(text)))
            except ValueError:
                continue
        return rules

    def add(self, rule: Rule) -> None:
        """Allow this in the project from now on."""
        everything = self._read()
        known = [str(each) for each in self.rules()]
        everything[self._project] = [*known, *([] if str(rule) in known else [str(rule)])]
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._file, json.dumps(everything, indent=1).encode())

    def _read(self) -> dict[str, object]:
        try:
            data = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}
