"""A source that the database rejects leaves no documents and does not block others."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from google.api_core.exceptions import PermissionDenied

from shared.core.caller import Caller
from shared.core.errors import PlatformFault
from shared.core.meter import Meter
from shared.knowledge.ingestion import ChunkedSource, Ingestion
from shared.knowledge.source import Section, Source
from tests.support.commit_hooks import WatchedApp, call_before
from tests.support.knowledge import BAKING, SAILING, chunk_source
from tests.support.stored_documents import read_chunks, read_documents, read_tombstones

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = datetime(2024, 6, 1, 12, tzinfo=UTC)
LEDGER = Source(
    "ledger",
    "Ledger",
    sections=tuple(
        Section(f"Entry {place}.", tags=tuple(f"{place}.{n}" + "x" * 190 for n in range(20)))
        for place in range(300)
    ),
)
"""A source whose chunks fit a document each, while its own, with all tags, does not."""


async def test_a_refused_source_does_not_block_others(ctx: Context) -> None:
    saved = await Ingestion(ctx.database).save_each(
        [*map(chunk_source, [SAILING, LEDGER, BAKING])], NOON
    )
    assert saved.refused == {"ledger": "is refused by the database (InvalidArgument)"}
    assert set(await read_documents(ctx, "sources")) == {"baking", "sailing"}
    assert {item["source_id"] for item in (await read_chunks(ctx)).values()} == {
        "baking",
        "sailing",
    }
    assert saved.counts == {"sources": 2, "created": 5}


async def test_what_was_written_before_a_refusal_is_deleted(ctx: Context) -> None:
    """The source takes three commits, and the database refuses the last one."""
    chunked = chunk_source(Source("many", "Many", sections=(*map(Section, map(str, range(230))),)))
    chunks_with_fault = [*chunked.chunks[:-1], replace(chunked.chunks[-1], content="x" * 2**21)]
    saved = await Ingestion(ctx.database).save_each(
        [replace(chunked, chunks=chunks_with_fault), chunk_source(SAILING)], NOON
    )
    assert list(saved.refused) == ["many"]
    assert set(await read_documents(ctx, "sources")) == {"sailing"}
    assert {item["source_id"] for item in (await read_chunks(ctx)).values()} == {"sailing"}
    assert saved.counts["deleted"] == len(await read_tombstones(ctx)) == 229


async def test_a_refused_source_stays_and_is_compared_again(ctx: Context) -> None:
    earlier = replace(LEDGER, sections=LEDGER.sections[:2])
    await Ingestion(ctx.database).save([chunk_source(earlier)], NOON)
    for _ in range(2):
        saved = await Ingestion(ctx.database).save_each([chunk_source(LEDGER)], LATER)
        assert list(saved.refused) == ["ledger"]
    (stored,) = (await read_documents(ctx, "sources")).values()
    assert (stored["content_hash"], stored["updated_at"]) == ("", NOON)
    assert stored["chunk_count"] == len(await read_chunks(ctx))


async def test_an_unsendable_source_does_not_block_others(ctx: Context) -> None:
    broken = Source("broken", "Half of a pair: \ud83d", sections=(Section("Words."),))
    chunked = ChunkedSource(broken, [replace(chunk_source(SAILING).chunks[0], title=broken.title)])
    saved = await Ingestion(ctx.database).save_each([chunked, chunk_source(SAILING)], NOON)
    assert saved.refused == {"broken": "is refused by the database (UnicodeEncodeError)"}
    assert list(await read_documents(ctx, "sources")) == ["sailing"]


async def test_a_database_that_refuses_all_blames_no_source(settings: Settings) -> None:
    async def forbidden() -> None:
        raise PermissionDenied("no")  # type: ignore[no-untyped-call]  # Google's

    app = WatchedApp(settings, call_before(1, forbidden))
    ctx = app.context(Caller(), Meter())
    with pytest.raises(PlatformFault, match="PermissionDenied"):
        await Ingestion(ctx.database).save_each([chunk_source(SAILING)], NOON)
    await app.aclose()
