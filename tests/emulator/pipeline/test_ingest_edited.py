"""Ingest from any origin keeps the title, author and tags that the owner set.

An origin is a place from which a source comes: a folder, a bucket or a Readwise account.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from shared.core.caller import Caller, Role
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.readwise import FakeReadwise
from tests.support.ingest_runs import make_readwise_settings, run_ingest
from tests.support.source_files import write_file
from tests.support.stored_documents import read_chunks_by_text, read_documents
from tests.support.tool_calls import call_result

OWNER: Final = Caller.of("anna", role=Role.OWNER)
TEXT: Final = "Reef early."
"""The only passage of the source that tests edit."""


class Fields(NamedTuple):
    """The fields that an owner may edit."""

    title: str
    author: str
    tags: list[str]


@dataclass(frozen=True)
class Origin:
    """An origin with a source.

    Attributes:
        settings: Settings by which ingest reads this origin.
        put: Stores the source with these fields, or changes them.
        remove: Deletes the source.
    """

    settings: Settings
    put: Callable[[Fields], None]
    remove: Callable[[], object]


def make_origin_of_files(
    settings: Settings, write: Callable[[str, str], object], remove: Callable[[], object]
) -> Origin:
    """Make an origin with a Markdown file.

    It has three more files, because the deletion of over a third must be confirmed.
    """

    def put(fields: Fields) -> None:
        head = f"title: {fields.title}\nauthor: {fields.author}\ntags: {json.dumps(fields.tags)}"
        write("a.md", f"---\n{head}\n---\n{TEXT}")

    for number in range(3):
        write(f"{number}.md", f"Knead well, note {number}.")
    return Origin(settings, put, remove)


@pytest.fixture(params=["folder", "bucket", "readwise"])
def origin(
    request: pytest.FixtureRequest,
    project: str,
    tmp_path: Path,
    storage: FakeCloudStorage,
    readwise: FakeReadwise,
) -> Origin:
    """Each origin in turn."""
    if request.param == "folder":
        folder = tmp_path / "notes"
        return make_origin_of_files(
            Settings(google_cloud_project=project, ingest_path=str(folder)),
            partial(write_file, folder),
            (folder / "a.md").unlink,
        )
    if request.param == "bucket":
        return make_origin_of_files(
            Settings(google_cloud_project=project, ingest_bucket="gs://library"),
            partial(storage.put, "library"),
            partial(storage.delete, "library", "a.md"),
        )

    def put(fields: Fields) -> None:
        readwise.advance(hours=1)
        tags = [{"id": number, "name": tag} for number, tag in enumerate(fields.tags)]
        book = {"title": fields.title, "readable_title": fields.title, "author": fields.author}
        readwise.put_book(7, TEXT, **book, book_tags=tags, is_deleted=False)

    def remove() -> None:
        readwise.advance(hours=1)
        readwise.delete_book(7)

    return Origin(make_readwise_settings(readwise, project), put, remove)


@pytest.fixture
def settings(origin: Origin) -> Settings:
    """Settings by which ingest reads the origin."""
    return origin.settings


async def ingest_and_count(ctx: Context) -> dict[str, int]:
    """Ingest, and return the counts of the report, except `read`."""
    counts = (await run_ingest(ctx)).counts
    return {name: count for name, count in counts.items() if name != "read"}


async def edit_source(app: App, ctx: Context, revision: int, **fields: Any) -> dict[str, Any]:
    """Edit the source as the owner; return the tool's result."""
    source_id = (await read_chunks_by_text(ctx))[TEXT]["source_id"]
    arguments = {"source_id": source_id, "revision": revision, **fields}
    return await call_result(app, "edit_source", OWNER, **arguments)


async def read_fields(ctx: Context) -> Fields:
    """Return the fields of the source, which its passage must share."""
    chunk = (await read_chunks_by_text(ctx))[TEXT]
    source = (await read_documents(ctx, "sources"))[chunk["source_id"]]
    fields = Fields(source["title"], source["author"], source["tags"])
    assert fields == Fields(chunk["title"], chunk["author"], chunk["tags"])
    return fields


async def test_edited_fields_stay_and_other_fields_are_updated(
    app: App, ctx: Context, origin: Origin
) -> None:
    origin.put(Fields("Sails", "Ann Helm", ["sea"]))
    await run_ingest(ctx)
    await edit_source(app, ctx, 0, title="Under Sail", tags=["boats"])

    origin.put(Fields("Sails II", "A. Helm", ["sea", "wind"]))
    assert await ingest_and_count(ctx) == {"sources": 1, "updated": 1, "edits kept": 1}
    assert await read_fields(ctx) == Fields("Under Sail", "A. Helm", ["boats"])

    out = await edit_source(app, ctx, 1, reset=["title", "tags"])
    assert "origin" not in out
    assert await read_fields(ctx) == Fields("Sails II", "A. Helm", ["sea", "wind"])

    origin.put(Fields("Sails III", "A. Helm", ["sea"]))
    assert await ingest_and_count(ctx) == {"sources": 1, "updated": 1}
    assert await read_fields(ctx) == Fields("Sails III", "A. Helm", ["sea"])


async def test_edits_survive_the_deletion_and_return_of_a_source(
    app: App, ctx: Context, origin: Origin
) -> None:
    origin.put(Fields("Sails", "Ann Helm", ["sea"]))
    await run_ingest(ctx)
    out = await edit_source(app, ctx, 0, title="Under Sail", tags=["boats"])

    origin.remove()
    await run_ingest(ctx)
    assert out["source_id"] not in await read_documents(ctx, "sources")

    origin.put(Fields("Sails II", "A. Helm", ["sea"]))
    assert (await ingest_and_count(ctx))["edits kept"] == 1
    assert await read_fields(ctx) == Fields("Under Sail", "A. Helm", ["boats"])
    source = (await read_documents(ctx, "sources"))[out["source_id"]]
    assert source["origin_values"] == {"title": "Sails II", "tags": ["sea"]}


@pytest.mark.parametrize("origin", ["folder"], indirect=True)
async def test_a_renamed_file_keeps_its_edits(
    app: App, ctx: Context, origin: Origin, tmp_path: Path
) -> None:
    origin.put(Fields("Sails", "Ann Helm", ["sea"]))
    await run_ingest(ctx)
    await edit_source(app, ctx, 0, title="Under Sail", tags=["boats"])
    (tmp_path / "notes/a.md").rename(tmp_path / "notes/c.md")
    assert (await ingest_and_count(ctx))["edits kept"] == 1
    assert await read_fields(ctx) == Fields("Under Sail", "Ann Helm", ["boats"])


async def test_ingest_does_not_change_saved_notes(app: App, ctx: Context, origin: Origin) -> None:
    """A note stays when an origin gets, changes and loses a source of the same text."""
    note = await call_result(app, "save_note", OWNER, text=TEXT, tags=["sea"])
    [chunk_id] = note["chunk_ids"]

    async def read_note() -> tuple[object, object]:
        sources, chunks = [await read_documents(ctx, name) for name in ("sources", "chunks")]
        return sources[note["source_id"]], chunks[chunk_id]

    before = await read_note()
    origin.put(Fields("Reefing", "Ida Loaf", ["boats"]))
    await run_ingest(ctx)
    origin.put(Fields("Reefs", "Ann Bo", []))
    await run_ingest(ctx)
    origin.remove()
    assert (await ingest_and_count(ctx))["deleted"] == 1
    assert await read_note() == before
