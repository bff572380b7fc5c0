"""The protocol: tools, resources and prompts over stdin and stdout. The only module that imports the MCP SDK.

stdout belongs to the protocol: the SDK hands everybody else stderr in its place, and an empty stdin. The server ends when
its client goes, or when it is told to; nothing that it started is left behind.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from agent.mcp.desk import Desk
from agent.mcp.tools import Answer, ClientTools, explained
from agent.settings import Settings
from agent.skills import Skill, load_skills
from sandbox.errors import WarpsmithError
from sandbox.machine.devices import resolve_device

Context = ServerRequestContext[Any]
_INSTRUCTIONS = (
    "Warpsmith judges rewritten PyTorch modules with own CUDA or C++ kernels: whether they build, are honest, are right, "
    "and how much faster they are than eager and torch.compile. open_task first; then write kernels in the workspace it "
    "names and check. Read skill before the first kernel."
)
_PROMPT = "optimise"
_MARKDOWN, _JSON = "text/markdown", "application/json"


def serve(settings: Settings, allowed: tuple[Path, ...], targets: tuple[str, ...] = ()) -> None:
    """Serve one client until it goes, or SIGTERM, SIGINT or SIGHUP.

    Args:
        settings: Of every session.
        allowed: Folders that the client may name something in.
        targets: Named in the instructions as what the developer wants to be made faster.
    """
    asyncio.new_event_loop().run_until_complete(_serve(settings, allowed, targets))


async def _serve(settings: Settings, allowed: tuple[Path, ...], targets: tuple[str, ...]) -> None:
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    desk = Desk(settings, allowed)
    door = _Door(desk, targets, on_gpu=resolve_device(settings.device) != "cpu")
    serving, waiting = asyncio.create_task(_speak(door.server)), asyncio.create_task(told.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    await door.stop()
    await desk.close_all()
    if serving.done():
        serving.result()


async def _speak(server: Server[Any]) -> None:
    async with stdio_server() as (source, sink):
        await server.run(source, sink, server.create_initialization_options())


class _Door:
    """Answers the requests of one client."""

    def __init__(self, desk: Desk, targets: tuple[str, ...], *, on_gpu: bool) -> None:
        self._skills = load_skills()
        self._tools = ClientTools(desk, self._skills, on_gpu=on_gpu)
        self._working: set[asyncio.Task[Answer]] = set()
        wanted = f" The developer asks for: {', '.join(targets)}." if targets else ""
        self.server: Server[Any] = Server(
            "warpsmith",
            version=version("warpsmith"),
            instructions=_INSTRUCTIONS + wanted,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    async def stop(self) -> None:
        """Cancel what is being done for the client."""
        for work in self._working:
            work.cancel()

    async def _list_tools(self, _: Context, __: object) -> types.ListToolsResult:
        tools = [
            types.Tool(
                name=card.name,
                description=card.description,
                input_schema=card.parameters,
                output_schema=card.output,
                annotations=types.ToolAnnotations(
                    read_only_hint=card.read_only, destructive_hint=card.runs_project, open_world_hint=card.runs_project
                ),
            )
            for card in self._tools.cards
        ]
        return types.ListToolsResult(tools=tools)

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Do a call in a task of its own: one that is cancelled is over when the judge has stopped."""
        stages: asyncio.Queue[str] = asyncio.Queue()
        reports = asyncio.create_task(self._report(context, stages))
        call = self._tools.call(params.name, params.arguments or {}, _client(context), stages.put_nowait)
        work = asyncio.create_task(call)
        self._working.add(work)
        try:
            answer = await asyncio.shield(work)
        except asyncio.CancelledError:
            work.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([work])
            raise
        finally:
            self._working.discard(work)
            reports.cancel()
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.text)],
            structured_content=answer.data,
            is_error=not answer.ok,
        )

    async def _report(self, context: Context, stages: asyncio.Queue[str]) -> None:
        """Send a progress notification for each stage; how many there will be is not known."""
        number = 0
        while text := await stages.get():
            number += 1
            await context.session.report_progress(number, message=text)

    async def _list_resources(self, _: Context, __: object) -> types.ListResourcesResult:
        found = [
            types.Resource(uri=f"skill://{skill.name}/{path}", name=f"{skill.name}/{path}", mime_type=_mime(path))
            for skill in self._skills.all
            for path in ("SKILL.md", *skill.resources)
        ]
        return types.ListResourcesResult(resources=found)

    async def _list_templates(self, _: Context, __: object) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template="verdict://{task}/{attempt}",
            name="verdict",
            description="The whole verdict of an attempt.",
            mime_type=_JSON,
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            text, mime = await self._resource(uri, _client(context))
        except WarpsmithError as error:
            raise MCPError(types.INVALID_PARAMS, explained(error)) from error
        except (KeyError, StopIteration) as error:
            raise MCPError(
                types.INVALID_PARAMS, f"There is no resource {uri}; list them for those there are."
            ) from error
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=mime, text=text)])

    async def _resource(self, uri: str, client: str) -> tuple[str, str]:
        if found := re.fullmatch(r"verdict://([0-9a-f]{8})/(\d{1,6})", uri):
            return json.dumps(await self._tools.verdict(found[1], int(found[2]), client)), _JSON
        found = re.fullmatch(r"skill://([^/]+)/(.+)", uri)
        skill = next((skill for skill in self._skills.all if found and skill.name == found[1]), None)
        if found is None or skill is None:
            raise KeyError(uri)
        return _file_of(skill, found[2]), _mime(found[2])

    async def _list_prompts(self, _: Context, __: object) -> types.ListPromptsResult:
        target = types.PromptArgument(
            name="target", description="path.py:Class, or package.module:Class", required=True
        )
        wishes = types.PromptArgument(name="details", description="How it is built and called, and what matters")
        prompt = types.Prompt(name=_PROMPT, description="Optimise this module", arguments=[target, wishes])
        return types.ListPromptsResult(prompts=[prompt])

    async def _get_prompt(self, _: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        given = params.arguments or {}
        if params.name != _PROMPT or not given.get("target"):
            raise MCPError(types.INVALID_PARAMS, f"The prompt is called {_PROMPT} and needs target, a module.")
        body = self._skills.main.body if self._skills.main else ""
        text = _asked(given["target"], given.get("details", "")) + f"\n\n{body}"
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text.rstrip()))
        return types.GetPromptResult(description="Optimise this module", messages=[message])


def _asked(target: str, details: str) -> str:
    return (
        f"Make the PyTorch module {target} faster with the tools of the server warpsmith.{f' {details}' if details else ''}\n"
        "Open it with open_task (init and inputs: as the project itself builds and calls it), profile the original, write "
        "one fused kernel, check, and go on from what the verdict says until further gains are not worth it. End with a "
        "full check, and tell me the numbers that it measured and how to land it."
    )


def _file_of(skill: Skill, path: str) -> str:
    """Return a file of a skill. Raises KeyError if it has none such."""
    return (skill.folder / "SKILL.md").read_text(errors="replace") if path == "SKILL.md" else skill.read(path)


def _mime(path: str) -> str:
    return _MARKDOWN if path.endswith(".md") else "text/plain"


def _client(context: Context) -> str:
    """Return the client's name, as sessions keep it where a model's would stand."""
    info = context.session.client_params
    return f"mcp:{info.client_info.name[:60]}" if info is not None else "mcp"
