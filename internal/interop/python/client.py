"""A client on the Python SDK, mcp 1.x or 2.x.

    client.py URL [browser [DOCUMENT]]

With BRIDGE, the path of gatehouse, it goes over its bridge. With "browser", its user signs in in the browser that BROWSER names, and DOCUMENT is the URL of a
document about the client.

It takes the steps that stand on standard input as a JSON array, one after the other, and
writes what came of each as one JSON object.
"""

import contextlib
import json
import os
import sys
import time
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from pydantic import ConfigDict

from desktop import sign_in

try:
    from mcp.shared.exceptions import McpError as MCPError
except ImportError:
    from mcp.shared.exceptions import MCPError


class Anything(types.Result):
    """A result of a method that the SDK does not know."""

    model_config = ConfigDict(extra="allow")


def forward(seconds: float) -> None:
    """Moves the client's clock."""
    now = time.time
    time.time = lambda: now() + seconds


async def take(session: ClientSession, step: dict[str, Any]) -> dict[str, Any]:
    if step["method"] == "account/age":
        forward(step["params"]["seconds"])
        return {"result": {}}
    request = types.Request[dict[str, Any], str](method=step["method"], params=step.get("params", {}))
    try:
        result = await session.send_request(request, Anything)
    except MCPError as error:
        return {"error": {"code": error.error.code, "message": error.error.message}}
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}


async def main() -> None:
    steps = json.load(sys.stdin)
    url, *user = sys.argv[1:]
    async with contextlib.AsyncExitStack() as stack:
        if bridge := os.environ.get("BRIDGE"):
            command = StdioServerParameters(command=bridge, args=["connect", "--stdio", url], env=dict(os.environ))
            streams = await stack.enter_async_context(stdio_client(command))
        else:
            http = create_mcp_http_client(auth=sign_in(url, *user[1:]) if user else None)
            await stack.enter_async_context(http)
            streams = await stack.enter_async_context(streamable_http_client(url, http_client=http))
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
        await session.initialize()
        outcomes = [await take(session, step) for step in steps]
    json.dump({"outcomes": outcomes}, sys.stdout)


anyio.run(main)
