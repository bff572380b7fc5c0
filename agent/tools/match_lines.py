"""The matcher process of Grep: a request on standard input, ``{file: [line numbers]}`` on standard output."""

from __future__ import annotations

import json
import re
import sys


def matching_lines(pattern: re.Pattern[str], text: str, *, multiline: bool) -> list[int]:
    """Return the numbers of the lines at which a match begins."""
    if multiline:
        return sorted({text.count("\n", 0, match.start()) + 1 for match in pattern.finditer(text)})
    return [number for number, line in enumerate(text.split("\n"), 1) if pattern.search(line.rstrip("\r"))]


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    pattern = re.compile(request["pattern"], request["flags"])
    found = {
        file: lines
        for file, text in request["texts"].items()
        if (lines := matching_lines(pattern, text, multiline=request["multiline"]))
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
