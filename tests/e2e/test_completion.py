"""Clients get completions for arguments of prompts and resource templates.

The official Python client runs with the newest revision and with a handshake, as before 2026.
"""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from infra.build.discovery import tools
from tests.support.knowledge import BAKING, SAILING

INVALID_PARAMS = -32602
COMPLETED_KINDS = {kind for tool in tools() for kind in tool.completes}


def test_every_kind_of_name_has_completions() -> None:
    assert COMPLETED_KINDS == {"tag", "author", "category", "source", "cluster"}


@pytest.mark.parametrize(
    ("prompt", "argument", "name"),
    [
        ("author_deep_dive", "author", str(BAKING.author)),
        ("compare_sources", "first_source", BAKING.title),
        ("compare_sources", "second_source", SAILING.title),
        ("explore_topic", "tag", BAKING.tags[0]),
    ],
)
async def test_authors_titles_and_tags_are_completed_as_written(
    client: Client, prompt: str, argument: str, name: str
) -> None:
    value = {"name": argument, "value": name[:3].lower()}
    completed = (await client.complete(PromptReference(name=prompt), value)).completion
    assert name in completed.values
    assert completed.total == len(completed.values)
    assert not completed.has_more


async def test_a_source_title_is_completed_to_its_id(client: Client) -> None:
    ref = ResourceTemplateReference(uri="carrel://source/{source_id}")
    value = {"name": "source_id", "value": BAKING.title[:3]}
    assert BAKING.source_id in (await client.complete(ref, value)).completion.values


async def test_a_period_is_completed(client: Client) -> None:
    value = {"name": "period", "value": "last_3"}
    completed = await client.complete(PromptReference(name="weekly_review"), value)
    assert completed.completion.values == ["last_3_days", "last_30_days"]


@pytest.mark.parametrize(
    ("ref", "argument"),
    [
        (PromptReference(name="explore_topic"), "topic"),
        (ResourceTemplateReference(uri="carrel://chunk/{chunk_id}"), "chunk_id"),
    ],
)
async def test_free_text_and_chunk_ids_have_no_completions(
    client: Client, ref: PromptReference | ResourceTemplateReference, argument: str
) -> None:
    completed = (await client.complete(ref, {"name": argument, "value": "a"})).completion
    assert completed.values == []
    assert completed.total == 0
    assert not completed.has_more


@pytest.mark.parametrize(
    "ref", [PromptReference(name="nope"), ResourceTemplateReference(uri="carrel://hat/{hat_id}")]
)
async def test_an_unknown_prompt_or_template_is_rejected(
    client: Client, ref: PromptReference | ResourceTemplateReference
) -> None:
    with pytest.raises(MCPError, match="There is no") as caught:
        await client.complete(ref, {"name": "a", "value": ""})
    assert caught.value.code == INVALID_PARAMS
