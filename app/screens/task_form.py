"""Asks for what a module needs to run: constructor arguments, inputs, model and device."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual.widgets import Input, Static

from agent.session import create_session
from agent.settings import Settings
from app.expressions import argument_error, guess_constructor, guess_inputs
from app.screens.form import FormScreen
from sandbox.errors import WarpsmithError
from sandbox.machine.devices import list_gpus, resolve_device
from sandbox.target import ModuleClass, resolve_target

HINTS = {
    "init": "what stands between the parentheses: 64, eps=1e-6",
    "inputs": "arguments of forward: torch.randn(8, 64), mask=None",
    "dtype": "bfloat16, float16 or float32; empty leaves it as it is",
    "model": "any LiteLLM name, or replay:SESSION",
    "device": "auto, cpu, cuda or cuda:N",
}
_OF_THE_FILE = {"init": "empty: get_init_inputs() of the file", "inputs": "empty: get_inputs() of the file"}


class TaskFormScreen(FormScreen):
    """Returns the folder of the session that was made, or None."""

    FIELDS: ClassVar[dict[str, str]] = {
        "init": "constructor",
        "inputs": "inputs",
        "dtype": "dtype",
        "model": "model",
        "device": "device",
    }

    def __init__(self, found: ModuleClass, settings: Settings) -> None:
        """Fill the form as far as names and settings allow."""
        self._found = found
        self._settings = settings
        values = {"init": "", "inputs": "", "dtype": "", "model": settings.model, "device": settings.device}
        brings = self._brings_inputs()
        if not brings:
            values["init"] = guess_constructor(found.init_parameters)
            values["inputs"] = guess_inputs(found.forward_parameters)
        super().__init__(
            f"{found.path.name}:{found.name}",
            f"{found.name}({', '.join(found.init_parameters)})   forward({', '.join(found.forward_parameters)})",
            {**HINTS, **(_OF_THE_FILE if brings else {})},
            values,
        )

    def on_mount(self) -> None:
        """Go to the first field that is not complete, and look which GPUs there are."""
        wrong = [name for name in self.FIELDS if self.error(name)]
        self.query_one(f"#{(wrong or ['inputs'])[0]}", Input).focus()
        self.run_worker(self._name_devices())

    async def _name_devices(self) -> None:
        gpus = await asyncio.to_thread(list_gpus)
        there = " · ".join(["auto", "cpu", *(f"cuda:{gpu.index} {gpu.name}" for gpu in gpus)])
        self.query_one("#label-device", Static).update(f"device  {there}")

    def _brings_inputs(self) -> bool:
        """Whether the file is in the KernelBench form, which says itself what its module is called with."""
        try:
            return resolve_target(f"{self._found.path}:{self._found.name}").kind == "kernelbench"
        except WarpsmithError:
            return False

    def error(self, name: str) -> str:
        """Return what is wrong with a field, or an empty text."""
        if name in ("init", "inputs"):
            return argument_error(self.value(name))
        if name == "model" and not self.value(name):
            return "Without a model nobody writes kernels. Name one here, or set WARPSMITH_MODEL."
        return ""

    def make(self, values: Mapping[str, str]) -> Path:
        """Make the session; runs in a thread."""
        settings = replace(self._settings, model=values["model"], device=values["device"] or "auto")
        spec = resolve_target(
            f"{self._found.path}:{self._found.name}",
            python=settings.python,
            device=resolve_device(settings.device),
            init=values["init"],
            inputs=values["inputs"],
            dtype=values["dtype"],
        )
        return create_session(spec, settings, settings.home)
