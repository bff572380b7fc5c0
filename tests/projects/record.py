"""Runs a script with its module calls recorded: ``record.py FOLDER module:Class[,module:Class...] SCRIPT``.

A recorder of a few lines, for the interpreter of the package that is looked at.
"""

from __future__ import annotations

import sys
from pathlib import Path

from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sandbox" / "harness"))

from recorder.capture import Capture
from recorder.constructors import note_constructors

folder, classes, script = sys.argv[1:4]
note_constructors()
capture = Capture(Path(folder), classes.split(","), 1 << 30)
register_module_forward_pre_hook(lambda module, args: capture.before(module, args))
register_module_forward_hook(lambda module, args, output: capture.after(module, output), always_call=True)
sys.argv[:], __file__ = [script], script
exec(compile(Path(script).read_text(), script, "exec"))
for key, place in capture.finish(classes.split(",")).items():
    print(f"{key}\t{place}")
