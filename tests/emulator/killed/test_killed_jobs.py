"""A run of a job can be killed at any commit: the next run completes it."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest
from google.cloud.firestore import DELETE_FIELD

from functions.jobs.cards.job import JOB as CARDS
from functions.jobs.cluster.job import JOB as CLUSTER
from functions.jobs.embed.job import JOB as EMBED
from functions.jobs.extract.job import JOB as EXTRACT
from functions.jobs.index.job import JOB as INDEX
from functions.jobs.ingest import batches, bucket, missing_sources, origin
from functions.jobs.ingest.job import JOB as INGEST
from functions.jobs.ingest.readwise import library
from functions.jobs.ingest_materials.job import JOB as INGEST_MATERIALS
from functions.jobs.purge.job import JOB as PURGE
from functions.jobs.reembed.job import JOB as REEMBED
from functions.jobs.repair.job import JOB as REPAIR
from functions.jobs.repair.job import repair_within
from functions.jobs.repair.rebuilt_postings import RebuildLimits
from infra.build.discovery import jobs
from shared.core.errors import Unavailable
from shared.core.settings import Settings
from shared.index.postings import KNOWLEDGE, TRACES
from shared.knowledge.forgotten_chunks import RESTORABLE_SOURCES
from shared.runtime.context import App, Context
from shared.runtime.job import AlreadyRunning, Job, run_job
from shared.traces.repository import WITHDRAWN_TRACES
from shared.writer import commits, source_editing
from tests.support.bulk_embedding import open_bulk_services, open_pending_base, run_bulk_embedding
from tests.support.cards import make_card_reply, make_source_of_notes
from tests.support.database_dump import find_orphans, read_all_documents
from tests.support.extract_job import KEYS, make_book, make_reported_decision
from tests.support.extractions import make_extraction, make_warning, store_extractions
from tests.support.fakes.cloud_storage import FakeCloudStorage
from tests.support.fakes.generator import ScriptedGenerator
from tests.support.fakes.readwise import TOKEN, FakeReadwise
from tests.support.fakes.vertex_batch import FakeVertexBatch
from tests.support.followed_folder import make_vault
from tests.support.forgetting import LONG, forget, forget_each_kind
from tests.support.jobs import make_job_context
from tests.support.kills import Base, Case, Work, assert_repeatable
from tests.support.knowledge import BAKING, SAILING, ingest_sources, set_fields, store_sources
from tests.support.model_migration import (
    announce_migration,
    fill_knowledge_base,
    make_new_model,
    make_previous_model,
)
from tests.support.notes import OWNER
from tests.support.source_files import format_json_lines, write_file
from tests.support.stored_documents import read_documents
from tests.support.stored_materials import QUERY, make_text
from tests.support.themed_passages import (
    PASSAGES_PER_THEME,
    add_sources,
    delete_source,
    make_themed_source,
    make_unrelated_source,
)
from tests.support.tool_calls import call_result
from tests.support.traces import add_votes, contribute, vote
from tests.support.workspaces import upload_text

DONE: Final = {"finished": True, "failures": []}
"""What a run reports that completes the work."""
SOURCES_AT_ONCE: Final = 3
SHORT: Final = replace(LONG, sections=LONG.sections[:10])
SMALL_MEMORY: Final = RebuildLimits(memory_budget=200)
"""Limits with which repair takes several passes."""


def run(job: Job) -> Work:
    """Return a run of a job."""

    async def work(app: App) -> object:
        report = await run_job(job, app)
        if isinstance(report, AlreadyRunning):
            raise Unavailable("Another run has the lease.")
        return {"finished": report.finished, "failures": list(map(str, report.failures))}

    return work


async def run_to_end(job: Job, app: App) -> None:
    """Run a job that has all it needs."""
    assert await run(job)(app) == DONE


def store_little_at_once(base: Base) -> None:
    """Let ingest store a few sources at once, and a few chunks with one commit."""
    for module in (batches, bucket, library, missing_sources, origin):
        base.patch.setattr(module, "BATCH_SIZE", SOURCES_AT_ONCE)
    base.patch.setattr(commits, "MAX_CHANGES", 4)


@asynccontextmanager
async def ingest_folder(base: Base) -> AsyncIterator[Work]:
    """A followed folder is renamed, and a file in it, one deleted, one edited and one added."""
    store_little_at_once(base)
    vault = make_vault(base.folder)
    base.settings["ingest_path"] = str(vault)
    async with base.open() as app:
        await run_to_end(INGEST, app)
    vault = vault.rename(base.folder / "archive")
    base.settings["ingest_path"] = str(vault)
    (vault / "1.md").rename(vault / "renamed.md")
    (vault / "2.md").unlink()
    write_file(vault, "3.md", "Note 3, edited.")
    records = ({"id": key, "text": f"Record {key}."} for key in ("a", "b", "c"))
    write_file(vault, "records.jsonl", format_json_lines(*records))
    yield run(INGEST)


@asynccontextmanager
async def ingest_bucket(base: Base) -> AsyncIterator[Work]:
    """All files of a followed bucket are edited, and some deleted or renamed."""
    count = 2 * SOURCES_AT_ONCE + 1

    store_little_at_once(base)

    def upload(name: str, text: str) -> None:
        storage.put("library", f"notes/{name}", f"---\ndate: 2024-05-31\n---\n{text}")

    def upload_records(name: str, *ids: str) -> None:
        records = ({"id": key, "text": f"Record {key}.", "date": "2024-05-31"} for key in ids)
        storage.put("library", f"notes/{name}", format_json_lines(*records))

    with FakeCloudStorage("library") as storage:
        base.patch.setenv("STORAGE_EMULATOR_HOST", storage.base_url)
        base.settings["ingest_bucket"] = "gs://library/notes"
        for number in range(count):
            upload(f"{number}.md", f"Note {number}.")
        upload_records("records.jsonl", "a", "b")
        async with base.open() as app:
            await run_to_end(INGEST, app)
        for number in range(count):
            upload(f"{number}.md", f"Note {number}, edited.")
        upload_records("renamed.jsonl", "a", "b", "c")
        for name in ("0.md", "1.md", "records.jsonl"):
            storage.delete("library", f"notes/{name}")
        yield run(INGEST)


@asynccontextmanager
async def ingest_readwise(base: Base) -> AsyncIterator[Work]:
    """All books of an account are edited, one is new, one and a highlight are deleted."""
    store_little_at_once(base)
    with FakeReadwise(page_size=3) as account:
        base.settings |= {"readwise_token": TOKEN, "readwise_url": account.base_url}
        for number in range(1, 6):
            account.put_book(number, f"Thought {number}.")
        account.put_book(5, "Once.", "Twice.", "And again.")
        account.advance(days=1)
        async with base.open() as app:
            await run_to_end(INGEST, app)
        account.advance(days=1)
        for number in range(1, 6):
            account.put_highlight(number, 1, f"Thought {number}, edited.")
        account.put_book(6, *(f"New thought {number}." for number in range(6)))
        account.delete_highlight(5, 0)
        account.delete_book(4)
        account.advance(days=1)
        yield run(INGEST)


@asynccontextmanager
async def embed_chunks(base: Base) -> AsyncIterator[Work]:
    """More passages than one request embeds."""
    base.options["embedder"] = make_previous_model()
    async with base.open() as app:
        await ingest_sources(make_job_context(app), SHORT)
    yield run(EMBED)


@asynccontextmanager
async def embed_in_bulk(base: Base) -> AsyncIterator[Work]:
    """A batch job of the provider embeds, and is paid once."""
    with FakeCloudStorage("bulk") as storage, FakeVertexBatch(storage) as vertex:
        base.patch.setenv("STORAGE_EMULATOR_HOST", storage.base_url)

        def reset() -> None:
            for contents in (storage.blobs, vertex.jobs, vertex.embedded):
                contents.clear()

        async def work(app: App) -> object:
            report = await run_bulk_embedding(make_job_context(app), bulk)
            assert len(vertex.jobs) <= 1
            assert set(vertex.embedding_counts.values()) <= {1}
            return {"finished": report.finished, "failures": report.failures}

        settings = Settings(google_cloud_project=base.project)
        async with (
            open_bulk_services(vertex) as bulk,
            open_pending_base(settings, vertex, lambda: base.start) as ctx,
        ):
            base.reset, base.options["embedder"] = reset, ctx.embedder
            yield work


@asynccontextmanager
async def index_changes(base: Base) -> AsyncIterator[Work]:
    """Sources are new and deleted, and an edit and a deletion by calls are left to the job."""
    async with base.open() as app:
        ctx = make_job_context(app)
        await store_sources(ctx, SHORT, SAILING)
        base.patch.setattr(source_editing, "MAX_CHANGES", 4)
        edit = {"source_id": "long", "revision": 0, "title": "Many Breads", "tags": ["bread"]}
        await call_result(app, "edit_source", OWNER, **edit)
        await delete_source(ctx, SAILING)
        await ingest_sources(ctx, BAKING)
    yield run(INDEX)


@asynccontextmanager
async def write_cards(base: Base) -> AsyncIterator[Work]:
    """Cards are stored in batches of eight."""
    base.options["generator"] = ScriptedGenerator(make_card_reply)
    async with base.open() as app:
        await ingest_sources(make_job_context(app), make_source_of_notes(20))
    yield run(CARDS)


def expect_versions(base: Base) -> None:
    """Let the version of the map differ, which each attempt to draw it counts up."""
    base.version = re.compile(r"^\d+(?=-)")
    base.uncompared.add("version")


async def add_themes(ctx: Context) -> None:
    """Store passages that make three clusters."""
    themes = map(make_themed_source, ("bread", "boats", "bees"))
    await add_sources(ctx, *themes, make_unrelated_source(3))


@asynccontextmanager
async def cluster_first(base: Base) -> AsyncIterator[Work]:
    """There are no clusters yet."""
    expect_versions(base)
    async with base.open() as app:
        await add_themes(make_job_context(app))
    yield run(CLUSTER)


@asynccontextmanager
async def cluster_again(base: Base) -> AsyncIterator[Work]:
    """One cluster is new, and one has lost half of its passages."""
    expect_versions(base)
    async with base.open() as app:
        ctx = make_job_context(app)
        await add_themes(ctx)
        await run_to_end(CLUSTER, app)
        half = make_themed_source("bees", range(PASSAGES_PER_THEME // 2))
        await add_sources(ctx, half, make_themed_source("chess"))
    yield run(CLUSTER)


@asynccontextmanager
async def cluster_new_chunks(base: Base) -> AsyncIterator[Work]:
    """A few passages are assigned to clusters, one of which has lost all its own."""
    expect_versions(base)
    async with base.open() as app:
        ctx = make_job_context(app)
        clouds = make_themed_source("clouds", range(7))
        await add_sources(ctx, clouds)
        await add_themes(ctx)
        await run_to_end(CLUSTER, app)
        await delete_source(ctx, clouds)
        await add_sources(ctx, make_themed_source("boats", range(PASSAGES_PER_THEME + 2)))
    yield run(CLUSTER)


@asynccontextmanager
async def extract_findings(base: Base) -> AsyncIterator[Work]:
    """Every third book repeats what the one before decides."""

    def find(text: str) -> dict[str, Any]:
        number = int(text[4:6])  # of the title "Book07"
        name = f"table{number - number // 3}"
        content = make_reported_decision()["content"] | {
            "question": f"{name} {name} {name} key?",
            "recommended_approach": f"{name} {name}",
        }
        return {"decisions": [make_reported_decision(content=content)]}

    base.options["generator"] = ScriptedGenerator(find)
    async with base.open() as app:
        books = [make_book(f"book{number:02}", f"{KEYS} It is {number}.") for number in range(12)]
        for book in books:
            await ingest_sources(make_job_context(app), book)
    yield run(EXTRACT)


@asynccontextmanager
async def embed_materials(base: Base) -> AsyncIterator[Work]:
    """A text was too long for a call."""
    base.settings["extract_materials_characters"] = 500
    async with base.open() as app:
        materials = {"query": QUERY, "materials": make_text(), "idempotency_key": "k"}
        await call_result(app, "extract_key_info", OWNER, **materials)
    yield run(INGEST_MATERIALS)


async def assert_no_orphans(app: App) -> None:
    assert find_orphans(await read_all_documents(app.connection.client)) == []


@asynccontextmanager
async def purge_traces(base: Base) -> AsyncIterator[Work]:
    """The second trace of a chain of three, and one with votes, were withdrawn."""
    async with base.open(days=WITHDRAWN_TRACES.duration.days + 1) as app:
        first = await contribute(app, 0, "anna")
        second = await contribute(app, 1, "anna", supersedes=first)
        await call_result(app, "amend_trace", "anna", trace_id=second, solution_text="Try again.")
        await add_votes(app, second, 2)
        third = await contribute(app, 2, "anna", supersedes=second)
        await vote(app, third, "ben")
        fourth = await contribute(app, 3, "ben")
        await call_result(app, "withdraw_trace", "anna", trace_id=second)
        await call_result(app, "withdraw_trace", "ben", trace_id=fourth)
    base.check = assert_no_orphans
    yield run(PURGE)


@asynccontextmanager
async def purge_workspaces(base: Base) -> AsyncIterator[Work]:
    """Two workspaces are idle, and one is in use."""
    async with base.open(days=92) as app:
        await upload_text(app, "older", idempotency_key="older")
        await upload_text(app, "younger", idempotency_key="younger")
    async with base.open(days=3) as app:
        await upload_text(app, "used", idempotency_key="used")
    base.check = assert_no_orphans
    yield run(PURGE)


@asynccontextmanager
async def purge_extractions(base: Base) -> AsyncIterator[Work]:
    """Extractions of deleted chunks go, and a duplicate of one takes its place."""
    async with base.open(days=31) as app:
        ctx = make_job_context(app)
        first, second = await store_sources(ctx, SAILING)
        copies = await store_sources(ctx, BAKING)
        original = make_extraction(first, make_warning())
        duplicates = [
            make_extraction(copy, make_warning(), group=original.group) for copy in copies
        ]
        await store_extractions(ctx, original, make_extraction(second, make_warning()), *duplicates)
        await delete_source(ctx, SAILING)
        for chunk in (first, second):
            await set_fields(
                ctx,
                f"chunks/{chunk.chunk_id}",
                {"pending": {"index": DELETE_FIELD}, "parked": {"index": "was refused"}},
            )
    yield run(PURGE)


@asynccontextmanager
async def purge_forgotten(base: Base) -> AsyncIterator[Work]:
    """A passage, a book and a note with a former revision were forgotten, and a book later."""
    async with base.open(days=RESTORABLE_SOURCES.duration.days + 1) as app:
        await forget_each_kind(app, make_job_context(app))
    async with base.open() as app:
        await forget(app, source_id="baking")
    yield run(PURGE)


@asynccontextmanager
async def reembed_all(base: Base) -> AsyncIterator[Work]:
    """Chunks, traces and extractions have vectors of another model."""
    model = make_new_model()
    base.options["embedder"] = make_previous_model()
    async with base.open(minutes=3) as app:
        await fill_knowledge_base(app)
    base.options["embedder"] = model
    async with base.open(minutes=3) as app:
        await announce_migration(app)
    yield run(REEMBED)


@asynccontextmanager
async def repair_postings(base: Base) -> AsyncIterator[Work]:
    """A third of the postings of chunks and traces is missing, and another third is wrong."""
    async with base.open() as app:
        ctx = make_job_context(app)
        await store_sources(ctx, SAILING)
        await contribute(app, 0, "anna")
        for collection in (KNOWLEDGE.lexicon, KNOWLEDGE.facets, TRACES.lexicon, TRACES.facets):
            for number, name in enumerate(sorted(await read_documents(ctx, collection))):
                document = f"{collection}/{name}"
                if number % 3 == 0:
                    await ctx.database.connection.client.document(document).delete()
                elif number % 3 == 1:
                    await set_fields(ctx, document, {"df": 40, "postings": {"nobody": 7}})
        await set_fields(ctx, "meta/lexicon", {"documents": 7, "length": DELETE_FIELD})
    yield run(replace(REPAIR, run=partial(repair_within, SMALL_MEMORY)))


RUNS: Final[dict[str, list[Case]]] = {
    "cards": [write_cards],
    "cluster": [cluster_first, cluster_again, cluster_new_chunks],
    "embed": [embed_chunks, embed_in_bulk],
    "extract": [extract_findings],
    "index": [index_changes],
    "ingest": [ingest_folder, ingest_bucket, ingest_readwise],
    "ingest_materials": [embed_materials],
    "purge": [purge_traces, purge_workspaces, purge_extractions, purge_forgotten],
    "reembed": [reembed_all],
    "repair": [repair_postings],
}
"""The runs by job."""


def test_every_job_is_killed() -> None:
    assert RUNS.keys() == {job.name for job in jobs()}


@pytest.mark.requirement("001-D14")
@pytest.mark.parametrize(
    "case", [case for cases in RUNS.values() for case in cases], ids=lambda case: case.__name__
)
async def test_the_next_run_completes_one_killed_at_any_commit(base: Base, case: Case) -> None:
    assert await assert_repeatable(case, base) == DONE
