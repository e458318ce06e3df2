"""A new source that the database refuses leaves no documents, and other sources are stored."""

from dataclasses import replace
from datetime import timedelta

import pytest
from google.api_core.exceptions import PermissionDenied

from functions.jobs.ingest.batches import save_sources
from functions.jobs.ingest.missing_sources import MissingSources
from shared.core.caller import Caller
from shared.core.errors import PlatformFault
from shared.core.meter import Meter
from shared.core.target import EMULATOR, choose_target
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from shared.runtime.job import Report
from shared.writer.chunked_source import ChunkedSource
from shared.writer.ingestion import Ingestion
from tests.support.apps import Apps
from tests.support.clock import NOON
from tests.support.commit_hooks import call_before_commit
from tests.support.knowledge import BAKING, SAILING, chunk_source
from tests.support.stored_documents import read_chunks, read_documents, read_tombstones

LEDGER = Source(
    "ledger",
    "Ledger",
    sections=tuple(
        Section(f"Entry {number}.", tags=tuple(f"{number}.{n}" + "x" * 190 for n in range(20)))
        for number in range(300)
    ),
)
"""A source that Firestore refuses.

A document may have 1 MiB. Each chunk fits into one, but the source, with the tags of all chunks,
does not.
"""


async def test_a_refused_source_does_not_block_others(ctx: Context) -> None:
    sources = [chunk_source(source) for source in (SAILING, LEDGER, BAKING)]
    saved = await Ingestion(ctx.database).save_each(sources, NOON)
    assert saved.refused == {"ledger": "is refused by the database"}
    assert set(await read_documents(ctx, "sources")) == {"baking", "sailing"}
    chunks = (await read_chunks(ctx)).values()
    assert {chunk["source_id"] for chunk in chunks} == {"baking", "sailing"}
    assert saved.counts == {"sources": 2, "created": 5}


async def test_chunks_written_before_a_refusal_are_deleted(ctx: Context) -> None:
    """The source takes two commits, and the database refuses the second."""
    sections = tuple(Section(f"Entry {number}.") for number in range(230))
    many = chunk_source(Source("many", "Many", sections=sections))
    too_large = replace(many.chunks[-1], content="x" * 2**21)
    many = replace(many, chunks=[*many.chunks[:-1], too_large])
    saved = await Ingestion(ctx.database).save_each([many, chunk_source(SAILING)], NOON)
    assert list(saved.refused) == ["many"]
    assert set(await read_documents(ctx, "sources")) == {"sailing"}
    assert {chunk["source_id"] for chunk in (await read_chunks(ctx)).values()} == {"sailing"}
    assert saved.counts["deleted"] == len(await read_tombstones(ctx)) == 200


async def test_a_stored_source_survives_a_refusal_and_is_compared_again(ctx: Context) -> None:
    earlier = replace(LEDGER, sections=LEDGER.sections[:2])
    await Ingestion(ctx.database).save([chunk_source(earlier)], NOON)
    for _ in ("first run", "second run"):
        saved = await Ingestion(ctx.database).save_each(
            [chunk_source(LEDGER)], NOON + timedelta(days=1)
        )
        assert list(saved.refused) == ["ledger"]
    [stored] = (await read_documents(ctx, "sources")).values()
    assert stored["content_hash"] == ""
    assert stored["updated_at"] == NOON
    assert stored["chunk_count"] == len(await read_chunks(ctx))


async def test_a_source_that_returns_and_is_refused_is_reported(ctx: Context) -> None:
    earlier = replace(LEDGER, sections=LEDGER.sections[:2])
    await save_sources([chunk_source(earlier)], ctx, Report())
    await MissingSources(ctx, Report()).forget(["ledger"])
    refused = await save_sources([chunk_source(LEDGER)], ctx, Report())
    assert refused == {"ledger": "is refused by the database"}


async def test_an_unsendable_source_does_not_block_others(ctx: Context) -> None:
    # Half of a surrogate pair, which cannot be sent as UTF-8.
    broken = Source("broken", "Half of a pair: \ud83d", sections=(Section("Words."),))
    chunked = ChunkedSource(broken, [replace(chunk_source(SAILING).chunks[0], title=broken.title)])
    saved = await Ingestion(ctx.database).save_each([chunked, chunk_source(SAILING)], NOON)
    assert saved.refused == {"broken": "is refused by the database (UnicodeEncodeError)"}
    assert list(await read_documents(ctx, "sources")) == ["sailing"]


async def test_a_refusal_of_all_writes_is_not_blamed_on_a_source(
    apps: Apps,
) -> None:
    async def refuse() -> None:
        raise PermissionDenied("no")

    ctx = apps(call_before_commit(1, refuse)).context(Caller(), Meter())
    choose_target(EMULATOR)  # an embedded database refuses so if its file cannot be written
    with pytest.raises(PlatformFault, match="PermissionDenied"):
        await Ingestion(ctx.database).save_each([chunk_source(SAILING)], NOON)
