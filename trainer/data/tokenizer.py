"""Tokenizers of policies, read from a folder on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a policy's folder, as its ``tokenizer.json`` has it; nothing is ever fetched.

    Unlike ``AutoTokenizer`` this loads no torch.

    Raises:
        UsageError: The folder holds none that can be read.
    """
    from transformers import PreTrainedTokenizerFast

    next_step = "Name the folder of a policy, with the files of its tokenizer."
    if not folder.is_dir():
        raise UsageError("There is no such folder.", where=str(folder), next_step=next_step)
    try:
        tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # files of somebody else's, read by somebody else's code
        why = str(error).partition("\n")[0]
        raise UsageError(f"No tokenizer can be read here: {why}", where=str(folder), next_step=next_step) from error
    return tokenizer
