"""Load exported conversations and pairs with ``datasets`` and render them with a chat template that has tools.

    python3 -m venv /tmp/chat && /tmp/chat/bin/pip install datasets transformers trl
    warpsmith sessions export --all --format messages --out messages.jsonl
    warpsmith sessions export --all --format preferences --out preferences.jsonl
    /tmp/chat/bin/python tests/agent/exports/check_chat.py messages.jsonl preferences.jsonl

The tokenizer is made here, of bytes, so that nothing is downloaded; its template writes what it is given, so that a value
that got lost or was made up on the way shows in the text.
"""

import json
import sys
from pathlib import Path

from datasets import load_dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

TEMPLATE = """\
{%- if tools %}<|tools|>{{ tools | tojson }}
{% endif -%}
{%- for message in messages -%}
<|{{ message.role }}|>{{ message.content or "" }}
{%- for call in message.tool_calls or [] %}<|call|>{{ call.id }} {{ call.function.name }} {{ call.function.arguments if
call.function.arguments is string else call.function.arguments | tojson }}{% endfor %}
{%- if message.tool_call_id %}<|of|>{{ message.tool_call_id }}{% endif %}<|end|>
{% endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}"""


def main(paths: list[str]) -> None:
    tokenizer = byte_tokenizer()
    for path in paths:
        sent = [json.loads(line) for line in Path(path).read_text().splitlines()]
        loaded = load_dataset("json", data_files=path, split="train")
        print(f"{path}: {len(loaded)} rows, columns {', '.join(loaded.column_names)}")
        for before, after in zip(sent, loaded, strict=True):
            for text, same in zip(rendered(tokenizer, before), rendered(tokenizer, after), strict=True):
                if text != same:
                    raise SystemExit(
                        f"{path}: what was loaded is not what was exported: {first_difference(text, same)}"
                    )
                ids = tokenizer(text)["input_ids"]
                if tokenizer.decode(ids) != text:
                    raise SystemExit(f"{path}: the text does not come back from its {len(ids)} tokens")
                print(
                    f"  rendered: {len(text)} characters, {text.count('<|call|>')} calls, {text.count('<|of|>')} results"
                )
        if "chosen" in loaded.column_names:
            by_trl(tokenizer, loaded)


def rendered(tokenizer: PreTrainedTokenizerFast, row: dict) -> list[str]:
    """Return a row's conversations as text: the one, or that which was chosen and that which was rejected."""
    whole = [row["messages"]] if "messages" in row else [row["prompt"] + row[side] for side in ("chosen", "rejected")]
    return [tokenizer.apply_chat_template(each, tools=row["tools"], tokenize=False) for each in whole]


def by_trl(tokenizer: PreTrainedTokenizerFast, loaded: object) -> None:
    """Take the pairs through TRL's own preparation, which cuts each into prompt and completions."""
    from trl.data_utils import is_conversational, maybe_apply_chat_template

    for row in loaded:
        if not is_conversational(row):
            raise SystemExit("TRL does not take a pair for a conversation")
        text = maybe_apply_chat_template(dict(row), tokenizer, tools=row["tools"])
        print(f"  TRL: prompt {len(text['prompt'])}, chosen {len(text['chosen'])}, rejected {len(text['rejected'])}")


def byte_tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=TEMPLATE)


def first_difference(one: str, other: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"{one[max(0, at - 40) : at + 40]!r} against {other[max(0, at - 40) : at + 40]!r}"


if __name__ == "__main__":
    main(sys.argv[1:])
