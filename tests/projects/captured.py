"""Captures modules of real packages from small scripts of their normal use, and judges each as its own candidate.

    python -m tests.projects.captured --python VENV [--device cuda] [--only llama]

VENV is an environment with torch, torchvision, timm, transformers, torch-geometric and diffusers; scripts whose package is
missing are passed over, visibly. Every module must be correct, with reward 1 or more: it is the original. Exit code 0: all are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

CAPTURED = {
    "llama": ["transformers.models.llama.modeling_llama:LlamaRMSNorm", "transformers.models.llama.modeling_llama:LlamaMLP",
              "transformers.models.llama.modeling_llama:LlamaDecoderLayer"],
    "gpt2": ["transformers.activations:NewGELUActivation", "transformers.models.gpt2.modeling_gpt2:GPT2MLP"],
    "convnext": ["timm.layers.norm:LayerNorm2d", "timm.models.convnext:ConvNeXtBlock"],
    "detector": ["torchvision.ops.misc:FrozenBatchNorm2d", "torchvision.ops.misc:SqueezeExcitation"],
    "diffusion": ["diffusers.models.resnet:ResnetBlock2D", "diffusers.models.activations:GEGLU"],
    "graph": ["torch_geometric.nn.conv.gcn_conv:GCNConv", "torch_geometric.nn.conv.gat_conv:GATConv", "__main__:Net"],
}  # fmt: skip
"""Classes of each script of ``scripts/`` that become tasks."""


def main() -> int:
    """Record and judge, and print one line a class."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, metavar="VENV")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", choices=sorted(CAPTURED))
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="warpsmith-captured-") as folder:
        for script in [options.only] if options.only else CAPTURED:
            places = record(script, options.python / "bin" / "python", Path(folder) / script)
            for key, place in places.items():
                said, passed = judged(place, options.device)
                failed += not passed
                print(f"{'ok  ' if passed else 'FAIL'} {script:10} {key:60} {said}", flush=True)
    return 1 if failed else 0


def record(script: str, python: Path, folder: Path) -> dict[str, Path]:
    """Run a script under the recorder; return the capture of each class, none where its package is missing."""
    folder.mkdir()
    command = [str(python), str(HERE / "record.py"), str(folder), ",".join(CAPTURED[script])]
    ran = subprocess.run(
        [*command, str(HERE / "scripts" / f"{script}.py")], cwd=folder, capture_output=True, text=True, check=False
    )
    if "ModuleNotFoundError" in ran.stderr:
        print(f"-    {script:10} passed over: {ran.stderr.strip().splitlines()[-1]}", flush=True)
        return {}
    if ran.returncode:
        raise SystemExit(f"{script}.py fails:\n{ran.stderr}")
    lines = [line.split("\t") for line in ran.stdout.splitlines() if "\t" in line]
    return {key: Path(place) for key, place in lines}


def judged(capture: Path, device: str) -> tuple[str, bool]:
    """Judge the captured module as its own candidate; return what to say, and whether that is as it must be."""
    manifest = json.loads((capture / "manifest.json").read_text())
    if manifest["refused"]:
        return f"{manifest['refused']} {manifest['next_step']}", False
    command = [sys.executable, "-c", "import sys; from app.cli import main; sys.exit(main())", "check"]
    options = ["--capture", str(capture), "--policy", "library-ok", "--device", device, "--json"]
    ran = subprocess.run([*command, *options, manifest["file"]], cwd=ROOT, capture_output=True, text=True, check=False)
    if not ran.stdout.strip():
        return " ".join(ran.stderr.strip().splitlines()[-3:]), False
    verdict = json.loads(ran.stdout.strip().splitlines()[-1])
    correct = bool(verdict["verify"] and verdict["verify"]["ok"] and verdict["guard"]["ok"])
    disturbed = verdict["reward"] is None and correct
    note = "not timed, the machine is busy" if disturbed else verdict["reason"]
    return f"reward {verdict['reward']}: {note}", correct and (disturbed or verdict["reward"] >= 1)


if __name__ == "__main__":
    sys.exit(main())
