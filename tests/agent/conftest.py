"""What several tests of the agent stand on."""

from __future__ import annotations

import pytest


@pytest.fixture
def amazon_account(monkeypatch):
    """Let requests to Amazon be signed, by nobody in particular."""
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "REGION_NAME": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
