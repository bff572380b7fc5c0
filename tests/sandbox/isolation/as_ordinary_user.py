"""Run a program as an ordinary user, as root: ``python as_ordinary_user.py CELL PROGRAM [ARGUMENT...]``.

The interpreter may lie where only root looks, so it gets the root of a cell, given as JSON; but nothing else of one: it may make
namespaces, as a user of a plain machine may.
"""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "sandbox/harness"))

from warpsmith_harness import linux, private_root


def main(cell: dict, argv: list[str]) -> None:
    linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWPID)
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    private_root.build(cell, cell["user"])
    os.setgroups([])
    os.setresgid(*[cell["user"]] * 3)
    os.setresuid(*[cell["user"]] * 3)
    linux.signal_when_parent_dies(signal.SIGKILL)
    os.chdir(cell["cwd"])
    os.execve(argv[0], argv, cell["env"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
