"""An export, ingested into an empty base, gives the same sources, chunks and cards."""

from __future__ import annotations

import gc
import os
import re
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.ingest.job import ingest
from infra.export import exporting
from infra.export.exporting import export_all
from infra.local.local_database import SAMPLE
from infra.local.sample.knowledge import KNOWLEDGE
from shared.core.caller import Caller, Role
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.cards import Cards
from shared.knowledge.ingestion import BATCH_SIZE, Ingestion
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.overrides import EDITABLE
from shared.knowledge.source import Section, Source
from tests.support.folder_comparison import find_differing_files
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, chunk_source, index_all, store_sources
from tests.support.odd_sources import make_odd_sources, make_odd_text
from tests.support.source_files import write_file
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tool_calls import call_result

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from infra.export.exporting import ExportReport
    from shared.runtime.context import App, Context
    from tests.emulator.conftest import NewBackend, NewBase

pytestmark = pytest.mark.anyio
SEED: Final = int(os.environ.get("KILL_SEED", "23"))
NOON: Final = datetime(2026, 1, 31, 12, tzinfo=UTC)
OWNER: Final = Caller.of("anna", role=Role.OWNER)
LATER: Final = NOON + timedelta(days=99)
OLDER: Final = "The train to Berlin takes two hours."
NEWER: Final = "We spend nine days in Berlin."
SHARED_FIELDS: Final = {
    "chunks": (*EDITABLE, "own_tags", "fingerprint"),
    "sources": (*EDITABLE, "origin_values", "title_key", "facets"),
}
"""The fields that edits change, by collection."""
CHUNK_BOOKKEEPING: Final = ("created_at", "updated_at", "pending")
"""These fields of a chunk say what this base did, and when."""


@pytest.fixture
def base(new_base: NewBase) -> Context:
    """An empty base."""
    return new_base(NOON)


@pytest.fixture
def other(new_base: NewBase) -> Context:
    """An empty base in which an export is restored, later."""
    return new_base(LATER)


async def write_export(ctx: Context, folder: Path, user: str | None = None) -> ExportReport:
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs
    report = await export_all(ctx.database, folder, user, lambda _: None)
    assert report.incomplete == []
    return report


async def run_ingest(ctx: Context, path: Path) -> dict[str, int]:
    settings = Settings(
        google_cloud_project=ctx.settings.google_cloud_project, ingest_path=str(path)
    )
    report = await ingest(replace(ctx, settings=settings), make_ample_budget())
    assert report.failures == []
    return dict(report.counts)


async def read_stored(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return what the base knows, without what its jobs did and when."""
    state = await read_documents(ctx, "sources")
    for chunk_id, chunk in (await read_chunks(ctx)).items():
        state[f"chunks/{chunk_id}"] = {
            name: value for name, value in chunk.items() if name not in CHUNK_BOOKKEEPING
        }
    return state


async def save(ctx: Context, sources: Sequence[Source], now: datetime = NOON) -> None:
    for start in range(0, len(sources), BATCH_SIZE):
        batch = sources[start : start + BATCH_SIZE]
        await Ingestion(ctx.database).save([chunk_source(source) for source in batch], now)


def read_markdown_titles(folder: Path) -> dict[str, str]:
    """Return the titles in the front matter of all files, by source id."""
    files = list((folder / "markdown/sources").iterdir())
    blocks = [re.split("^---\n", file.read_text("utf-8"), flags=re.MULTILINE)[1] for file in files]
    fields = [yaml.safe_load(block) for block in blocks]
    return {source["source_id"]: source["title"] for source in fields}


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.slow)])
async def test_odd_sources_survive_a_round_trip(
    base: Context, other: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The files are split, so that a large base has several. A failure prints the seed."""
    random = Random(SEED)  # noqa: S311 - not a secret
    sources = make_odd_sources(random, count)
    await save(base, sources[: count // 2])
    await save(base, sources[count // 2 :], NOON + timedelta(microseconds=1))
    ids = sorted(await read_chunks(base))
    for number, model in enumerate(("extractive", "a-model")):
        cards = {
            chunk_id: KnowledgeCard(make_odd_text(random, 9), (make_odd_text(random, 3), "b"))
            for chunk_id in random.sample(ids, count // 5)
        }
        await Cards(base.database).save(cards, model, NOON + timedelta(days=number))
    monkeypatch.setattr(exporting, "PART_BYTES", 50_000)
    report = await write_export(base, tmp_path / "export")
    assert report.counts["sources"] == count
    assert report.counts["passages"] == len(ids)
    assert len(list((tmp_path / "export").glob("knowledge-*.jsonl"))) > 1
    assert read_markdown_titles(tmp_path / "export") == {
        source.source_id: source.title for source in sources
    }

    counts = await run_ingest(other, tmp_path / "export")
    assert counts == {"sources": count, "created": len(ids), "read": count}
    assert await read_stored(other) == await read_stored(base), SEED
    await write_export(other, tmp_path / "second")
    assert find_differing_files(tmp_path / "export", tmp_path / "second") == []


async def test_the_sample_survives_a_round_trip(
    base: Context, other: Context, tmp_path: Path
) -> None:
    await run_ingest(base, SAMPLE)
    await KNOWLEDGE.run(base, make_ample_budget())
    await write_export(base, tmp_path / "export")
    await run_ingest(other, tmp_path / "export")
    after, before = await read_stored(other), await read_stored(base)
    for chunk in before.values():
        chunk.pop("cluster_id", None)  # clusters are made anew
    assert after == before
    await write_export(other, tmp_path / "second")
    assert find_differing_files(tmp_path / "export", tmp_path / "second") == []


async def test_restored_chunks_wait_for_every_step_but_their_card(
    base: Context, other: Context, tmp_path: Path
) -> None:
    await save(base, [Source("a", "A", sections=(Section("One."), Section("Two.")))])
    [first, second] = sorted(await read_chunks(base))
    await Cards(base.database).save({first: KnowledgeCard("Sum.")}, "a-model", NOON)
    await write_export(base, tmp_path / "export")
    await run_ingest(other, tmp_path / "export")
    restored = await read_chunks(other)
    assert set(restored[first]["pending"]) == {"embed", "index", "extract"}
    assert set(restored[second]["pending"]) == {"embed", "index", "extract", "card"}


async def test_a_card_of_the_base_is_not_replaced(base: Context, tmp_path: Path) -> None:
    await save(base, [Source("a", "A", sections=(Section("One."),))])
    [chunk_id] = await read_chunks(base)
    await Cards(base.database).save({chunk_id: KnowledgeCard("Old.")}, "a-model", NOON)
    await write_export(base, tmp_path / "export")
    await Cards(base.database).save({chunk_id: KnowledgeCard("New.")}, "a-model", NOON)
    assert await run_ingest(base, tmp_path / "export") == {"read": 1}
    assert (await read_chunks(base))[chunk_id]["knowledge_card"]["summary"] == "New."


async def test_what_was_forgotten_is_not_exported_and_ids_stay(
    app: App, ctx: Context, other: Context, tmp_path: Path
) -> None:
    """The second of two equal passages keeps the counter in its id when the first is forgotten."""
    repeat = Section("Reef the mainsail.")
    await store_sources(ctx, replace(SAILING, sections=(repeat, Section("Anchor."), repeat)))
    first = next(name for name, chunk in (await read_chunks(ctx)).items() if chunk["position"] == 1)
    await call_result(app, "forget", OWNER, chunk_id=first)
    await write_export(ctx, tmp_path / "export")
    await run_ingest(other, tmp_path / "export")
    assert (await read_chunks(other)).keys() == (await read_chunks(ctx)).keys()
    assert f"{first}-2" in await read_chunks(other)
    await write_export(other, tmp_path / "second")
    assert find_differing_files(tmp_path / "export", tmp_path / "second") == []


async def test_boundaries_of_another_chunker_stay(
    base: Context, other: Context, tmp_path: Path
) -> None:
    """They may even overlap, or split a sentence."""
    source = Source(
        "a", "A", sections=(Section("One. Two.", start=0), Section("Two. Thr", start=5))
    )
    await save(base, [source])
    await write_export(base, tmp_path / "export")
    await run_ingest(other, tmp_path / "export")
    restored = {chunk["content"]: chunk["start"] for chunk in (await read_chunks(other)).values()}
    assert restored == {"One. Two.": 0, "Two. Thr": 5}


async def test_the_folder_of_a_restored_note_is_unchanged(
    base: Context, other: Context, tmp_path: Path
) -> None:
    """Ingesting the notes again after a restoration writes nothing."""
    text = "Reef the mainsail. " * 300
    note = write_file(tmp_path, "notes/a.md", f"---\ntags: [x]\n---\n{text}").parent
    await run_ingest(base, note)
    await write_export(base, tmp_path / "export")
    await run_ingest(other, tmp_path / "export")
    assert await run_ingest(other, note) == {"read": 1}


async def test_an_export_inside_a_folder_is_left_out(base: Context, tmp_path: Path) -> None:
    note = write_file(tmp_path, "vault/a.md", "Reef the mainsail.")
    await run_ingest(base, note.parent)
    await write_export(base, note.parent / "export")
    settings = Settings(
        google_cloud_project=base.settings.google_cloud_project, ingest_path=str(note.parent)
    )
    report = await ingest(replace(base, settings=settings), make_ample_budget())
    assert dict(report.counts) == {"read": 1}
    [warning] = report.warnings
    assert (warning.name, warning.reason) == (
        "export", "is a Carrel export: ingest it by itself"
    )  # fmt: skip


async def test_a_source_that_lost_a_chunk_is_reported(base: Context, tmp_path: Path) -> None:
    await save(base, [Source("a", "A", sections=(Section("One."), Section("Two.")))])
    [first, _] = await read_chunks(base)
    await base.database.document("chunks", first).delete()
    (tmp_path / "export").mkdir()
    report = await export_all(base.database, tmp_path / "export", None, lambda _: None)
    assert report.incomplete == ["a"]


async def test_an_export_is_larger_than_the_memory_it_takes(base: Context, tmp_path: Path) -> None:
    text = "word " * 4_000
    await save(base, [Source(f"s{n}", "T", sections=(Section(f"{n} {text}"),)) for n in range(100)])
    gc.collect()
    tracemalloc.start()
    await write_export(base, tmp_path / "export")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * len(text)


@pytest.mark.parametrize("rewritten", [True, False])
async def test_edits_survive_a_round_trip(
    app: App, ctx: Context, new_backend: NewBackend, tmp_path: Path, *, rewritten: bool
) -> None:
    """Also a highlight's own tag that its source has by an edit, and passages not yet rewritten."""
    await store_sources(ctx, BAKING, SAILING)
    arguments = {"title": "Loaves", "author": "", "tags": ["dough"]}
    await call_result(app, "edit_source", OWNER, source_id="baking", revision=0, **arguments)
    if not rewritten:
        for chunk in chunk_source(BAKING).chunks:
            fields = {"title": chunk.title, "tags": list(chunk.tags), "own_tags": DELETE_FIELD}
            await ctx.database.document("chunks", chunk.chunk_id).update(fields)
    await write_export(ctx, tmp_path / "export")
    await index_all(ctx)
    target = new_backend(LATER)
    other = target.context(OWNER, Meter())
    counts = await run_ingest(other, tmp_path / "export")
    assert counts == {"sources": 2, "created": 5, "read": 2, "edits kept": 1}
    for collection, names in SHARED_FIELDS.items():
        assert await select(other, collection, names) == await select(ctx, collection, names)
    await write_export(ctx, tmp_path / "first")
    await write_export(other, tmp_path / "second")
    assert find_differing_files(tmp_path / "first", tmp_path / "second") == []
    assert await run_ingest(other, tmp_path / "export") == {"read": 2, "edits kept": 1}
    reset = {"source_id": "baking", "revision": 0, "reset": ["title", "author", "tags"]}
    out = await call_result(target, "edit_source", OWNER, **reset)
    assert out["title"] == "Bread at Home"
    assert out["author"] == "Ida Loaf"
    assert out["tags"] == ["food"]
    stored_tags = {tuple(chunk["tags"]) for chunk in (await read_chunks(other)).values()}
    assert stored_tags == {("food", "dough"), ("food",), ()}


async def select(
    ctx: Context, collection: str, names: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Return some fields of all documents of a collection."""
    return {
        name: {key: data[key] for key in names if key in data}
        for name, data in (await read_documents(ctx, collection)).items()
    }


async def test_a_note_is_restored_as_a_note(
    app: App, ctx: Context, new_backend: NewBackend, tmp_path: Path
) -> None:
    """Who saved it may change it there, too; its former revisions are not exported."""
    await store_sources(ctx, SAILING)
    about = min(await read_chunks(ctx))
    arguments = {"text": "Ask Ida.  Twice.\n", "title": "Ida", "tags": ["who"], "chunk_id": about}
    saved = await call_result(app, "save_note", OWNER, **arguments)
    await write_export(ctx, tmp_path / "export")
    target = new_backend(LATER)
    other = target.context(OWNER, Meter())
    await run_ingest(other, tmp_path / "export")
    assert await read_documents(other, "sources") == await read_documents(ctx, "sources")
    await write_export(other, tmp_path / "second")
    assert find_differing_files(tmp_path / "export", tmp_path / "second") == []
    note = {"source_id": saved["source_id"], "revision": saved["revision"]}
    changed = await call_result(target, "save_note", OWNER, text="Ask Ann.", **note)
    assert changed["revision"] == saved["revision"] + 1


async def test_a_newer_export_replaces_a_note_whole(
    app: App, ctx: Context, new_backend: NewBackend, tmp_path: Path
) -> None:
    """Its text follows with its passages; its former revision can be brought back."""
    target, saved = await export_twice(app, ctx, new_backend, tmp_path)
    other = target.context(OWNER, Meter())
    await run_ingest(other, tmp_path / "older")
    reference = other.database.document("sources", saved["source_id"])
    await reference.update({"saved_by": "ben"})
    counts = await run_ingest(other, tmp_path / "newer")
    assert counts == {"sources": 1, "created": 1, "deleted": 1, "read": 1}
    assert await read_note_state(other) == (NEWER, "ben", 2, [NEWER])
    assert await run_ingest(other, tmp_path / "newer") == {"read": 1}
    note = {"source_id": saved["source_id"], "revision": 2}
    renamed = await call_result(target, "save_note", OWNER, title="Trip", **note)
    assert renamed["changed"] == ["title"]
    assert await read_note_state(other) == (NEWER, "ben", 3, [NEWER])
    note["revision"] = 3
    await call_result(target, "save_note", OWNER, restore_revision=1, **note)
    assert await read_note_state(other) == (OLDER, "ben", 4, [OLDER])


async def test_an_older_export_leaves_a_newer_note_alone(
    app: App, ctx: Context, new_backend: NewBackend, tmp_path: Path
) -> None:
    target, _ = await export_twice(app, ctx, new_backend, tmp_path)
    other = target.context(OWNER, Meter())
    await run_ingest(other, tmp_path / "newer")
    before = await read_stored(other)
    assert await run_ingest(other, tmp_path / "older") == {"read": 1}
    assert await read_stored(other) == before


async def test_a_half_written_note_is_completed_by_its_export(
    app: App, ctx: Context, new_backend: NewBackend, tmp_path: Path
) -> None:
    """Former versions wrote the passages of a newer export, but not its text and revision."""
    target, saved = await export_twice(app, ctx, new_backend, tmp_path)
    other = target.context(OWNER, Meter())
    await run_ingest(other, tmp_path / "newer")
    reference = other.database.document("sources", saved["source_id"])
    await reference.update({"text": OLDER, "revision": 1})
    assert await run_ingest(other, tmp_path / "newer") == {"sources": 1, "read": 1}
    assert await read_note_state(other) == (NEWER, OWNER.user_id, 2, [NEWER])


async def export_twice(
    app: App, ctx: Context, new_backend: NewBackend, folder: Path
) -> tuple[App, dict[str, Any]]:
    """Export a note before and after a change; return an empty base, and the saved note."""
    saved = await call_result(app, "save_note", OWNER, text=OLDER)
    await write_export(ctx, folder / "older")
    note = {"source_id": saved["source_id"], "revision": 1}
    await call_result(app, "save_note", OWNER, text=NEWER, **note)
    await write_export(ctx, folder / "newer")
    return new_backend(LATER), saved


async def read_note_state(ctx: Context) -> tuple[str, str, int, list[str]]:
    """Return text, user and revision of the only note, and the texts of its passages."""
    [note] = (await read_documents(ctx, "sources")).values()
    texts = [chunk["content"] for chunk in (await read_chunks(ctx)).values()]
    return note["text"], note["saved_by"], note["revision"], texts
