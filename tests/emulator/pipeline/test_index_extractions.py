"""The index job deletes the extractions of a deleted chunk, and purge leaves them to it.

An extraction is a decision, a warning or the like, found in a chunk. Its topics are counted, but
those of a duplicate are not.
"""

from dataclasses import replace

from functions.jobs.index.job import index
from functions.jobs.purge.job import purge
from shared.runtime.context import Context
from shared.runtime.job import Report
from tests.support.extractions import (
    make_decision,
    make_extraction,
    make_warning,
    store_extractions,
)
from tests.support.jobs import make_ample_budget
from tests.support.knowledge import BAKING, SAILING, ingest_sources, store_sources
from tests.support.stored_documents import read_documents


async def read_topic_counts(ctx: Context) -> dict[str, dict[str, int]]:
    """Return the number of extractions of each topic, by type and in total (`all`)."""
    topics = (await read_documents(ctx, "topics")).values()
    return {data["name"]: data["counts"] | {"all": data["total"]} for data in topics}


async def test_extractions_and_their_counts_are_deleted_with_their_chunk(ctx: Context) -> None:
    first, second = await store_sources(ctx, SAILING)
    third, *_ = await store_sources(ctx, BAKING)
    staying = make_extraction(second, make_warning(), "weather")
    await store_extractions(
        ctx,
        make_extraction(first, make_decision(), "sailing", "weather"),
        make_extraction(first, make_warning(), "weather"),
        staying,
        make_extraction(third, make_warning(), "weather", group=staying.group),
    )
    assert await read_topic_counts(ctx) == {
        "sailing": {"decision": 1, "all": 1},
        "weather": {"decision": 1, "warning": 2, "all": 3},
    }

    remaining = replace(SAILING, sections=SAILING.sections[1:])
    await ingest_sources(ctx, remaining, replace(BAKING, sections=()))
    assert await purge(ctx, make_ample_budget()) == Report()
    assert len(await read_documents(ctx, "extractions")) == 4
    await index(ctx, make_ample_budget())

    assert set(await read_documents(ctx, "extractions")) == {staying.extraction_id}
    assert await read_topic_counts(ctx) == {
        "sailing": {"decision": 0, "all": 0},
        "weather": {"decision": 0, "warning": 1, "all": 1},
    }
