"""A client on the Python SDK, mcp 1.x or 2.x, that reads skills.

    client.py URL

It takes the steps that stand on standard input as a JSON array, one after the other, and
writes what came of each as one JSON object.
"""

import json
import sys
from typing import Any

import anyio
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client
from pydantic import ConfigDict

try:
    from mcp.shared.exceptions import McpError as MCPError
except ImportError:
    from mcp.shared.exceptions import MCPError


class Anything(types.Result):
    """A result of a method that the SDK does not know."""

    model_config = ConfigDict(extra="allow")


async def take(session: ClientSession, step: dict[str, Any]) -> dict[str, Any]:
    request = types.Request[dict[str, Any], str](method=step["method"], params=step.get("params", {}))
    try:
        result = await session.send_request(request, Anything)
    except MCPError as error:
        return {"error": {"code": error.error.code, "message": error.error.message}}
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True)}


async def main() -> None:
    steps = json.load(sys.stdin)
    async with streamable_http_client(sys.argv[1]) as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await session.initialize()
            outcomes = [await take(session, step) for step in steps]
    json.dump({"outcomes": outcomes}, sys.stdout)


anyio.run(main)
