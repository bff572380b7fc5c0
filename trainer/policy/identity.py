"""Which weights, which tokenizer, which template: what tells whether a policy wrote the token ids that it is to learn from."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import UsageError

TOKENIZER = "tokenizer.json"
_TOKENIZER_FILES = (TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
_WEIGHTS_SHOWN = 16


@dataclass(frozen=True)
class Hashes:
    """What a policy is known by.

    Attributes:
        weights: A name that changes whenever the weights do: for those of a folder, the start of the hash of its files.
        tokenizer_sha256: Of ``tokenizer.json``, as it lies on the disk.
        chat_template_sha256: Of the chat template's text; empty where there is none.
    """

    weights: str
    tokenizer_sha256: str
    chat_template_sha256: str


def read_hashes(folder: Path) -> Hashes:
    """Hash what lies in the folder of a policy.

    Raises:
        UsageError: The folder has no ``tokenizer.json``.
    """
    path = folder / TOKENIZER
    if not path.is_file():
        raise UsageError(
            f"There is no {TOKENIZER} in the model's folder.",
            where=str(folder),
            next_step="Save the model's fast tokenizer there: AutoTokenizer.from_pretrained(...).save_pretrained(folder).",
        )
    template = chat_template(folder)
    return Hashes(
        weights=_weights(folder),
        tokenizer_sha256=_sha256(path).hexdigest(),
        chat_template_sha256=hashlib.sha256(template.encode()).hexdigest() if template else "",
    )


def chat_template(folder: Path) -> str:
    """Return the text of a folder's chat template, from where transformers keeps it; empty where there is none."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text()
    settings = folder / "tokenizer_config.json"
    told = json.loads(settings.read_text()).get("chat_template") if settings.is_file() else None
    return told if isinstance(told, str) else ""


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy the files of a tokenizer as they are: written anew they may be worded otherwise, and hash to something else."""
    for name in _TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def _weights(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        total.update(_sha256(path).digest())
    return total.hexdigest()[:_WEIGHTS_SHOWN]


def _sha256(path: Path) -> hashlib._Hash:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256")
