"""Secrets never enter the conversation."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import quote

import pytest

from agent.redact import Redactor

ENVIRONMENT = {
    "OPENAI_API_KEY": "value-of-the-openai-key",
    "MY_TOKEN": "value-of",
    "SSH_KEY_FILE": "/home/someone/.ssh/id_ed25519",
    "PASSWORD": "short",
    "KEYBOARD": "qwertz-layout",
    "HOME": "/home/someone",
}


def test_values_of_secret_variables_are_replaced_by_their_name_longest_first():
    redact = Redactor(ENVIRONMENT)
    assert redact("a value-of-the-openai-key, value-of.") == "a [redacted: OPENAI_API_KEY], [redacted: MY_TOKEN]."


def test_data_is_searched_through_and_keeps_its_form():
    data = {"cases": [{"ok": False, "max": 1.5, "reason": "got value-of-the-openai-key"}], "profile": None}
    kept = {"cases": [{"ok": False, "max": 1.5, "reason": "got [redacted: OPENAI_API_KEY]"}], "profile": None}
    assert Redactor(ENVIRONMENT).data(data) == kept


def test_paths_short_values_and_innocent_names_stay():
    text = "/home/someone/.ssh/id_ed25519 short qwertz-layout /home/someone"
    assert Redactor(ENVIRONMENT)(text) == text


@pytest.mark.parametrize(
    "secret",
    [
        "sk-" + "a1B2" * 6,
        "ghp_" + "x" * 36,
        "hf_" + "y" * 30,
        "AKIA" + "ABCDEFGH12345678",
        "eyJhbGciOiJI.eyJzdWIiOiIx.abcdefgh123",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----",
    ],
)
def test_well_known_shapes_are_replaced(secret):
    assert Redactor({})(f"before {secret} after") == "before [redacted: token] after"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abcdef0123456789abcd", "Authorization: Bearer [redacted: token]"),
        ("git clone https://me:pa55word@host/x.git", "git clone https://[redacted: token]@host/x.git"),
        ("\x1b[32mhf_\x1b[1m" + "y" * 30 + "\x1b[0m.", "\x1b[32m[redacted: token]\x1b[0m."),
        ("key: ghp_" + "x" * 20 + "\n    " + "x" * 16 + "\n- next", "key: [redacted: token]\n- next"),
    ],
)
def test_tokens_in_their_places_and_split_by_colours_and_lines_are_replaced(text, left):
    assert Redactor({})(text) == left


def test_a_known_value_is_replaced_however_it_is_written():
    value = "value-of+the openai/key"
    redact = Redactor({"OPENAI_API_KEY": value})
    encoded = [base64.b64encode(b"x" * n + value.encode() + b"tail").decode() for n in range(4)]
    for written in (value.encode().hex(), quote(value, safe=""), "value-of+the \n  openai/key", *encoded):
        assert "[redacted: OPENAI_API_KEY]" in redact(f"<{written}>")
        assert "openai/key" not in redact(f"<{written}>")
        for piece in (written[i : i + 14] for i in range(0, len(written) - 13, 4)):
            assert piece not in redact(f"<{written}>")


def test_a_value_that_looks_like_a_key_needs_no_telling_name():
    look = {"A": "q8Zr1Lk0vYtB5nXe7WmC3uHd", "B": "a-long-plain-sentence-of-words", "C": "0123456789abcdef" * 2}
    text = " ".join(look.values())
    assert Redactor(look)(text) == f"[redacted: A] {look['B']} {look['C']}"


def test_code_and_hashes_stay():
    text = (
        "risk-free task-1234567890123456789 sha256:" + "0f" * 32 + " sk-short sk-toggleable__control-hidden "
        "the bearer of_a_long_identifier http://${USER}:${PASSWORD}@host std::a:b@c"
    )
    assert Redactor({})(text) == text


def test_nothing_in_our_own_sources_and_kernels_is_taken_for_a_secret():
    redact, root = Redactor({}), Path(__file__).parents[2]
    sources = [path for folder in ("agent", "app", "sandbox", "skills") for path in (root / folder).rglob("*.*")]
    texts = [path.read_text() for path in sources if path.suffix in (".py", ".cu", ".cpp", ".md")]
    assert len(texts) > 100
    assert all(redact(text) == text for text in texts)
