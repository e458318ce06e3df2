"""Exactly one extraction of a group is visible after every commit.

A group are the extractions from several chunks, that is, stored passages, that say the same.
"""

from functools import partial

import pytest

from functions.jobs.purge.job import purge
from shared.core.meter import Meter
from shared.extractions.model import Extraction, ExtractionType
from shared.extractions.repository import Extractions
from shared.knowledge.chunk import Chunk
from shared.runtime.context import Context
from tests.support.apps import Apps
from tests.support.commit_hooks import call_before_commit
from tests.support.extract_job import read_topic_counts
from tests.support.extractions import (
    make_decision,
    make_extraction,
    make_warning,
    queue_chunk,
    replace_extractions,
    store_extractions,
)
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.stored_documents import read_documents


@pytest.fixture
async def chunks(ctx: Context) -> list[Chunk]:
    return await store_sources(ctx, BAKING, SAILING)


@pytest.fixture
async def group(ctx: Context, chunks: list[Chunk]) -> list[Extraction]:
    """Decisions of a group: the visible one, and then three with increasing confidence.

    The first one's chunk also has a warning.
    """
    first = make_extraction(chunks[0], make_decision(), "bread", confidence=0.9)
    await store_extractions(ctx, first, make_extraction(chunks[0], make_warning(), "bread"))
    others = [
        make_extraction(
            chunk, make_decision(), "bread", "rye", confidence=confidence, group=first.group
        )
        for chunk, confidence in zip(chunks[1:4], (0.4, 0.5, 0.8), strict=True)
    ]
    await store_extractions(ctx, *others)
    return [first, *others]


async def delete_extractions(ctx: Context, extraction: Extraction) -> None:
    chunk = await queue_chunk(ctx, extraction.chunk_id)
    assert await replace_extractions(ctx, chunk, []) == 1


async def list_visible_decisions(ctx: Context) -> list[str]:
    extractions = await Extractions(ctx.database).list_by_confidence(
        ExtractionType.DECISION, None, None, 9
    )
    return [extraction.extraction_id for extraction in extractions]


async def test_the_next_visible_one_has_the_highest_confidence(
    ctx: Context, group: list[Extraction]
) -> None:
    for extraction in (group[0], *reversed(group[1:])):
        assert await list_visible_decisions(ctx) == [extraction.extraction_id]
        await delete_extractions(ctx, extraction)
    assert await read_documents(ctx, "extractions") == {}
    assert await read_documents(ctx, "extraction_groups") == {}


async def test_only_the_visible_one_is_counted(ctx: Context, group: list[Extraction]) -> None:
    assert await read_topic_counts(ctx) == {"bread": 2}
    await delete_extractions(ctx, group[0])
    assert await read_topic_counts(ctx) == {"bread": 1, "rye": 1}
    for extraction in group[1:]:
        await delete_extractions(ctx, extraction)
    report = await purge(ctx, make_ample_budget())
    assert report.counts == {"topics": 2}
    assert await read_documents(ctx, "topics") == {}


async def test_of_a_new_group_in_one_commit_one_is_visible(
    ctx: Context, chunks: list[Chunk]
) -> None:
    """So it is if the extraction that the others repeat was not stored."""
    extractions = [
        make_extraction(chunk, make_decision(), "bread", confidence=confidence, group="decision-0")
        for chunk, confidence in zip(chunks, (0.4, 0.8, 0.5), strict=False)
    ]
    await store_extractions(ctx, *extractions)
    assert len(await list_visible_decisions(ctx)) == 1
    assert await read_topic_counts(ctx) == {"bread": 1}


async def test_an_extraction_stored_again_stays_in_its_group(
    ctx: Context, chunks: list[Chunk], group: list[Extraction]
) -> None:
    visible, hidden, *_ = group
    for stored, chunk in zip((visible, hidden), chunks, strict=False):
        await store_extractions(ctx, make_extraction(chunk, make_decision(), "oats"))
        assert await list_visible_decisions(ctx) == [visible.extraction_id], stored
    assert await read_topic_counts(ctx) == {"oats": 1}


@pytest.mark.parametrize("simultaneous", ["visible", "heir", "joining"])
async def test_simultaneous_changes_leave_one_visible(
    ctx: Context, apps: Apps, chunks: list[Chunk], group: list[Extraction], simultaneous: str
) -> None:
    """Another commit comes after the visible one was read that is to be deleted."""
    visible, *_, heir = group
    joining = make_extraction(chunks[4], make_decision(), confidence=1, group=visible.group)
    changes = {
        "visible": partial(delete_extractions, ctx, visible),
        "heir": partial(delete_extractions, ctx, heir),
        "joining": partial(store_extractions, ctx, joining),
    }
    racing = make_job_context(apps(call_before_commit(1, changes[simultaneous])))
    chunk = await queue_chunk(ctx, visible.chunk_id)
    await replace_extractions(racing, chunk, [])
    expected = {"visible": heir, "heir": group[2], "joining": joining}[simultaneous]
    assert await list_visible_decisions(ctx) == [expected.extraction_id]
    stored = await read_documents(ctx, "extractions")
    assert visible.extraction_id not in stored
    assert sum(bool(data["facets"]) for data in stored.values()) == 1


async def test_deleting_the_visible_one_of_a_hundred_reads_one_other(
    ctx: Context, group: list[Extraction], meter: Meter
) -> None:
    chunk = await queue_chunk(ctx, group[0].chunk_id)
    reads_before, writes_before = meter.documents_read, meter.documents_written
    await replace_extractions(ctx, chunk, [])
    # The decision and the warning, their groups, and two members of the decision's.
    assert meter.documents_read - reads_before == 6
    # These but the deleted decision's twin: the heir. Also the chunk and the topics.
    assert meter.documents_written - writes_before == 8
