"""What ingest writes of a source: what differs, no more, in commits that Firestore takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from shared.caller import Caller
from shared.domain.source import Section, Source
from shared.store import Meter
from tests.jobs.documents import documents, snapshots
from tests.knowledge import BAKING, SAILING, in_chunks

if TYPE_CHECKING:
    from shared.deps import Backend, Deps

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 31, 12, tzinfo=UTC)
LATER = datetime(2024, 6, 1, 12, tzinfo=UTC)


async def save(deps: Deps, *sources: Source, now: datetime = NOON) -> Counter[str]:
    return await deps.store.sources.save([in_chunks(source) for source in sources], now)


def with_texts(*texts: str) -> Source:
    return Source("many", "Many", sections=tuple(Section(text) for text in texts))


async def contents(deps: Deps) -> list[str]:
    found = (await documents(deps, "chunks")).values()
    return [data["content"] for data in sorted(found, key=lambda data: data["position"])]


async def test_a_sources_document_describes_it(deps: Deps) -> None:
    chunked = in_chunks(BAKING)
    await save(deps, BAKING)
    assert await documents(deps, "sources") == {
        "baking": {
            "title": "Bread at Home",
            "author": "Ida Loaf",
            "type": "books",
            "source": "kindle",
            "url": "https://example.com/bread",
            "readwise_url": "https://readwise.io/bookreview/1",
            "tags": ["food"],
            "chunk_count": 3,
            "content_hash": chunked.content_hash,
            "created_at": NOON,
            "updated_at": NOON,
        }
    }


async def test_a_new_chunk_waits_for_every_step_at_once(deps: Deps) -> None:
    await save(deps, SAILING)
    for data in (await documents(deps, "chunks")).values():
        assert (data["pending"], data["retry_at"], data["parked"]) == (["embed"], NOON, {})
        assert (data["created_at"], data["updated_at"]) == (NOON, NOON)
        assert "embedding" not in data


async def test_what_was_written_is_counted(deps: Deps) -> None:
    assert await save(deps, BAKING, SAILING) == Counter(sources=2, created=5)
    assert await save(deps, BAKING, SAILING) == Counter()


async def test_unchanged_sources_cost_one_read_each_in_one_round_trip(
    deps: Deps, backend: Backend
) -> None:
    await save(deps, BAKING, SAILING)
    meter = Meter()
    await save(backend.deps(Caller(), meter), BAKING, SAILING)
    assert (meter.documents_read, meter.documents_written, meter.round_trips) == (2, 0, 1)


async def test_a_changed_source_costs_its_chunks_but_not_its_neighbours(
    deps: Deps, backend: Backend
) -> None:
    await save(deps, BAKING, SAILING)
    meter = Meter()
    await save(backend.deps(Caller(), meter), BAKING, replace(SAILING, tags=("sea",)))
    assert (meter.documents_read, meter.documents_written, meter.round_trips) == (4, 3, 3)


async def test_a_source_without_chunks_is_deleted_with_what_it_had(deps: Deps) -> None:
    await save(deps, BAKING, SAILING)
    assert await save(deps, replace(BAKING, sections=())) == Counter(sources=1, deleted=3)
    assert set(await documents(deps, "sources")) == {"sailing"}
    assert {data["source_id"] for data in (await documents(deps, "chunks")).values()} == {"sailing"}


async def test_a_repeat_keeps_its_id_when_what_stood_between_goes(deps: Deps) -> None:
    await save(deps, with_texts("Same.", "Other.", "Same."))
    counts = await save(deps, with_texts("Same.", "Same."))
    assert counts == Counter(sources=1, updated=2, deleted=1)
    assert await contents(deps) == ["Same.", "Same."]


async def test_a_chunk_keeps_the_day_it_was_made(deps: Deps) -> None:
    await save(deps, SAILING)
    await save(deps, replace(SAILING, author="Ann"), now=LATER)
    for data in (await documents(deps, "chunks")).values():
        assert (data["author"], data["created_at"], data["updated_at"]) == ("Ann", NOON, LATER)


async def test_what_jobs_made_of_a_chunk_survives_a_change_around_it(deps: Deps) -> None:
    await save(deps, SAILING)
    made: dict[str, Any] = {"cluster_id": ["c-1"], "knowledge_card": {"summary": "Reef early."}}
    chunk_id = in_chunks(SAILING).chunks[0].chunk_id
    await deps.store.database.document("chunks", chunk_id).update(made)
    await save(deps, replace(SAILING, title="Under Full Sail"))
    data = (await documents(deps, "chunks"))[chunk_id]
    assert (data["title"], {key: data[key] for key in made}) == ("Under Full Sail", made)


async def test_a_source_of_many_chunks_takes_several_commits_and_comes_last(deps: Deps) -> None:
    await save(deps, with_texts(*(f"Highlight {number}." for number in range(230))))
    assert await contents(deps) == [f"Highlight {number}." for number in range(230)]
    await assert_source_came_last(deps)


async def test_a_source_of_large_chunks_takes_several_commits_and_comes_last(deps: Deps) -> None:
    letter = "\U00010428"  # four bytes in UTF-8
    texts = [f"{number} {letter * 3000}" for number in range(180)]
    await save(deps, with_texts(*texts))
    assert await contents(deps) == texts
    await assert_source_came_last(deps)


async def assert_source_came_last(deps: Deps) -> None:
    written = [each.update_time for each in (await snapshots(deps, "chunks")).values()]
    source = (await snapshots(deps, "sources"))["many"]
    assert min(written) < max(written) <= source.update_time


async def test_a_run_that_dies_between_two_commits_is_completed_by_the_next(
    deps: Deps, backend: Backend
) -> None:
    source = with_texts(*(f"Highlight {number}." for number in range(230)))
    dying = backend.deps(Caller(), Meter())
    moments = [NOON, NOON]  # for taking the lease and for one renewal
    await dying.store.leases.acquire("ingest", 30, moments.pop)
    with pytest.raises(IndexError):
        await save(dying, source)
    assert (len(await contents(deps)), await documents(deps, "sources")) == (200, {})
    assert await save(deps, source) == Counter(sources=1, created=30)
    assert await contents(deps) == [section.text for section in source.sections]
