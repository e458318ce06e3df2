"""A knowledge base is filled, changed and copied with the command line and the official client.

Files are ingested, a note is saved about one, another is edited, a third is forgotten and restored.
Then files are deleted and renamed, and an export is ingested into an empty base.
"""

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Final

import pytest
from mcp import Client

from infra.build.discovery import ROOT
from shared.core.ids import parse_source_id
from tests.support.folder_comparison import find_differing_files
from tests.support.gateway_process import INLINE_MAIN, run_gateway
from tests.support.source_files import write_file

pytestmark = [pytest.mark.slow]

COMMAND: Final = "from infra.cli.main import main; main()"
TIMEOUT_SECONDS: Final = 300
"""A command that takes this long hangs, even on a busy machine."""
SUBJECTS: Final = (
    "rye bread", "reefing the mainsail", "pruning apple trees", "tuning a piano",
    "soldering copper pipes", "keeping bees over winter", "drying mushrooms", "baking on a stone",
    "reading a tide table", "planting garlic", "felting wool", "sharpening chisels",
    "brewing ginger beer", "laying a brick wall", "binding a book", "waxing skis",
    "making soap", "catching trout", "roasting coffee", "spinning flax",
)  # fmt: skip
NOTE: Final = "Grandmother fed her hives with sugar water in the first week of October."


class Base:
    """A local knowledge base, which commands and a gateway share."""

    def __init__(self) -> None:
        """Begin with an empty base."""
        self.environment = {"GOOGLE_CLOUD_PROJECT": f"chain-{uuid.uuid4().hex[:16]}"}

    def run(self, *arguments: str) -> str:
        """Run a command that must succeed, and return its output."""
        process = subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout


async def call_tool(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    return dict(result.structured_content or {})


async def read_sources_by_title(client: Client) -> dict[str, str]:
    """Return the ids of all sources by title."""
    sources = (await call_tool(client, "list_sources", limit=50))["sources"]
    return {source["title"]: source["source_id"] for source in sources}


async def search_sources(client: Client, query: str) -> set[str]:
    """Return the ids of the sources in which a search finds passages."""
    hits = (await call_tool(client, "search_kb", query=query))["results"]
    return {parse_source_id(hit["chunk_id"]) for hit in hits}


async def test_a_base_is_filled_changed_and_moved(tmp_path: Path, log: Path) -> None:
    vault = tmp_path / "vault"
    for number, subject in enumerate(SUBJECTS):
        write_file(vault, f"{number}.md", f"# {subject.title()}\n\nHow I go about {subject}.")
    base, copy = Base(), Base()
    base.run("ingest", str(vault))
    with run_gateway(INLINE_MAIN, base.environment, log) as gateway:
        async with Client(gateway.endpoint) as client:
            source_ids = await read_sources_by_title(client)
            assert len(source_ids) == len(SUBJECTS)
            note_id = await change_base(client, source_ids)

    for number in (0, 1, 2):
        (vault / f"{number}.md").unlink()
    (vault / "3.md").rename(vault / "piano.md")
    (vault / "sub").mkdir()
    (vault / "4.md").rename(vault / "sub" / "4.md")
    output = base.run("ingest", str(vault))
    assert "3 of 20 files disappeared: 3 sources (3 passages) will be forgotten." in output
    assert "2 renamed or moved files: the ids stay." in output
    with run_gateway(INLINE_MAIN, base.environment, log) as gateway:
        async with Client(gateway.endpoint) as client:
            contents = await check_base(client, source_ids, note_id)

    base.run("export", str(tmp_path / "export"))
    copy.run("ingest", str(tmp_path / "export"))
    copy.run("export", str(tmp_path / "second"))
    assert find_differing_files(tmp_path / "export", tmp_path / "second") == []
    with run_gateway(INLINE_MAIN, copy.environment, log) as gateway:
        async with Client(gateway.endpoint) as client:
            assert await check_base(client, source_ids, note_id) == contents


async def change_base(client: Client, source_ids: dict[str, str]) -> str:
    """Save a note, edit a source, forget two, restore one of them; return the note's id."""
    bees = await call_tool(client, "get_source", source_id=source_ids["Keeping Bees Over Winter"])
    chunk_id = bees["chunks"][0]["chunk_id"]
    note = await call_tool(client, "save_note", text=NOTE, about=chunk_id, tags=["family"])
    note_id = str(note["source_id"])
    assert note_id in await search_sources(client, "sugar for hives")

    piano = source_ids["Tuning A Piano"]
    edit = {"source_id": piano, "revision": 0, "title": "Strings and Hammers"}
    await call_tool(client, "edit_source", **edit, tags=["music"])

    for title in ("Waxing Skis", "Making Soap"):
        await call_tool(client, "forget", source_id=source_ids[title], reason="a mistake")
    assert source_ids["Waxing Skis"] not in await search_sources(client, "waxing skis")
    await call_tool(client, "forget", source_id=source_ids["Waxing Skis"], forgotten=False)
    assert source_ids["Waxing Skis"] in await search_sources(client, "waxing skis")
    return note_id


async def check_base(client: Client, source_ids: dict[str, str], note_id: str) -> dict[str, Any]:
    """Check that the base has all changes; return its contents.

    Args:
        client: A client of the base.
        source_ids: The ids of the sources before the changes, by title.
        note_id: The id of the note about bees.
    """
    sources = await read_sources_by_title(client)
    forgotten = {"Rye Bread", "Reefing The Mainsail", "Pruning Apple Trees", "Making Soap"}
    assert forgotten.isdisjoint(sources)
    assert len(sources) == len(SUBJECTS) - len(forgotten) + 1  # the note
    assert sources["Strings and Hammers"] == source_ids["Tuning A Piano"]
    assert sources["Soldering Copper Pipes"] == source_ids["Soldering Copper Pipes"]
    assert note_id in await search_sources(client, "sugar water hives")
    assert source_ids["Waxing Skis"] in await search_sources(client, "waxing skis")
    assert source_ids["Making Soap"] not in await search_sources(client, "making soap")
    assert source_ids["Tuning A Piano"] in await search_sources(client, "strings hammers")
    bees = await call_tool(client, "get_source", source_id=source_ids["Keeping Bees Over Winter"])
    chunk = await call_tool(client, "get_chunk", chunk_id=bees["chunks"][0]["chunk_id"])
    assert [note["source_id"] for note in chunk["notes"]] == [note_id]

    page = await call_tool(client, "list_sources", tag="music")
    assert [source["source_id"] for source in page["sources"]] == [source_ids["Tuning A Piano"]]

    full_sources = [
        await call_tool(client, "get_source", source_id=source_id)
        for source_id in sorted(sources.values())
    ]
    # Each base has its own clusters and, except for notes, counts its own revisions of sources.
    fields = ("source_id", "title", "author", "tags", "url", "category", "chunk_count")
    return {
        "sources": [{name: source.get(name) for name in fields} for source in full_sources],
        "texts": [[part["text"] for part in source["chunks"]] for source in full_sources],
        "knowledge_card": chunk.get("knowledge_card"),
    }
