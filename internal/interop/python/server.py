"""An MCP server on the Python SDK: FastMCP of mcp 1.x, MCPServer of mcp 2.x.

    server.py stdio | server.py HOST:PORT [sse]
"""

import sys
from typing import Annotated

import anyio
from pydantic import BaseModel

try:
    from mcp.server.fastmcp import Context, FastMCP as Server

    FASTMCP = True
except ImportError:
    from mcp.server.mcpserver import Context, Elicit, MCPServer as Server, Resolve

    FASTMCP = False

transport = sys.argv[1]
host, _, port = transport.rpartition(":")
server = Server("python", host=host, port=int(port)) if FASTMCP and host else Server("python")

stopped = set()


class Answer(BaseModel):
    name: str


class Sum(BaseModel):
    sum: int


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count slowly and report progress."""
    for i in range(1, to + 1):
        await anyio.sleep(0.05)
        await ctx.report_progress(i, to)
    return f"counted to {to}"


@server.tool()
async def hang(name: str, ctx: Context) -> str:
    """Report progress once, then wait until cancelled."""
    await ctx.report_progress(1, 2)
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        stopped.add(name)
        raise
    return "never cancelled"


@server.tool()
async def cancelled(name: str) -> str:
    """Was the call of hang with this name cancelled? Waits for it a while."""
    for _ in range(100):
        if name in stopped:
            return "yes"
        await anyio.sleep(0.05)
    return "no"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("on purpose")


# Only mcp 2.x can ask in both eras, and only this way.
if FASTMCP:

    @server.tool()
    async def greet(ctx: Context) -> str:
        """Ask who is there."""
        answer = await ctx.elicit("Who are you?", Answer)
        return f"hello {answer.data.name}" if answer.action == "accept" else answer.action

else:

    def who() -> Elicit[Answer]:
        return Elicit("Who are you?", Answer)

    @server.tool()
    async def greet(answer: Annotated[Answer, Resolve(who)]) -> str:
        """Ask who is there."""
        return f"hello {answer.name}"


@server.resource("memo://today", mime_type="text/plain")
def today() -> str:
    return "nothing to do"


@server.resource("memo://day/{day}", mime_type="text/plain")
def day(day: str) -> str:
    return f"memo of {day}"


@server.prompt()
def review(code: str) -> str:
    """Review code."""
    return f"Please review: {code}"


over_http = "sse" if "sse" in sys.argv[2:] else "streamable-http"
if not host:
    server.run("stdio")
elif FASTMCP:
    server.run(over_http)
else:
    server.run(over_http, host=host, port=int(port))
