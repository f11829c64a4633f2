"""A client on FastMCP, in both eras.

    fastmcp_client.py REVISION URL

It takes the steps that stand on standard input as client.mjs does, and writes what came of each.
"""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

import anyio
from fastmcp import Client
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError
from mcp_types import CreateMessageResult, ElicitResult, Implementation, Root, TextContent
from mcp_types import PromptReference, ResourceTemplateReference
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

PATIENCE = 60  # seconds for what has to come
CHANGED = "notifications/tools/list_changed"


class Notes:
    """The notifications that have come."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self.more = asyncio.Event()

    async def add(self, message: Any) -> None:
        if isinstance(message, Exception):
            return
        self.all.append(message.model_dump(mode="json", by_alias=True, exclude_none=True))
        self.more.set()
        self.more = asyncio.Event()

    def find(self, start: int, method: str, about: str = "") -> list[dict[str, Any]]:
        return [n for n in self.all[start:] if n["method"] == method and about in json.dumps(n.get("params", {}))]

    async def awaited(self, start: int, method: str, about: str) -> bool:
        with anyio.move_on_after(PATIENCE):
            while not self.find(start, method, about):
                await self.more.wait()
        return bool(self.find(start, method, about))

    async def grown(self, start: int, client: Client, name: str) -> bool:
        """Waits until a list that is fetched after a notification names a tool."""
        seen = 0
        with anyio.move_on_after(PATIENCE):
            while True:
                if len(self.find(start, CHANGED)) > seen:
                    seen = len(self.find(start, CHANGED))
                    if any(tool.name == name for tool in await client.list_tools()):
                        return True
                    continue
                await self.more.wait()
        return False


async def call(client: Client, step: dict[str, Any], progress: list[dict[str, Any]]) -> Any:
    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append({"progress": done, "total": total})
        if len(progress) == step.get("cancelAfter"):
            scope.cancel()

    handler = on_progress if step.get("progress") else None
    with anyio.CancelScope() as scope:
        return await client.call_tool_mcp(step["params"]["name"], step["params"]["arguments"], progress_handler=handler)
    raise RuntimeError("the user changed their mind")


async def follow(client: Client, uris: list[str], stack: AsyncExitStack) -> None:
    """Asks for changes of the list of tools and of resources."""
    if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        await stack.enter_async_context(listen(client.session, tools_list_changed=True, resource_subscriptions=uris))
        return
    for uri in uris:
        await client.session.subscribe_resource(uri)


async def do(client: Client, step: dict[str, Any], progress: list[dict[str, Any]], stack: AsyncExitStack) -> Any:
    params = step.get("params", {})
    match step["method"]:
        case "tools/list":
            return {"tools": await client.list_tools()}
        case "resources/list":
            return {"resources": await client.list_resources()}
        case "resources/templates/list":
            return {"resourceTemplates": await client.list_resource_templates()}
        case "prompts/list":
            return {"prompts": await client.list_prompts()}
        case "tools/call":
            return await call(client, step, progress)
        case "resources/read":
            return await client.read_resource_mcp(params["uri"])
        case "prompts/get":
            return await client.get_prompt_mcp(params["name"], params["arguments"])
        case "completion/complete":
            reference = PromptReference if params["ref"]["type"] == "ref/prompt" else ResourceTemplateReference
            return await client.complete_mcp(reference(**params["ref"]), params["argument"])
        case "logging/setLevel":
            # Without a session, the SDK asks for all messages with each request.
            if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                await client.set_logging_level(params["level"])
            return {}
        case "listen":
            return await follow(client, params["uris"], stack) or {}
    raise ValueError(step["method"])


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [plain(member) for member in value]
    return value.model_dump(mode="json", by_alias=True, exclude_none=True) if hasattr(value, "model_dump") else value


async def take(client: Client, notes: Notes, step: dict[str, Any], stack: AsyncExitStack) -> dict[str, Any]:
    start = len(notes.all)
    progress: list[dict[str, Any]] = []
    outcome: dict[str, Any] = {"progress": progress}
    try:
        with anyio.fail_after(PATIENCE):
            outcome["result"] = plain(await do(client, step, progress, stack))
    except MCPError as error:
        outcome["error"] = {"code": error.error.code, "message": error.error.message}
    except Exception as error:
        outcome["error"] = {"code": 0, "message": f"{type(error).__name__}: {error}"}
    if method := step.get("await"):
        outcome["noticed"] = await notes.awaited(start, method, step.get("about", ""))
    if name := step.get("listed"):
        outcome["noticed"] = await notes.grown(start, client, name)
    return outcome


async def elicit(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


async def sample(messages: Any, params: Any, context: Any) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", model="none", content=TextContent(type="text", text="sampled"))


async def main() -> None:
    steps = json.load(sys.stdin)
    revision, url = sys.argv[1:]
    notes = Notes()
    client = Client(
        url,
        mode="auto" if revision in MODERN_PROTOCOL_VERSIONS else "legacy",
        roots=[Root(uri=os.environ["ROOT"], name="files")],
        sampling_handler=sample,
        elicitation_handler=elicit,
        message_handler=notes.add,
        client_info=Implementation(name="interop", version="1.0.0"),
    )
    async with client, AsyncExitStack() as stack:
        outcomes = [await take(client, notes, step, stack) for step in steps]
        capabilities = plain(client.server_capabilities)
        report = {"version": client.protocol_version, "capabilities": capabilities, "outcomes": outcomes}
    json.dump(report, sys.stdout, separators=(",", ":"))


asyncio.run(main())
