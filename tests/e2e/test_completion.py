"""Clients get completions for arguments of prompts and resource templates.

The official Python client runs with the newest revision and with a handshake, as before 2026.
"""

import pytest
from mcp import Client
from mcp_types import PromptReference, ResourceTemplateReference

from infra.build.discovery import tools
from tests.support.knowledge import BAKING, SAILING

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
