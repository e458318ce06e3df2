"""An export, ingested into an empty base, gives the same sources, chunks and cards."""

import gc
import os
import re
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import yaml
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.ingest.job import ingest
from infra.export import exporting
from infra.export.exporting import ExportReport, export_all
from infra.local.local_database import SAMPLE
from infra.local.sample.knowledge import add_knowledge
from shared.core.ids import make_passage_id
from shared.core.meter import Meter
from shared.core.target import EMULATOR, choose_target
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.overrides import EDITABLE
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from shared.writer.chunk_documents import compute_fingerprint
from shared.writer.ingestion import BATCH_SIZE, Ingestion
from tests.support.apps import Apps
from tests.support.cards import save_cards
from tests.support.clock import NOON
from tests.support.folder_comparison import find_differing_files
from tests.support.forgetting import OWNER
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import (
    BAKING,
    SAILING,
    chunk_source,
    index_all,
    set_fields,
    store_sources,
)
from tests.support.odd_sources import make_odd_sources, make_odd_text
from tests.support.source_files import write_file
from tests.support.stored_documents import read_chunk_texts, read_chunks, read_documents
from tests.support.tool_calls import call_result

SEED: Final = int(os.environ.get("KILL_SEED", "23"))
"""The seed of the odd sources."""
LATER: Final = NOON + timedelta(days=99)
OLDER: Final = "The train to Berlin takes two hours."
"""The text of a note in its first revision."""
NEWER: Final = "We spend nine days in Berlin."
"""The text of the note in its second revision."""
SHARED_FIELDS: Final = {
    "chunks": (*EDITABLE, "own_tags", "origin_tags", "fingerprint"),
    "sources": (*EDITABLE, "origin_values", "title_key", "facets"),
}
"""The fields that edits change, by collection."""
CHUNK_BOOKKEEPING: Final = ("created_at", "updated_at", "pending")
"""Fields of a chunk that say what jobs did in a base, and when."""
SOURCE_BOOKKEEPING: Final = ("changed_at", "deleted_highlights")
"""Fields of a source that say which logs a base has read."""


@pytest.fixture
def base(shared_apps: Apps) -> Context:
    return shared_apps.context(NOON)


@pytest.fixture
def other(shared_apps: Apps) -> Context:
    """An empty base in which an export is restored, later."""
    return shared_apps.context(LATER)


async def write_export(ctx: Context, folder: Path, user: str | None = None) -> ExportReport:
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs
    report = await export_all(ctx.database, folder, user, lambda _: None, UTC)
    assert report.incomplete == []
    return report


async def run_ingest(ctx: Context, path: Path) -> dict[str, int]:
    settings = ctx.settings.model_copy(update={"ingest_path": str(path)})
    report = await ingest(replace(ctx, settings=settings), make_ample_budget())
    assert report.failures == []
    return dict(report.counts)


async def read_stored(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the sources and chunks of a base, without the bookkeeping of its jobs."""
    state = {
        source_id: {name: value for name, value in source.items() if name not in SOURCE_BOOKKEEPING}
        for source_id, source in (await read_documents(ctx, "sources")).items()
    }
    for chunk_id, chunk in (await read_chunks(ctx)).items():
        state[f"chunks/{chunk_id}"] = {
            name: value for name, value in chunk.items() if name not in CHUNK_BOOKKEEPING
        }
    return state


async def save(ctx: Context, sources: Sequence[Source], now: datetime = NOON) -> None:
    for start in range(0, len(sources), BATCH_SIZE):
        batch = sources[start : start + BATCH_SIZE]
        await Ingestion(ctx.database).save([chunk_source(source) for source in batch], now)


@pytest.mark.parametrize("count", [60, pytest.param(500, marks=pytest.mark.slow)])
async def test_odd_sources_survive_a_round_trip(
    base: Context, other: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The export is split into several files. A failure prints the seed."""
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
        await save_cards(base, cards, model, NOON + timedelta(days=number))

    monkeypatch.setattr(exporting, "PART_BYTES", 50_000)
    report = await write_export(base, tmp_path / "export")
    assert report.counts["sources"] == count
    assert report.counts["passages"] == len(ids)
    assert len(list((tmp_path / "export").glob("knowledge-*.jsonl"))) > 1
    files = (tmp_path / "export/markdown/sources").iterdir()
    blocks = [re.split("^---\n", file.read_text("utf-8"), flags=re.MULTILINE)[1] for file in files]
    titles = {fields["source_id"]: fields["title"] for fields in map(yaml.safe_load, blocks)}
    assert titles == {source.source_id: source.title for source in sources}

    counts = await run_ingest(other, tmp_path / "export")
    assert counts == {"sources": count, "created": len(ids), "read": count}
    assert await read_stored(other) == await read_stored(base), SEED
    await write_export(other, tmp_path / "second")
    assert find_differing_files(tmp_path / "export", tmp_path / "second") == []


async def test_the_sample_survives_a_round_trip(
    base: Context, other: Context, tmp_path: Path
) -> None:
    await run_ingest(base, SAMPLE)
    await add_knowledge(base)
    await write_export(base, tmp_path / "export")
    await run_ingest(other, tmp_path / "export")
    before, after = await read_stored(base), await read_stored(other)
    for chunk in before.values():
        chunk.pop("cluster_id", None)  # clusters are not exported: a job makes them again
    assert after == before
    await write_export(other, tmp_path / "second")
    assert find_differing_files(tmp_path / "export", tmp_path / "second") == []


async def test_steps_other_than_the_card_are_pending_on_restored_chunks(
    base: Context, other: Context, tmp_path: Path
) -> None:
    """Another chunker's passages may overlap, or split a sentence. A newer card stays."""
    sections = Section("One. Two.", start=0), Section("Two. Thr", start=5)
    await save(base, [Source("ab", "A", sections=sections)])
    [first, second] = sorted(await read_chunks(base))
    await save_cards(base, {first: KnowledgeCard("Sum.")}, "a-model", NOON)
    await write_export(base, tmp_path / "export")
    await run_ingest(other, tmp_path / "export")
    restored = await read_chunks(other)
    assert set(restored[first]["pending"]) == {"embed", "index", "extract"}
    assert set(restored[second]["pending"]) == {"embed", "index", "extract", "card"}
    starts = {chunk["content"]: chunk["start"] for chunk in restored.values()}
    assert starts == {"One. Two.": 0, "Two. Thr": 5}

    await save_cards(base, {first: KnowledgeCard("New.")}, "a-model", NOON)
    assert await run_ingest(base, tmp_path / "export") == {"read": 1}
    assert (await read_chunks(base))[first]["knowledge_card"]["summary"] == "New."
    await base.database.connection.client.document(f"chunks/{first}").delete()
    (tmp_path / "lost").mkdir()
    report = await export_all(base.database, tmp_path / "lost", None, lambda _: None, UTC)
    assert report.incomplete == ["ab"]


async def test_forgotten_passages_are_not_exported_and_ids_stay(
    app: App, ctx: Context, other: Context, tmp_path: Path
) -> None:
    """The second of two equal passages keeps its id when the first is forgotten."""
    repeat = Section("Reef the mainsail.")
    await store_sources(ctx, replace(SAILING, sections=(repeat, Section("Anchor."), repeat)))
    chunks = await read_chunks(ctx)
    [first] = [chunk_id for chunk_id, chunk in chunks.items() if chunk["position"] == 1]
    await call_result(app, "forget", OWNER, chunk_id=first)
    await write_export(ctx, tmp_path / "export")
    await run_ingest(other, tmp_path / "export")
    assert (await read_chunks(other)).keys() == (await read_chunks(ctx)).keys()
    assert make_passage_id(SAILING.source_id, repeat.text, 2) in await read_chunks(other)
    await write_export(other, tmp_path / "second")
    assert find_differing_files(tmp_path / "export", tmp_path / "second") == []


async def test_ingest_leaves_an_export_inside_a_folder_out(
    base: Context, other: Context, tmp_path: Path
) -> None:
    """Ingesting the folder after a restoration writes nothing."""
    text = f"---\ntags: [x]\n---\n{'Reef the mainsail. ' * 300}"
    vault = write_file(tmp_path, "vault/a.md", text).parent
    await run_ingest(base, vault)
    await write_export(base, vault / "export")
    settings = base.settings.model_copy(update={"ingest_path": str(vault)})
    report = await ingest(replace(base, settings=settings), make_ample_budget())
    assert dict(report.counts) == {"read": 1}
    [warning] = report.warnings
    assert warning.name == "export"
    assert warning.reason == "is a Carrel export: ingest it by itself"
    await run_ingest(other, vault / "export")
    assert await run_ingest(other, vault) == {"read": 1}


async def test_an_export_takes_less_memory_than_its_size(base: Context, tmp_path: Path) -> None:
    choose_target(EMULATOR)  # so that the memory of the database is not this process's
    text = "word " * 4_000
    count = 100
    await save(
        base, [Source(f"s{n}", "T", sections=(Section(f"{n} {text}"),)) for n in range(count)]
    )
    gc.collect()
    tracemalloc.start()
    await write_export(base, tmp_path / "export")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < count * len(text)


@pytest.mark.parametrize("is_rewritten", [True, False])
async def test_edits_survive_a_round_trip(
    app: App, ctx: Context, shared_apps: Apps, tmp_path: Path, *, is_rewritten: bool
) -> None:
    """A passage has the tag `dough` of its own, and the edit gives it to the source, too.

    Without `is_rewritten`, the passages still have the values from before the edit.
    """
    await store_sources(ctx, BAKING, SAILING)
    arguments = {"title": "Loaves", "author": "", "tags": ["dough"]}
    await call_result(app, "edit_source", OWNER, source_id="baking", revision=0, **arguments)
    if not is_rewritten:
        for chunk in chunk_source(BAKING).chunks:
            fields = {
                "title": chunk.title,
                "tags": list(chunk.tags),
                "own_tags": DELETE_FIELD,
                "fingerprint": compute_fingerprint(chunk),
            }
            await set_fields(ctx, f"chunks/{chunk.chunk_id}", fields)
    await write_export(ctx, tmp_path / "export")
    await index_all(ctx)

    other_app = shared_apps(clock=LATER)
    other = other_app.context(OWNER, Meter())
    counts = await run_ingest(other, tmp_path / "export")
    assert counts == {"sources": 2, "created": 5, "read": 2, "edits kept": 1}
    for collection, names in SHARED_FIELDS.items():
        expected = await read_fields(ctx, collection, names)
        assert await read_fields(other, collection, names) == expected
    await write_export(ctx, tmp_path / "first")
    await write_export(other, tmp_path / "second")
    assert find_differing_files(tmp_path / "first", tmp_path / "second") == []
    assert await run_ingest(other, tmp_path / "export") == {"read": 2, "edits kept": 1}

    reset = {"source_id": "baking", "revision": 0, "reset": ["title", "author", "tags"]}
    out = await call_result(other_app, "edit_source", OWNER, **reset)
    assert (out["title"], out["author"], out["tags"]) == ("Bread at Home", "Ida Loaf", ["food"])
    stored_tags = {tuple(chunk["tags"]) for chunk in (await read_chunks(other)).values()}
    assert stored_tags == {("food", "dough"), ("food",), ()}


async def test_an_edited_passage_survives_a_round_trip(
    app: App, ctx: Context, shared_apps: Apps, tmp_path: Path
) -> None:
    [knead, _, crust] = await store_sources(ctx, BAKING)
    for chunk, tags in ((knead, []), (crust, ["oven"])):
        passage = {"chunk_id": chunk.chunk_id, "revision": 0}
        await call_result(app, "edit_source", OWNER, **passage, tags=tags)
    await index_all(ctx)
    await write_export(ctx, tmp_path / "export")

    other_app = shared_apps(clock=LATER)
    other = other_app.context(OWNER, Meter())
    await run_ingest(other, tmp_path / "export")
    for collection, names in SHARED_FIELDS.items():
        expected = await read_fields(ctx, collection, names)
        assert await read_fields(other, collection, names) == expected
    assert await run_ingest(other, tmp_path / "export") == {"read": 1}
    reset = {"chunk_id": knead.chunk_id, "revision": 1, "reset": ["tags"]}
    assert (await call_result(other_app, "edit_source", OWNER, **reset))["tags"] == ["dough"]

    await run_ingest(other, tmp_path / "export")
    stored = await read_chunks(other)
    assert stored[knead.chunk_id]["tags"] == ["food", "dough"]
    assert stored[crust.chunk_id]["tags"] == ["food", "oven"]


async def read_fields(
    ctx: Context, collection: str, names: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    return {
        name: {key: data[key] for key in names if key in data}
        for name, data in (await read_documents(ctx, collection)).items()
    }


async def test_a_note_survives_a_round_trip_and_can_be_changed(
    app: App, ctx: Context, shared_apps: Apps, tmp_path: Path
) -> None:
    """Its user may change it in the other base, too. Its former revisions are not exported.

    Only `save_note` claims a text (`shared.firestore.claims`), so that its claim stays behind.
    """
    await store_sources(ctx, SAILING)
    about = min(await read_chunks(ctx))
    arguments = {
        "text": "Ask Ida.  Twice.\n",
        "title": "Ida",
        "tags": ["who"],
        "about": about,
        "corrects": True,
    }
    saved = await call_result(app, "save_note", OWNER, **arguments)
    await write_export(ctx, tmp_path / "export")

    other_app = shared_apps(clock=LATER)
    other = other_app.context(OWNER, Meter())
    await run_ingest(other, tmp_path / "export")
    expected = await read_documents(ctx, "sources")
    del expected[saved["source_id"]]["claim"]
    assert await read_documents(other, "sources") == expected
    await write_export(other, tmp_path / "second")
    assert find_differing_files(tmp_path / "export", tmp_path / "second") == []

    note = {"source_id": saved["source_id"], "revision": saved["revision"]}
    changed = await call_result(other_app, "save_note", OWNER, text="Ask Ann.", **note)
    assert changed["revision"] == saved["revision"] + 1


ASSISTANT = OWNER.model_copy(update={"client": "Reading Assistant"})


@pytest.fixture
async def note_id(app: App, ctx: Context, tmp_path: Path) -> str:
    """A note that was exported to `older`, and after a change to `newer`."""
    saved = await call_result(app, "save_note", OWNER, text=OLDER)
    await write_export(ctx, tmp_path / "older")
    note = {"source_id": saved["source_id"], "revision": 1}
    await call_result(app, "save_note", ASSISTANT, text=NEWER, **note)
    await write_export(ctx, tmp_path / "newer")
    return str(saved["source_id"])


async def read_note(ctx: Context) -> tuple[Any, ...]:
    """Return what is stored of the only note, and the texts of its passages."""
    [note] = (await read_documents(ctx, "sources")).values()
    return note["text"], note["saved_by"], note["revision"], await read_chunk_texts(ctx)


async def test_a_newer_export_replaces_a_note_with_all_its_fields(
    note_id: str, shared_apps: Apps, tmp_path: Path
) -> None:
    """The replaced revision can be restored, and the note stays its user's."""
    app = shared_apps(clock=LATER)
    ctx = make_job_context(app)
    await run_ingest(ctx, tmp_path / "older")
    await set_fields(ctx, f"sources/{note_id}", {"saved_by": "ben"})
    counts = await run_ingest(ctx, tmp_path / "newer")
    assert counts == {"sources": 1, "created": 1, "deleted": 1, "read": 1}
    assert await read_note(ctx) == (NEWER, "ben", 2, [NEWER])
    assert (await read_documents(ctx, "sources"))[note_id]["saved_with"] == ASSISTANT.client
    assert await run_ingest(ctx, tmp_path / "newer") == {"read": 1}

    note = {"source_id": note_id}
    renamed = await call_result(app, "save_note", OWNER, **note, revision=2, title="Trip")
    assert renamed["changed"] == ["title"]
    assert await read_note(ctx) == (NEWER, "ben", 3, [NEWER])
    await call_result(app, "save_note", OWNER, **note, revision=3, restore_revision=1)
    assert await read_note(ctx) == (OLDER, "ben", 4, [OLDER])


async def test_an_older_export_leaves_a_newer_note_alone(
    note_id: str, other: Context, tmp_path: Path
) -> None:
    """But former versions wrote the passages of a newer one without its text and revision."""
    await run_ingest(other, tmp_path / "newer")
    before = await read_stored(other)
    assert await run_ingest(other, tmp_path / "older") == {"read": 1}
    assert await read_stored(other) == before
    await set_fields(other, f"sources/{note_id}", {"text": OLDER, "revision": 1})
    assert await run_ingest(other, tmp_path / "newer") == {"sources": 1, "read": 1}
    assert await read_note(other) == (NEWER, OWNER.user_id, 2, [NEWER])
