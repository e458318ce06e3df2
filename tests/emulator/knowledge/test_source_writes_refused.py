"""What the database refuses of a source keeps no other out, and nothing of it stays."""

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
from tests.support.commit_hooks import WatchedApp, before
from tests.support.knowledge import BAKING, SAILING, in_chunks
from tests.support.stored_documents import chunks, documents, tombstones

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
"""Each of its chunks fits a document; its own, with all the tags, does not."""


async def test_what_the_database_refuses_keeps_no_other_source_out(ctx: Context) -> None:
    """Its first chunks were written before: they are taken back."""
    found = await Ingestion(ctx.database).save_each(
        [*map(in_chunks, [SAILING, LEDGER, BAKING])], NOON
    )
    assert {"ledger": "is refused by the database (InvalidArgument)"} == found.refused
    assert {"baking", "sailing"} == set(await documents(ctx, "sources"))
    assert {"baking", "sailing"} == {each["source_id"] for each in (await chunks(ctx)).values()}
    assert found.counts["sources"] == 2
    assert found.counts["created"] - found.counts["deleted"] == 5
    assert found.counts["deleted"] == len(await tombstones(ctx)) > 0


async def test_a_refused_source_stays_and_is_compared_again(
    ctx: Context,
) -> None:
    earlier = replace(LEDGER, sections=LEDGER.sections[:2])
    await Ingestion(ctx.database).save([in_chunks(earlier)], NOON)
    for _ in range(2):
        found = await Ingestion(ctx.database).save_each([in_chunks(LEDGER)], LATER)
        assert ["ledger"] == list(found.refused)
    (stored,) = (await documents(ctx, "sources")).values()
    assert (stored["chunk_count"], stored["updated_at"]) == (2, NOON)


async def test_what_no_client_can_send_keeps_no_other_source_out(ctx: Context) -> None:
    broken = Source("broken", "Half of a pair: \ud83d", sections=(Section("Words."),))
    chunked = ChunkedSource(broken, [replace(in_chunks(SAILING).chunks[0], title=broken.title)])
    found = await Ingestion(ctx.database).save_each([chunked, in_chunks(SAILING)], NOON)
    assert {"broken": "is refused by the database (UnicodeEncodeError)"} == found.refused
    assert ["sailing"] == list(await documents(ctx, "sources"))


async def test_a_database_that_refuses_everything_blames_no_source(
    settings: Settings,
) -> None:
    async def forbidden() -> None:
        raise PermissionDenied("no")  # type: ignore[no-untyped-call]  # Google's

    app = WatchedApp(settings, before(1, forbidden))
    ctx = app.context(Caller(), Meter())
    with pytest.raises(PlatformFault, match="PermissionDenied"):
        await Ingestion(ctx.database).save_each([in_chunks(SAILING)], NOON)
    await app.aclose()
