"""`carrel call`, `show`, `search` and `sources`: call tools over MCP."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from infra.cli.formatting import format_table
from infra.folders import run_command
from infra.terminal import make_printable
from shared.core.errors import Unavailable
from shared.core.installation import carrel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from infra.local.client import CallTool

    ResultT = TypeVar("ResultT")
    Result = dict[str, Any]

_DEFAULT_PORT: Final = 8080
_PAGE: Final = 50
"""One call returns at most this many passages."""
_TITLE_WIDTH: Final = 60
"""A title in a table has at most this many characters."""
_UNKNOWN_ID: Final = (
    "There is no passage, source, cluster or trace {id}. Ids of passages change when a text is"
    " edited. Find ids with `{search}`, `{sources}`, or the tools list_clusters and search_traces."
)


url_option: Final = click.option(
    "--url", help="The gateway's endpoint; by default, that of the Carrel that runs here."
)


@click.command()
@click.argument("tool")
@click.argument("arguments", default="{}")
@url_option
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="NAME=PATH",
    help="Read the argument NAME from a text file. A PATH of - is standard input.",
)
def call(tool: str, arguments: str, url: str | None, files: tuple[str, ...]) -> None:
    """Call TOOL over MCP with ARGUMENTS, a JSON object, and print the result.

    Pass a long text in a file: --file materials=report.txt. If the server requires a credential,
    set the environment variable CARREL_KEY to an access key.
    """
    from infra.local.client import CallFailed

    try:
        parsed = json.loads(arguments, parse_float=_parse_finite, parse_constant=_parse_finite)
    except ValueError as error:
        raise click.ClickException(f"ARGUMENTS is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise click.ClickException("ARGUMENTS must be a JSON object, such as '{\"limit\": 3}'.")
    parsed |= dict(map(_read_argument, files))
    try:
        answer = _connect_and_run(url, lambda call_tool: call_tool(tool, parsed))
    except CallFailed as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    click.echo(json.dumps(answer.result, indent=2, ensure_ascii=False))


@click.command()
@click.argument("id")
@url_option
def show(id: str, url: str | None) -> None:  # noqa: A002 - click names the argument by it
    """Print the text of ID: a passage, a source, a cluster or a trace."""
    print_text(run_with_gateway(url, lambda call_tool: _show(id, call_tool)))


@click.command()
@click.argument("words", nargs=-1)
@click.option("--limit", type=click.IntRange(1, 50), default=10, show_default=True)
@click.option("--tag", "tags", multiple=True, help="Passages with at least one of these tags.")
@click.option("--author", help="The author's full name.")
@click.option("--source", help="A source's exact title or id.")
@click.option("--category", help="Such as books, articles or documents.")
@click.option("--cursor", help="Continue after a page.")
@url_option
def search(
    words: tuple[str, ...],
    limit: int,
    cursor: str | None,
    url: str | None,
    **given: str | tuple[str, ...],
) -> None:
    """Search the knowledge base for WORDS, by meaning and by words.

    Without WORDS, the newest passages that pass the filters are listed.
    """
    arguments: Result = {"limit": limit} | ({"cursor": cursor} if cursor else {})
    if filters := {name: value for name, value in given.items() if value}:
        arguments["filters"] = filters
    if words:
        arguments["query"] = " ".join(words)
    elif not filters:
        raise click.UsageError("Give words to search for, or a filter such as --tag.")
    print_text(run_with_gateway(url, lambda call_tool: call_tool("search_kb", arguments)).text)


@click.command()
@click.option("--author", help="Only sources by this author.")
@click.option("--category", help="Only sources of this category.")
@click.option("--tag", help="Only sources with this tag.")
@click.option("--order", type=click.Choice(["recent", "title"]), default="recent")
@click.option("--limit", type=click.IntRange(1, 50), default=20, show_default=True)
@click.option("--cursor", help="Continue after a page.")
@url_option
def sources(url: str | None, **given: str | int | None) -> None:
    """List the sources of the knowledge base, last changed first."""
    arguments = {name: value for name, value in given.items() if value is not None}
    page = run_with_gateway(url, lambda call_tool: call_tool("list_sources", arguments)).result
    if rows := [_format_source_row(source) for source in page["sources"]]:
        header = ("ID", "TITLE", "AUTHOR", "CATEGORY", "PASSAGES", "CHANGED")
        print_text(format_table(header, rows))
    if message := page.get("message"):
        print_text(message)
    if cursor := page.get("next_cursor"):
        click.echo(f"For the next page, add: --cursor {cursor}", err=True)


def run_with_gateway(
    url: str | None, operation: Callable[[CallTool], Awaitable[ResultT]]
) -> ResultT:
    """Run an operation with a connection, and print an error of a tool as a message."""
    from infra.local.client import CallFailed

    try:
        return _connect_and_run(url, operation)
    except CallFailed as error:
        raise click.ClickException(error.reason) from error


def _connect_and_run(
    url: str | None, operation: Callable[[CallTool], Awaitable[ResultT]]
) -> ResultT:
    """Run an operation with a connection, with the key in CARREL_KEY, if any.

    Raises:
        CallFailed: A tool answers with an error.
    """
    from infra.local.client import connect

    address = url or _find_gateway()

    async def run() -> ResultT:
        async with connect(address, os.environ.get("CARREL_KEY", "").strip() or None) as call_tool:
            return await operation(call_tool)

    return asyncio.run(run())


def _find_gateway() -> str:
    """Return the endpoint of the deployment, or of the gateway that runs on this machine's data.

    Raises:
        Unavailable: No gateway runs on the data of this machine.
    """
    from functions.gateway.auth.public_url import RESOURCE_PATH

    if click.get_current_context().find_root().params["cloud"]:
        from infra.cloud.environment import find_gateway_url

        return find_gateway_url() + RESOURCE_PATH
    from infra.local import local_database
    from infra.local.running_gateways import find_running_port
    from infra.local.welcome import get_origin

    port = find_running_port(_DEFAULT_PORT)
    if port is None:
        raise Unavailable(
            f"No Carrel runs on the data in {local_database.STATE}. Start it with"
            f" `{run_command()}`, or pass --url."
        )
    return get_origin(port) + RESOURCE_PATH


def _parse_finite(text: str) -> float:
    """Parse a JSON number, and reject NaN and infinity, which would reach the server as null."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _read_argument(option: str) -> tuple[str, str]:
    """Parse NAME=PATH, and return the argument's name and the file's text."""
    name, _, path = option.partition("=")
    try:
        with click.open_file(path, encoding="utf-8") as file:
            return name, file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{option}: cannot read the text ({error}).") from error


def print_text(text: str) -> None:
    """Print text without what could control the terminal."""
    click.echo(make_printable(text))


async def _show(document_id: str, call_tool: CallTool) -> str:
    """Return the text of the passage, source, cluster or trace with this id.

    The id does not tell which it is, so the tools are tried one after another.

    Raises:
        CallFailed: No document has the id.
    """
    from infra.local.client import CallFailed

    for read in (_read_chunk, _read_source, _read_cluster, _read_trace):
        try:
            return await read(document_id, call_tool)
        except CallFailed as error:
            if error.code not in {"NOT_FOUND", ""}:  # empty: the server does not offer the tool
                raise
    message = _UNKNOWN_ID.format(
        id=document_id, search=carrel("search WORDS"), sources=carrel("sources")
    )
    raise CallFailed(message)


async def _read_chunk(chunk_id: str, call_tool: CallTool) -> str:
    return (await call_tool("get_chunk", {"chunk_id": chunk_id})).text


async def _read_source(source_id: str, call_tool: CallTool) -> str:
    """Read a source with all its passages, page by page."""
    arguments = {"source_id": source_id, "limit": _PAGE}
    source = (await call_tool("get_source", arguments)).result
    passages = list(source["chunks"])
    cursor = source.get("next_cursor")
    while cursor:
        page = (await call_tool("get_source", {**arguments, "cursor": cursor})).result
        passages += page["chunks"]
        cursor = page.get("next_cursor")
    title = " · ".join(filter(None, [source["title"], source.get("author")]))
    fields = {
        "language": source.get("language"),
        "tags": ", ".join(source["tags"]),
        "address": source.get("source_url") or source.get("readwise_url"),
    }
    paragraphs = [
        f"{title} ({source['category']}, {source['updated']})",
        "\n".join(f"{name}: {value}" for name, value in fields.items() if value),
        *(
            f"[{number}/{source['chunk_count']}] {chunk['chunk_id']}\n{chunk['text']}"
            for number, chunk in enumerate(passages, 1)
        ),
    ]
    return "\n\n".join(filter(None, paragraphs))


async def _read_cluster(cluster_id: str, call_tool: CallTool) -> str:
    arguments = {"cluster_id": cluster_id, "member_limit": _PAGE}
    return (await call_tool("get_cluster", arguments)).text


async def _read_trace(trace_id: str, call_tool: CallTool) -> str:
    """Read a trace, whose texts may come in several parts."""
    parts: list[str] = []
    offset: int | None = 0
    while offset is not None:
        answer = await call_tool("get_trace", {"trace_id": trace_id, "offset": offset})
        parts.append(answer.text)
        offset = answer.result.get("next_offset")
    return "\n\n".join(parts)


def _format_source_row(source: Result) -> tuple[str, ...]:
    title = source["title"]
    return (
        source["source_id"],
        title if len(title) <= _TITLE_WIDTH else f"{title[: _TITLE_WIDTH - 1]}…",
        source.get("author") or "",
        source["category"],
        str(source["chunk_count"]),
        source["updated"],
    )
