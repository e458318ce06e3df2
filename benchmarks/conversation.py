"""The length of what a conversation pays for: the list of tools at each address, and answers.

Usage: python -m benchmarks.conversation [URL]

The URL is that of a Carrel with the sample, by default the one that `make run` serves. A token is
counted as four characters. "On the wire" is the whole result of a request; "text" is the part of an
answer that a model reads.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

from mcp import Client
from mcp_types import TextContent
from pydantic_core import to_json

from benchmarks.measurement import print_table
from shared.core.ids import parse_source_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_types import CallToolResult, Tool
    from pydantic import BaseModel

URL: Final = "http://localhost:8080/mcp"
CHARACTERS_PER_TOKEN: Final = 4
SELECTIONS: Final = (
    "",
    "?readonly",
    "?tools=knowledge",
    "?tools=knowledge&readonly",
    "?tools=extractions",
    "?tools=traces",
    "?tools=tasks",
    "?tools=workspaces",
    "?tools=chatgpt",
)
QUESTION: Final = "why do flaky tests hurt?"
LONG_TEXT: Final = "\n\n".join(
    f"Anchor {number} holds. " + "It digs into mud, and drags on rock. " * 12
    for number in range(20)
)


async def list_tools(url: str) -> list[Tool]:
    """List the tools at an address."""
    async with Client(url) as client:
        return (await client.list_tools()).tools


def to_wire(message: BaseModel) -> str:
    """Return a message as it is sent."""
    return message.model_dump_json(by_alias=True, exclude_none=True)


def describe_selection(query: str, tools: Sequence[Tool]) -> list[str]:
    """Return the row of an address: its tools, their size, and the average and longest of them."""
    texts = [to_wire(tool) for tool in tools]
    sizes = [len(text.encode()) for text in texts]
    tokens = sum(map(len, texts)) // CHARACTERS_PER_TOKEN
    numbers = (len(tools), sum(sizes), tokens, sum(sizes) // len(sizes), max(sizes))
    return [f"/mcp{query}", *(f"{number:,}" for number in numbers)]


def describe_tool(tool: Tool) -> list[str]:
    """Return the row of a tool: the sizes of its parts."""
    parts = [
        len(tool.description or ""),
        *(len(to_json(schema)) for schema in (tool.input_schema, tool.output_schema)),
        len(to_wire(tool).encode()),
    ]
    return [tool.name, *(f"{part:,}" for part in parts)]


async def make_calls(client: Client) -> list[tuple[str, dict[str, Any]]]:
    """Return typical calls of the tools that read, with ids of the sample."""
    search = await call(client, "search_kb", query=QUESTION)
    clusters = await call(client, "list_clusters")
    traces = await call(client, "search_traces", query="error")
    hit = search["results"][0]
    return [
        ("search_kb", {"query": QUESTION}),
        ("search_kb", {"query": QUESTION, "detail": "full"}),
        ("search_kb", {"query": QUESTION, "max_tokens": 2_000}),
        ("get_chunk", {"chunk_id": hit["chunk_id"]}),
        ("get_source", {"source_id": parse_source_id(hit["chunk_id"])}),
        ("get_cluster", {"cluster_id": clusters["clusters"][0]["cluster_id"]}),
        ("get_recent", {"period": "last_30_days"}),
        ("get_stats", {}),
        ("list_sources", {}),
        ("list_clusters", {}),
        ("get_decisions", {"query": QUESTION}),
        ("list_topics", {}),
        ("search_traces", {"query": "error"}),
        ("get_trace", {"trace_id": traces["results"][0]["trace_id"]}),
        ("list_tags", {}),
        ("list_tasks", {}),
        ("extract_key_info", {"query": "Which anchor holds?", "materials": LONG_TEXT}),
    ]


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool and return its structured result."""
    result = await client.call_tool(name, arguments)
    return dict(result.structured_content or {})


def describe_answer(name: str, arguments: dict[str, Any], result: CallToolResult) -> list[str]:
    """Return the row of an answer: its size, and the length of its text."""
    options = [f"{key}={arguments[key]}" for key in ("detail", "max_tokens") if key in arguments]
    text = "".join(block.text for block in result.content if isinstance(block, TextContent))
    return [
        " ".join([name, *options]),
        f"{len(to_wire(result).encode()):,}",
        f"{len(text.encode()):,}",
        f"{len(text) // CHARACTERS_PER_TOKEN:,}",
    ]


async def main(url: str) -> None:
    """Print the tables."""
    selections = {query: await list_tools(f"{url}{query}") for query in SELECTIONS}
    columns = ["address", "tools", "bytes", "tokens", "average bytes", "longest"]
    rows = [describe_selection(query, tools) for query, tools in selections.items()]
    print_table("The list of tools", columns, rows)
    columns = ["tool", "description", "arguments", "result", "on the wire"]
    print_table("Bytes of each tool", columns, [describe_tool(tool) for tool in selections[""]])
    async with Client(url) as client:
        answers = [
            describe_answer(name, arguments, await client.call_tool(name, arguments))
            for name, arguments in await make_calls(client)
        ]
    columns = ["answer", "bytes on the wire", "bytes of text", "tokens of text"]
    print_table("Answers from the sample", columns, answers)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or [URL]))
