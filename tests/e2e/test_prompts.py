"""Clients list the prompts and get their texts.

The official Python client runs with the newest revision and with a handshake, as before 2026.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.support.gateway_process import RunningGateway
from tests.support.mcp_wire import MODERN

INVALID_PARAMS = -32602
EXPECTED_ARGUMENTS = {
    "explore_topic": {"topic": True, "tag": False},
    "author_deep_dive": {"author": True},
    "compare_sources": {"first_source": True, "second_source": True, "question": False},
    "weekly_review": {"period": False},
}
"""The arguments of each prompt in order, and whether they are required."""


@pytest.fixture(params=[MODERN, "legacy"])
async def client(inline: RunningGateway, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A connected client."""
    async with Client(inline.endpoint, mode=request.param) as connected:
        yield connected


async def test_the_prompts_and_their_arguments_are_listed(client: Client) -> None:
    prompts = (await client.list_prompts()).prompts
    assert {prompt.name for prompt in prompts} == EXPECTED_ARGUMENTS.keys()
    for prompt in prompts:
        arguments = [(argument.name, argument.required) for argument in prompt.arguments or []]
        assert arguments == list(EXPECTED_ARGUMENTS[prompt.name].items())
        assert prompt.title
        assert prompt.description


@pytest.mark.parametrize("name", EXPECTED_ARGUMENTS)
async def test_a_prompt_is_one_message_of_the_user(client: Client, name: str) -> None:
    expected = EXPECTED_ARGUMENTS[name].items()
    arguments = {argument: "Käse 🧀" for argument, is_required in expected if is_required}
    prompt = await client.get_prompt(name, arguments)
    [message] = prompt.messages
    assert message.role == "user"
    assert message.content.type == "text"
    assert prompt.description
    text = message.content.model_dump()["text"]
    assert text.count('"Käse 🧀"') >= len(arguments)
    assert "Cite title and author" in text


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("no_such_prompt", {}, "no prompt 'no_such_prompt'. The prompts are: explore_topic, "),
        ("compare_sources", {"first_source": "A"}, "compare_sources needs second_source."),
        ("weekly_review", {"week": "3"}, "weekly_review takes only these arguments: period."),
        ("weekly_review", {"period": "3"}, "period must be one of today, yesterday, "),
        ("explore_topic", {"topic": "x" * 5_000}, "one line of at most 300 characters"),
    ],
)
async def test_an_invalid_prompt_request_says_why(
    client: Client, name: str, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(MCPError) as caught:
        await client.get_prompt(name, arguments)
    assert caught.value.code == INVALID_PARAMS
    assert message in caught.value.message
