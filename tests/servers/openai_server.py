"""An OpenAI-compatible chat server on localhost whose answers are scripted; see ``tests.servers.provider``."""

from __future__ import annotations

from collections.abc import Sequence

from tests.servers.dialects.openai import PLAIN, OpenAI, Quirks
from tests.servers.provider import Call, ProviderServer, Reply, Scripted

__all__ = ["Call", "OpenAIServer", "Reply", "Scripted"]


class OpenAIServer(ProviderServer):
    """Serves the script on a free port; a context manager."""

    def __init__(self, script: Sequence[Scripted], quirks: Quirks = PLAIN) -> None:
        super().__init__(OpenAI(quirks), script)

    @property
    def base_url(self) -> str:
        return f"{super().base_url}/v1"
