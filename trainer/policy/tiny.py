"""A random policy so small that a test trains it in seconds, with a real tokenizer; made without a network.

The tokenizer is a byte-level BPE trained on the skills that Warpsmith comes with, so that it reads any text and is good at
CUDA. Its template has the form of ChatML with tool calls as ``<tool_call>{"name": ..., "arguments": ...}</tool_call>``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

_SKILLS = Path(__file__).parents[2] / "skills"
_TEXTS = ("*.md", "*.cu", "*.py")
_PAD, _, _END = _SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

CHAT_TEMPLATE = """\
{%- set system = messages[0].content if messages[0].role == 'system' else '' %}
{%- if tools or system %}
{{- '<|im_start|>system\\n' + system }}
{%- if tools %}
{{- ('\\n\\n' if system else '') + 'You may call these tools:\\n<tools>' }}
{%- for tool in tools %}{{ '\\n' + tool | tojson }}{% endfor %}
{{- '\\n</tools>\\nTo call one, write <tool_call>\\n{"name": ..., "arguments": {...}}\\n</tool_call>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- generation %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{%- set called = call.function if call.function else call %}
{%- set arguments = called.arguments if called.arguments is string else called.arguments | tojson %}
{{- '\\n' if message.content or not loop.first }}
{{- '<tool_call>\\n{"name": "' + called.name + '", "arguments": ' + arguments + '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>' }}
{%- endgeneration %}
{{- '\\n' }}
{%- elif message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{%- elif message.role == 'user' or not loop.first %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def write_tiny_policy(
    folder: Path,
    *,
    seed: int = 0,
    layers: int = 2,
    width: int = 64,
    vocabulary: int = 2048,
    context: int = 32768,
    texts: Iterable[str] = (),
    phrases: Sequence[str] = (),
) -> Path:
    """Write a random Llama and its tokenizer, the same ones for the same arguments.

    Args:
        folder: Made if it does not exist.
        seed: Of the weights.
        layers: Of the decoder.
        width: Of the hidden states; four heads share it.
        vocabulary: How many tokens there are at most.
        context: How many positions the model is said to know.
        texts: What the tokenizer is trained on besides the skills.
        phrases: What is one token each, besides the vocabulary.

    Returns:
        The folder, as `load_policy` reads it.
    """
    tokenizer = tiny_tokenizer(vocabulary, texts, phrases)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_tokenizer(
    vocabulary: int = 2048, texts: Iterable[str] = (), phrases: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """Train a byte-level tokenizer on the skills and other texts, with the template above and phrases as whole tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(_MARKS),
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*_skills(), *texts], trainer)
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in (*_MARKS, *phrases)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=_END,
        pad_token=_PAD,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def _skills() -> list[str]:
    return [path.read_text() for path in sorted(path for pattern in _TEXTS for path in _SKILLS.rglob(pattern))]
