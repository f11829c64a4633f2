"""An MCP server on FastMCP, in both eras, at /mcp.

    fastmcp_server.py HOST:PORT

It keeps events, so that a client can go on where a stream ended. What FastMCP does not do: take
subscriptions of either era, so that it tells only the caller that its list of tools has changed.
"""

import asyncio
import sys

import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.server.event_store import EventStore
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

PATIENCE = 60  # seconds that a tool waits for what has to come

server = FastMCP("fastmcp")
stopped: dict[str, asyncio.Event] = {}


def of(name: str) -> asyncio.Event:
    return stopped.setdefault(name, asyncio.Event())


@server.tool(output_schema=None)
def echo(text: str) -> str:
    return text


@server.tool(output_schema=None)
async def count(to: int, ctx: Context) -> str:
    for i in range(1, to + 1):
        await ctx.report_progress(i, to)
    return f"counted to {to}"


def modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version in MODERN_PROTOCOL_VERSIONS


def answer_to(question: InputRequest, ctx: Context) -> InputResponse | InputRequiredResult:
    """The answer that a client of 2026-07-28 has brought, or the question."""
    answers = ctx.input_responses
    return answers["question"] if answers else InputRequiredResult(input_requests={"question": question})


SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
MESSAGES = [SamplingMessage(role="user", content=TextContent(type="text", text="say something"))]


@server.tool(output_schema=None)
async def confirm(ctx: Context) -> str | InputRequiredResult:
    if modern(ctx):
        params = ElicitRequestFormParams(message="Who are you?", requested_schema=SCHEMA)
        answer = answer_to(ElicitRequest(params=params), ctx)
    else:
        answer = await ctx.session.elicit("Who are you?", SCHEMA, related_request_id=ctx.request_id)
    return answer if isinstance(answer, InputRequiredResult) else f"{answer.action} {answer.content['name']}"


@server.tool(output_schema=None)
async def sample(ctx: Context) -> str | InputRequiredResult:
    if modern(ctx):
        params = CreateMessageRequestParams(messages=MESSAGES, max_tokens=10)
        answer = answer_to(CreateMessageRequest(params=params), ctx)
    else:
        answer = await ctx.session.create_message(MESSAGES, max_tokens=10, related_request_id=ctx.request_id)
    return answer if isinstance(answer, InputRequiredResult) else answer.content.text


@server.tool(output_schema=None)
async def roots(ctx: Context) -> str | InputRequiredResult:
    answer = answer_to(ListRootsRequest(), ctx) if modern(ctx) else await ctx.session.list_roots()
    return answer if isinstance(answer, InputRequiredResult) else answer.roots[0].name


@server.tool(output_schema=None)
async def hang(name: str, ctx: Context) -> str:
    await ctx.report_progress(1, 2)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        of(name).set()
        raise
    return "never cancelled"


@server.tool(output_schema=None)
async def cancelled(name: str) -> str:
    try:
        await asyncio.wait_for(of(name).wait(), PATIENCE)
    except TimeoutError:
        return "no"
    return "yes"


@server.tool(output_schema=None)
async def log(text: str, ctx: Context) -> str:
    await ctx.warning(text)
    return "logged"


@server.tool(output_schema=None)
async def grow(name: str, ctx: Context) -> str:
    server.tool(lambda: "new", name=name, output_schema=None)
    await ctx.send_notification(ToolListChangedNotification())
    return "grown"


@server.tool(output_schema=None)
async def pause(ctx: Context) -> str:
    """End the stream of this call after its first event: who wants the rest has to ask for it."""
    await ctx.report_progress(1, 2)
    await ctx.close_sse_stream()
    await ctx.report_progress(2, 2)
    return "went on"


@server.resource("memo://today", mime_type="text/plain")
def today() -> str:
    return "nothing to do"


@server.resource("memo://day/{day}", mime_type="text/plain")
def day(day: str) -> str:
    return f"memo of {day}"


@server.prompt()
def review(code: str) -> str:
    return f"Please review: {code}"


@server.completion
async def complete(ref, argument, context) -> list[str]:
    return [f"{argument.value}!"]


host, _, port = sys.argv[1].rpartition(":")
app = server.http_app(path="/mcp", event_store=EventStore(), retry_interval=50)
uvicorn.run(app, host=host, port=int(port), log_level="warning")
