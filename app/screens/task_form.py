"""Asks for what a module needs to run: constructor arguments, inputs, model and device."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from agent.session import create_session
from agent.settings import Settings
from app.expressions import argument_error, guess_constructor, guess_inputs
from sandbox.errors import WarpsmithError
from sandbox.machine.devices import list_gpus, resolve_device
from sandbox.target import ModuleClass, resolve_target

FIELDS = {
    "init": "constructor",
    "inputs": "inputs",
    "dtype": "dtype",
    "model": "model",
    "device": "device",
}
HINTS = {
    "init": "what stands between the parentheses: 64, eps=1e-6",
    "inputs": "arguments of forward: torch.randn(8, 64), mask=None",
    "dtype": "bfloat16, float16 or float32; empty leaves it as it is",
    "model": "any LiteLLM name, or replay:SESSION",
    "device": "auto, cpu, cuda or cuda:N",
}


class TaskFormScreen(ModalScreen[Path | None]):
    """Returns the folder of the session that was made, or None."""

    DEFAULT_CSS = """
    TaskFormScreen { align: center middle; }
    TaskFormScreen > VerticalScroll {
        width: 94%; max-width: 104; height: auto; max-height: 100%; background: $surface; padding: 0 2;
        border: round $accent; border-title-color: $accent; border-title-style: bold; border-subtitle-color: $muted;
    }
    TaskFormScreen .label { color: $muted; margin: 1 0 0 0; }
    TaskFormScreen Input, TaskFormScreen Input:focus { border: none; height: 1; padding: 0 1; background: $panel; }
    TaskFormScreen Input:focus { background: $block-cursor-background; }
    TaskFormScreen #signature { color: $text-primary; max-height: 2; }
    TaskFormScreen #wrong { color: $text-error; margin: 1 0 0 0; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Go back", id="form.leave")]

    def __init__(self, found: ModuleClass, settings: Settings) -> None:
        super().__init__()
        self._found = found
        self._settings = settings

    def compose(self) -> ComposeResult:
        """Make the form, filled as far as names and settings allow."""
        found, hints = self._found, dict(HINTS)
        values = {"dtype": "", "model": self._settings.model, "device": self._settings.device}
        if self._brings_inputs():
            values |= {"init": "", "inputs": ""}
            hints |= {"init": "empty: get_init_inputs() of the file", "inputs": "empty: get_inputs() of the file"}
        else:
            values["init"] = guess_constructor(found.init_parameters)
            values["inputs"] = guess_inputs(found.forward_parameters)
        with VerticalScroll() as form:
            form.border_title = Content(f"{found.path.name}:{found.name}")
            form.border_subtitle = "Enter opens · Tab next field · Esc goes back"
            signature = (
                f"{found.name}({', '.join(found.init_parameters)})   forward({', '.join(found.forward_parameters)})"
            )
            yield Static(signature, id="signature", markup=False)
            for name, label in FIELDS.items():
                yield Static(f"{label}  {hints[name]}", classes="label", id=f"label-{name}", markup=False)
                yield Input(values[name], id=name, select_on_focus=False)
            yield Static("", id="wrong", markup=False)

    def on_mount(self) -> None:
        """Go to the first field that is not complete, and look which GPUs there are."""
        wrong = [name for name in FIELDS if self._error(name)]
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

    def _value(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()

    def _error(self, name: str) -> str:
        """What is wrong with a field, or an empty text."""
        if name in ("init", "inputs"):
            return argument_error(self._value(name))
        if name == "model" and not self._value(name):
            return "Without a model nobody writes kernels. Name one here, or set WARPSMITH_MODEL."
        return ""

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Make the session, or go to the first field that is wrong."""
        event.stop()
        for name, label in FIELDS.items():
            if error := self._error(name):
                self.query_one(f"#{name}", Input).focus()
                self._complain(f"{label}: {error}")
                return
        try:
            self.dismiss(await asyncio.to_thread(self._make, {name: self._value(name) for name in FIELDS}))
        except WarpsmithError as error:
            self._complain(str(error))

    def _make(self, values: dict[str, str]) -> Path:
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

    def _complain(self, text: str) -> None:
        self.query_one("#wrong", Static).update(f"✗ {text}")

    def action_leave(self) -> None:
        """Return nothing."""
        self.dismiss(None)
