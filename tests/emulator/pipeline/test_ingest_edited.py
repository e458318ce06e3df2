"""Ingest from any origin keeps the title, author and tags that the owner set.

An origin is a place from which a source comes: a folder, a bucket or a Readwise account.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from shared.core.caller import Caller, Role
from shared.core.settings import Settings
from shared.runtime.context import App, Context
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.readwise import FakeReadwise
from tests.support.readwise_runs import make_readwise_settings, run_ingest
from tests.support.source_files import write_file
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call_result

BUCKET: Final = "library"
OWNER: Final = Caller.of("anna", role=Role.OWNER)


class Origin:
    """An origin with one source of one passage.

    Attributes:
        settings: Settings by which ingest reads this origin.
    """

    settings: Settings

    def put(self, title: str, author: str, tags: Sequence[str]) -> None:
        """Store the source, or change it."""
        raise NotImplementedError

    def remove(self) -> None:
        """Delete the source."""
        raise NotImplementedError

    def put_others(self) -> None:
        """Store more sources, because the deletion of over a third of them must be confirmed."""


class Folder(Origin):
    """A folder with a Markdown file."""

    def __init__(self, project: str, path: Path) -> None:
        self.settings = Settings(google_cloud_project=project, ingest_path=str(path))
        self._path = path

    def put(self, title: str, author: str, tags: Sequence[str]) -> None:
        write_file(self._path, "a.md", make_markdown(title, author, tags))

    def remove(self) -> None:
        (self._path / "a.md").unlink()

    def put_others(self) -> None:
        for number in range(3):
            write_file(self._path, f"{number}.md", f"Knead well, note {number}.")

    def rename(self) -> None:
        """Give the file another name."""
        (self._path / "a.md").rename(self._path / "c.md")


class Bucket(Origin):
    """A Cloud Storage bucket with a Markdown file."""

    def __init__(self, project: str, storage: FakeCloudStorage) -> None:
        self.settings = Settings(google_cloud_project=project, ingest_bucket=f"gs://{BUCKET}")
        self._storage = storage

    def put(self, title: str, author: str, tags: Sequence[str]) -> None:
        self._storage.put(BUCKET, "a.md", make_markdown(title, author, tags))

    def remove(self) -> None:
        self._storage.delete(BUCKET, "a.md")

    def put_others(self) -> None:
        for number in range(3):
            self._storage.put(BUCKET, f"{number}.md", f"Knead well, note {number}.")


class ReadwiseAccount(Origin):
    """A Readwise account with a book."""

    def __init__(self, project: str, readwise: FakeReadwise) -> None:
        self.settings = make_readwise_settings(readwise, project)
        self._readwise = readwise

    def put(self, title: str, author: str, tags: Sequence[str]) -> None:
        names = [{"id": number, "name": tag} for number, tag in enumerate(tags)]
        self._readwise.advance(hours=1)
        fields = {"title": title, "readable_title": title, "author": author, "book_tags": names}
        self._readwise.put_book(7, "Reef early.", **fields, is_deleted=False)

    def remove(self) -> None:
        self._readwise.advance(hours=1)
        self._readwise.delete_book(7)


def make_markdown(title: str, author: str, tags: Sequence[str]) -> str:
    head = f"title: {title}\nauthor: {author}\ntags: [{', '.join(tags)}]"
    return f"---\n{head}\n---\nReef early."


@pytest.fixture(params=["folder", "bucket", "readwise"])
def origin(
    request: pytest.FixtureRequest, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Origin]:
    """Each origin in turn."""
    match request.param:
        case "folder":
            yield Folder(project, tmp_path / "notes")
        case "bucket":
            with FakeCloudStorage(BUCKET) as storage:
                monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage.base_url)
                yield Bucket(project, storage)
        case "readwise":
            with FakeReadwise() as readwise:
                yield ReadwiseAccount(project, readwise)


@pytest.fixture
def settings(origin: Origin) -> Settings:
    """Settings by which ingest reads the origin."""
    return origin.settings


async def edit_source(app: App, ctx: Context, revision: int, **fields: Any) -> dict[str, Any]:
    """Edit the source as the owner; return the tool's result."""
    chunks = (await read_chunks(ctx)).values()
    [source_id] = {chunk["source_id"] for chunk in chunks if chunk["content"] == "Reef early."}
    arguments = {"source_id": source_id, "revision": revision, **fields}
    return await call_result(app, "edit_source", OWNER, **arguments)


class Fields(NamedTuple):
    """The fields that an owner may edit."""

    title: str
    author: str
    tags: list[str]


async def read_fields(ctx: Context) -> Fields:
    """Return the fields of the only source, which its only passage must share."""
    [source] = (await read_documents(ctx, "sources")).values()
    [chunk] = (await read_chunks(ctx)).values()
    fields = Fields(source["title"], source["author"], source["tags"])
    assert fields == Fields(chunk["title"], chunk["author"], chunk["tags"])
    return fields


async def test_edited_fields_stay_and_other_fields_are_updated(
    app: App, ctx: Context, origin: Origin
) -> None:
    origin.put("Sails", "Ann Helm", ["sea"])
    await run_ingest(app)
    await edit_source(app, ctx, 0, title="Under Sail", tags=["boats"])

    origin.put("Sails II", "A. Helm", ["sea", "wind"])
    report = await run_ingest(app)
    assert report.counts == {"read": 1, "sources": 1, "updated": 1, "edits kept": 1}
    assert await read_fields(ctx) == Fields("Under Sail", "A. Helm", ["boats"])

    out = await edit_source(app, ctx, 1, reset=["title", "tags"])
    assert "origin" not in out
    assert await read_fields(ctx) == Fields("Sails II", "A. Helm", ["sea", "wind"])

    origin.put("Sails III", "A. Helm", ["sea"])
    assert "edits kept" not in (await run_ingest(app)).counts
    assert await read_fields(ctx) == Fields("Sails III", "A. Helm", ["sea"])


async def test_edits_survive_the_deletion_and_return_of_a_source(
    app: App, ctx: Context, origin: Origin
) -> None:
    origin.put("Sails", "Ann Helm", ["sea"])
    origin.put_others()
    await run_ingest(app)
    out = await edit_source(app, ctx, 0, title="Under Sail", tags=["boats"])

    origin.remove()
    await run_ingest(app)
    assert out["source_id"] not in await read_documents(ctx, "sources")

    origin.put("Sails II", "A. Helm", ["sea"])
    assert (await run_ingest(app)).counts["edits kept"] == 1
    source = (await read_documents(ctx, "sources"))[out["source_id"]]
    assert source["title"] == "Under Sail"
    assert source["author"] == "A. Helm"
    assert source["origin_values"] == {"title": "Sails II", "tags": ["sea"]}


@pytest.mark.parametrize("origin", ["folder"], indirect=True)
async def test_a_renamed_file_keeps_its_edits(app: App, ctx: Context, origin: Folder) -> None:
    origin.put("Sails", "Ann Helm", ["sea"])
    await run_ingest(app)
    await edit_source(app, ctx, 0, title="Under Sail", tags=["boats"])
    origin.rename()
    assert (await run_ingest(app)).counts["edits kept"] == 1
    assert await read_fields(ctx) == Fields("Under Sail", "Ann Helm", ["boats"])


async def test_ingest_does_not_change_saved_notes(app: App, ctx: Context, origin: Origin) -> None:
    """A note stays when an origin gets, changes and loses a source of the same text."""
    note = await call_result(app, "save_note", OWNER, text="Reef early.", tags=["sea"])
    before = (await read_documents(ctx, "sources"))[note["source_id"]]
    chunk_before = (await read_chunks(ctx))[note["chunk_ids"][0]]

    origin.put("Reefing", "Ida Loaf", ["boats"])
    origin.put_others()
    await run_ingest(app)
    origin.put("Reefs", "Ann Bo", [])
    await run_ingest(app)
    origin.remove()
    assert (await run_ingest(app)).counts["deleted"] == 1

    assert (await read_documents(ctx, "sources"))[note["source_id"]] == before
    assert (await read_chunks(ctx))[note["chunk_ids"][0]] == chunk_before
