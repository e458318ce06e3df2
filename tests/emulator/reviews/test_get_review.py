"""`get_review` chooses five passages a day, and returns the same ones all day."""

from datetime import datetime, timedelta

import pytest

from functions.tools.reviews.get_review.choice import FETCH_LIMIT, PASSAGE_COUNT, SAMPLE_SIZE, Why
from shared.core.caller import Caller
from shared.knowledge.source import Section, Source
from shared.runtime.context import App
from shared.writer.ingestion import Ingestion
from tests.support.clock import SettableClock
from tests.support.forgetting import OWNER
from tests.support.jobs import make_job_context
from tests.support.knowledge import chunk_source
from tests.support.small_sources import NOON
from tests.support.tool_calls import call, call_error, call_result

ANN, BEN = Caller.of("ann"), Caller.of("ben")
LONG_AGO = NOON - timedelta(days=400)
YESTERDAY = NOON - timedelta(days=1)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOON)


def make_book(name: str, count: int = 30, day: datetime | None = None) -> Source:
    """Return a book with passages of a readable length, highlighted on a day if it is given."""
    texts = [
        f"Thought {number} of {name}, long enough to read it again." for number in range(count)
    ]
    return Source(name, name, sections=tuple(Section(text, highlighted_at=day) for text in texts))


async def store(
    app: App, *sources: Source, now: datetime = YESTERDAY, provider: str = "local"
) -> None:
    """Ingest sources, without dates for what has none."""
    chunked = [chunk_source(source, provider) for source in sources]
    await Ingestion(make_job_context(app).database).save(chunked, now)


async def read(app: App, caller: Caller = ANN) -> dict[str, str]:
    """Return the ids of today's passages, each with the reason."""
    review = await call_result(app, "get_review", caller)
    return {passage["chunk_id"]: passage["why"] for passage in review["passages"]}


async def answer(app: App, chunk_id: str, answer: str = "keep") -> str:
    """Answer for a passage as Ann, and return the day when it comes back."""
    result = await call_result(app, "answer_review", ANN, chunk_id=chunk_id, answer=answer)
    day: str = result["again"]
    return day


async def test_passages_are_from_lately_long_ago_and_by_chance(app: App) -> None:
    await store(app, make_book("new", day=NOON - timedelta(days=40)))
    await store(app, make_book("old", day=LONG_AGO), make_book("undated"))
    first = await read(app)
    assert sorted(first.values()) == sorted(
        [Why.LATELY, Why.LONG_AGO, Why.CHANCE, Why.LATELY, Why.LONG_AGO]
    )
    names = {why: {chunk_id[:3] for chunk_id in first if first[chunk_id] == why} for why in Why}
    assert (names[Why.LATELY], names[Why.LONG_AGO]) == ({"new"}, {"old"})


async def test_they_stay_all_day_and_change_the_next(app: App, clock: SettableClock) -> None:
    await store(app, make_book("old", day=LONG_AGO), make_book("undated"))
    chosen = await read(app)
    assert len(chosen) == PASSAGE_COUNT
    for chunk_id in [*chosen][:3]:
        await answer(app, chunk_id)
    clock.advance(hours=11)
    await store(app, make_book("added", day=YESTERDAY), now=clock.now)
    assert await read(app) == chosen
    assert await read(app, BEN) != chosen
    clock.advance(hours=1)
    assert await read(app) != chosen


async def test_the_day_begins_in_the_time_zone(app: App, clock: SettableClock) -> None:
    await store(app, make_book("undated"))
    app.settings = app.settings.model_copy(update={"time_zone": "Pacific/Auckland"})
    clock.now = NOON.replace(hour=11)
    evening = await read(app)
    clock.now = NOON.replace(hour=13)
    assert await read(app) != evening


async def test_a_passage_comes_back_when_it_is_due(app: App, clock: SettableClock) -> None:
    await store(app, make_book("undated", 300))
    chunk_id = next(iter(await read(app)))
    assert await answer(app, chunk_id) == "2024-06-19"
    for day in range(1, 7):
        clock.now = NOON + timedelta(days=day)
        assert chunk_id not in await read(app)
    clock.now = NOON + timedelta(days=7)
    assert (await read(app))[chunk_id] == Why.DUE
    assert await answer(app, chunk_id, "not_soon") == "2024-10-09"
    assert await answer(app, chunk_id) == "2024-07-03"
    [passage] = [
        passage
        for passage in (await call_result(app, "get_review", ANN))["passages"]
        if passage["chunk_id"] == chunk_id
    ]
    assert (passage["answer"], passage["again"]) == ("keep", "2024-07-03")
    clock.advance(days=1)
    assert chunk_id not in await read(app)


async def test_equal_texts_are_shown_once(app: App) -> None:
    sources = [
        Source(f"copy-{number}", "A book", sections=make_book("x", 3).sections)
        for number in range(3)
    ]
    await store(app, *sources)
    review = await call_result(app, "get_review", ANN)
    texts = [passage["content"] for passage in review["passages"]]
    assert len(texts) == len(set(texts)) == 3


async def test_short_and_long_texts_and_conversations_are_left_out(app: App) -> None:
    short = Source("short", "Short", sections=(Section("Too short."),))
    long = Source("long", "Long", sections=(Section("A long text. " * 120),))
    talk = Source("talk", "Talk", category="conversation", sections=make_book("talk").sections)
    await store(app, short, talk)
    await store(app, long, provider="openai")
    assert await read(app) == {}


async def test_a_forgotten_passage_leaves_room_for_another(app: App) -> None:
    await store(app, make_book("undated"))
    chosen = [*await read(app)]
    await call_result(app, "forget", OWNER, chunk_id=chosen[0])
    others = [*await read(app)]
    assert (len(others), others[:4]) == (PASSAGE_COUNT, chosen[1:])


async def test_few_documents_are_read_whatever_is_stored(app: App) -> None:
    await store(app, make_book("undated", 300), make_book("old", 100, LONG_AGO))
    receipt = (await call(app, "get_review", ANN)).receipt
    assert receipt.documents_read <= SAMPLE_SIZE + FETCH_LIMIT + 1


async def test_an_unknown_passage_is_not_answered_for(app: App) -> None:
    error = await call_error(app, "answer_review", ANN, chunk_id="nothing", answer="keep")
    assert error.code == "NOT_FOUND"


async def test_only_the_latest_reviews_are_kept(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.knowledge.reviews.MAX_REVIEWS", 2)
    await store(app, make_book("undated"))
    for chunk_id in [*await read(app)][:3]:
        await answer(app, chunk_id)
    review = await call_result(app, "get_review", ANN)
    assert sum("again" in passage for passage in review["passages"]) == 2
