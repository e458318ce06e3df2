"""Arguments of prompts and resource templates are completed by calling a tool over HTTP."""

from __future__ import annotations

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
from shared.core.errors import InvalidInput, Unavailable
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
TWO_ADAS: list[dict[str, Any]] = [
    {"name": "Ada", "id": "a-1", "count": 3},
    {"name": "Adam", "id": None, "count": 1},
]


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
    reply: Reply, reference: PromptReference | ResourceTemplateReference, name: str, value: str
) -> tuple[Completion, list[dict[str, Any]]]:
    """Return the completions of a value, and the arguments of the calls."""
    with FakeToolServer(reply) as server:
        async with connect_client(server) as client:
            result = await client.complete(reference, {"name": name, "value": value})
        return result.completion, [json.loads(body)["arguments"] for body in server.bodies]


async def complete_with_error(
    reply: Reply, reference: PromptReference | ResourceTemplateReference, value: str
) -> MCPError:
    """Return the error of a completion."""
    with FakeToolServer(reply) as server:
        async with connect_client(server) as client:
            with pytest.raises(MCPError) as caught:
                await client.complete(reference, {"name": "by", "value": value})
    return caught.value


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_both_protocols_offer_completion(mode: str) -> None:
    with FakeToolServer(make_names_reply(TWO_ADAS, 2)) as server:
        async with connect_client(server, mode) as client:
            result = await client.complete(PROMPT, {"name": "by", "value": "ad"})
    assert result.completion.values == ["Ada", "Adam"]


async def test_an_argument_of_a_prompt_is_completed_to_names() -> None:
    completion, sent_arguments = await complete(make_names_reply(TWO_ADAS, 2), PROMPT, "by", "ad")
    assert completion.values == ["Ada", "Adam"]
    assert completion.total == 2
    assert not completion.has_more
    assert sent_arguments == [{"kind": "author", "prefix": "ad"}]


async def test_a_variable_of_a_template_is_completed_to_ids() -> None:
    completion, sent_arguments = await complete(
        make_names_reply(TWO_ADAS, 2), TEMPLATE, "shelf_id", "ad"
    )
    assert completion.values == ["a-1"]
    assert sent_arguments == [{"kind": "shelf", "prefix": "ad"}]


async def test_at_most_a_hundred_values_are_sent_with_their_total() -> None:
    names = [{"name": f"Ada {number}", "id": None, "count": 1} for number in range(120)]
    completion, _ = await complete(make_names_reply(names, 500), PROMPT, "by", "")
    assert len(completion.values) == 100
    assert completion.total == 500
    assert completion.has_more


async def test_common_name_is_suggested_once() -> None:
    completion, _ = await complete(
        make_names_reply([TWO_ADAS[0], TWO_ADAS[0]], 2), PROMPT, "by", ""
    )
    assert completion.values == ["Ada"]
    assert completion.total == 1
    assert not completion.has_more


async def test_an_argument_with_choices_is_completed_without_a_call() -> None:
    completion, sent_arguments = await complete(make_names_reply(TWO_ADAS, 2), PROMPT, "tone", "lo")
    assert completion.values == ["loud", "low"]
    assert sent_arguments == []


@pytest.mark.parametrize(
    ("reference", "argument"),
    [
        (PROMPT, "why"),
        (PROMPT, "in"),
        (PROMPT, "nothing"),
        (TEMPLATE, "nothing"),
        (ResourceTemplateReference(uri=BOOK.uri), "book_id"),
    ],
)
async def test_argument_without_a_completer_has_no_suggestions(
    reference: PromptReference | ResourceTemplateReference, argument: str
) -> None:
    completion, sent_arguments = await complete(
        make_names_reply(TWO_ADAS, 2), reference, argument, "a"
    )
    assert completion.values == []
    assert completion.total == 0
    assert not completion.has_more
    assert sent_arguments == []


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
    error = await complete_with_error(make_names_reply([], 0), reference, "a")
    assert error.code == INVALID_PARAMS
    assert message in error.message


async def test_rejected_prefix_has_no_suggestions() -> None:
    refusal = json.dumps({"error": InvalidInput("prefix: too long").to_wire()}).encode()
    completion, _ = await complete(Reply(400, refusal), PROMPT, "by", "x" * 5_000)
    assert completion.values == []


async def test_unavailable_tool_gives_no_suggestions() -> None:
    failure = json.dumps({"error": Unavailable("It rests.", retry_after=5.0).to_wire()}).encode()
    completion, _ = await complete(Reply(503, failure), PROMPT, "by", "a")
    assert completion.values == []


async def test_catalog_without_a_completer_gives_no_suggestions() -> None:
    server = make_server(FakeDispatcher(lambda *_: {}), Catalog([make_tool("try_out")]), [PRAISE])
    async with Client(server) as client:
        result = await client.complete(PROMPT, {"name": "by", "value": ""})
    assert result.completion.values == []
