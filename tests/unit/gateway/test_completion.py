"""Arguments of prompts and resource templates are completed by calling a tool over HTTP."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Completion, PromptReference, ResourceTemplateReference

from functions.gateway.calls.dispatch import HttpDispatcher
from functions.gateway.catalog import Catalog
from functions.gateway.mcp.prompts import Prompt, PromptArgument
from shared.core.errors import CarrelError, InvalidInput, Unavailable
from shared.core.settings import Settings
from tests.support.fake_catalog import BOOK, SHELF, FakeDispatcher, make_server, make_tool
from tests.support.fakes.tool_server import FakeToolServer, Reply

INVALID_PARAMS = -32602
"""The error code of JSON-RPC for invalid parameters."""
PRAISE = Prompt(
    name="praise",
    title="Praise",
    description="Praises.",
    arguments=(
        PromptArgument(name="by", title="By", description="Whom.", kind="author"),
        PromptArgument(name="in", title="In", description="Where.", kind="city"),
        PromptArgument(
            name="tone", title="Tone", description="How.", choices=("loud", "low", "high")
        ),
        PromptArgument(name="why", title="Why", description="For what."),
    ),
    text=lambda _: "Praise.",
)
PROMPT = PromptReference(name="praise")
TEMPLATE = ResourceTemplateReference(uri=SHELF.uri)


def make_names_reply(names: list[dict[str, Any]], total: int) -> Reply:
    """Return the reply of the tool that completes names."""
    return Reply(body=json.dumps({"result": {"names": names, "total": total}}).encode())


@asynccontextmanager
async def connect_client(server: FakeToolServer, mode: str = "2026-07-28") -> AsyncIterator[Client]:
    """Connect a client to a gateway whose completing tool is on `server`."""
    dispatcher = HttpDispatcher(Settings(tool_urls={"complete_name": server.url}))
    try:
        async with Client(make_server(dispatcher, prompts=[PRAISE]), mode=mode) as client:
            yield client
    finally:
        await dispatcher.aclose()


async def complete(
    reply: Reply,
    reference: PromptReference | ResourceTemplateReference,
    name: str,
    value: str,
    mode: str = "2026-07-28",
) -> tuple[Completion, list[dict[str, Any]]]:
    """Return the completions of a value, and the arguments of the calls."""
    with FakeToolServer(reply) as server:
        async with connect_client(server, mode) as client:
            result = await client.complete(reference, {"name": name, "value": value})
        return result.completion, [json.loads(body)["arguments"] for body in server.bodies]


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
@pytest.mark.parametrize(
    ("reference", "name", "value", "values", "calls"),
    [
        (PROMPT, "by", "ad", ["Ada", "Adam"], [{"kind": "author", "prefix": "ad"}]),
        (TEMPLATE, "shelf_id", "ad", ["a-1"], [{"kind": "shelf", "prefix": "ad"}]),  # by its id
        (PROMPT, "tone", "lo", ["loud", "low"], []),  # the argument has choices
        (PROMPT, "why", "a", [], []),
        (PROMPT, "in", "a", [], []),
        (PROMPT, "nothing", "a", [], []),
        (TEMPLATE, "nothing", "a", [], []),
        (ResourceTemplateReference(uri=BOOK.uri), "book_id", "a", [], []),
    ],
)
async def test_arguments_of_prompts_and_templates_are_completed(  # noqa: PLR0913, PLR0917
    mode: str,
    reference: PromptReference | ResourceTemplateReference,
    name: str,
    value: str,
    values: list[str],
    calls: list[dict[str, str]],
) -> None:
    names: list[dict[str, Any]] = [
        {"name": "Ada", "id": "a-1", "count": 3},
        {"name": "Adam", "id": None, "count": 1},
        {"name": "Ada", "id": "a-1", "count": 3},  # a common name is suggested once
    ]
    reply = make_names_reply(names, 3)
    completion, sent = await complete(reply, reference, name, value, mode)
    assert completion == Completion(values=values, total=len(values), has_more=False)
    assert sent == calls


async def test_at_most_a_hundred_values_are_sent_with_their_total() -> None:
    names = [{"name": f"Ada {number}", "id": None, "count": 1} for number in range(120)]
    completion, _ = await complete(make_names_reply(names, 500), PROMPT, "by", "")
    assert (len(completion.values), completion.total, completion.has_more) == (100, 500, True)


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, InvalidInput("prefix: too long")), (503, Unavailable("It rests.", retry_after=5.0))],
)
async def test_a_tool_that_fails_or_is_missing_gives_no_suggestions(
    status: int, error: CarrelError
) -> None:
    body = json.dumps({"error": error.to_wire()}).encode()
    completion, _ = await complete(Reply(status, body), PROMPT, "by", "x" * 5_000)
    assert completion.values == []
    server = make_server(FakeDispatcher(lambda *_: {}), Catalog([make_tool("try_out")]), [PRAISE])
    async with Client(server) as client:
        result = await client.complete(PROMPT, {"name": "by", "value": ""})
    assert result.completion.values == []


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (PromptReference(name="blame"), "The prompts are: praise."),
        (
            ResourceTemplateReference(uri="carrel://hat/{hat_id}"),
            f"The templates are: {BOOK.uri}, ",
        ),
    ],
)
async def test_unknown_reference_error_lists_the_valid_ones(
    reference: PromptReference | ResourceTemplateReference, message: str
) -> None:
    with FakeToolServer(make_names_reply([], 0)) as server:
        async with connect_client(server) as client:
            with pytest.raises(MCPError) as caught:
                await client.complete(reference, {"name": "by", "value": "a"})
    assert caught.value.code == INVALID_PARAMS
    assert message in caught.value.message
