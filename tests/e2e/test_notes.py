"""The official client saves a note, finds it, changes it and undoes the change.

The search uses the local embedder.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.support.gateway_process import INLINE_MAIN, RunningGateway, run_gateway
from tests.support.mcp_wire import assert_matches_schema


@pytest.fixture
def gateway(log: Path) -> Iterator[RunningGateway]:
    """A local gateway with an empty knowledge base, whose owner calls without a credential."""
    environment = {"GOOGLE_CLOUD_PROJECT": f"notes-{uuid.uuid4().hex[:16]}"}
    with run_gateway(INLINE_MAIN, environment, log) as gateway:
        yield gateway


async def call_tool(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed; its result must fit the listed schema."""
    schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    content = dict(result.structured_content or {})
    assert_matches_schema(content, schemas[name] or {})
    return content


async def test_a_note_is_saved_found_changed_and_restored(gateway: RunningGateway) -> None:
    text = "Grandmother proves her dough overnight on the cold stairs to the cellar."
    async with Client(gateway.endpoint) as client:
        note = await call_tool(client, "save_note", text=text, tags=["family"])
        for query in ("proves cellar", "where does bread rise at night?"):
            hits = (await call_tool(client, "search_kb", query=query))["results"]
            assert [hit["source_id"] for hit in hits] == [note["source_id"]]

        [chunk_id] = note["chunk_ids"]
        thought = await call_tool(
            client, "save_note", chunk_id=chunk_id, text="Ask her how cold the stairs are."
        )
        chunk = await call_tool(client, "get_chunk", chunk_id=chunk_id)
        assert [linked["source_id"] for linked in chunk["notes"]] == [thought["source_id"]]

        base = {"source_id": note["source_id"], "revision": note["revision"]}
        changed_note = await call_tool(client, "save_note", **base, text="She buys bread now.")
        undo = changed_note["undo"]
        await call_tool(client, undo["tool"], **undo["arguments"])
        source = await call_tool(client, "get_source", source_id=note["source_id"])
        assert source["revision"] == 3
        assert source["chunks"][0]["text"] == text
