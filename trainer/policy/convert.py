"""``python -m trainer.policy.convert FILE.gguf FOLDER``: a model from one quantised file to a folder that can be trained.

The file's weights are dequantised once, and written as transformers writes a model, with the file's tokenizer and template.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from sandbox.errors import EnvironmentFault, UsageError, WarpsmithError

_DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def convert(source: Path, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write the model of a GGUF file as a folder with safetensors.

    Args:
        source: The file.
        folder: Made if it does not exist; what it holds of a model is written over.
        dtype: What the weights are stored in.

    Raises:
        UsageError: There is no such file.
        EnvironmentFault: The package that reads such files is not installed.
    """
    if not source.is_file():
        raise UsageError("There is no such file.", where=str(source), next_step="Name a .gguf file.")
    if importlib.util.find_spec("gguf") is None:
        raise EnvironmentFault(
            "Reading a .gguf file needs the package gguf.",
            where=sys.executable,
            next_step="Install it: pip install gguf",
        )
    logging.disable_progress_bar()
    where = {"gguf_file": source.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(source.parent, **where)
    read = AutoModelForCausalLM.from_pretrained(source.parent, dtype=dtype, **where)
    # A model read from such a file counts as quantised and refuses to be saved: its weights go into one that does not.
    settings = read.config.to_dict()
    settings.pop("quantization_config", None)
    plain = AutoModelForCausalLM.from_config(type(read.config).from_dict(settings), dtype=dtype)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> int:
    """Convert what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m trainer.policy.convert", description=__doc__)
    parser.add_argument("source", type=Path, metavar="FILE.gguf")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--dtype", choices=sorted(_DTYPES), default="bfloat16")
    options = parser.parse_args()
    try:
        convert(options.source, options.folder, _DTYPES[options.dtype])
    except WarpsmithError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
