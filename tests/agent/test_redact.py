"""Secrets never enter the conversation."""

from __future__ import annotations

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


def test_code_and_hashes_stay():
    text = "risk-free task-1234567890123456789 sha256:" + "0f" * 32 + " sk-short"
    assert Redactor({})(text) == text
