"""The health job measures search with the same golden queries each night, and warns of a loss.

A golden query is a sentence of a chunk or of its card (a summary), chosen by the job or given by
the user, by which a search must find this chunk.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from functions.jobs.health.golden_queries import MAX_QUERIES, SET_SIZE
from functions.jobs.health.job import JOB, health
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.knowledge.golden_queries import MAX_NIGHTS, GoldenQuery, SearchHealth
from shared.knowledge.source import Section, Source
from shared.runtime.context import App
from shared.runtime.job import Budget, Report, run_job
from tests.support.clock import SettableClock
from tests.support.commit_hooks import WatchedApp
from tests.support.database_dump import read_root_documents, write_documents
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context, make_spent_budget
from tests.support.knowledge import BAKING, SAILING, set_fields, store_sources
from tests.support.stored_documents import read_chunks, read_documents
from tests.support.tasks import NOON

if TYPE_CHECKING:
    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from tests.emulator.conftest import MakeEmptyContext
    from tests.support.commit_hooks import Results, Send
    from tests.support.database_dump import Contents

pytestmark = pytest.mark.anyio

NUMBER_WORDS: Final = (
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the app, which stands still until a test advances it."""
    return SettableClock(NOON)


@pytest.fixture
def ctx(app: App) -> Context:
    """The context of a run of the job."""
    return make_job_context(app)


LOGBOOK: Final = Source(
    "logbook",
    "Logbook",
    sections=tuple(
        Section(
            f"The {NUMBER_WORDS[n % 10]} sailor of boat {n} mended net {n * 7} beside pier {n}."
        )
        for n in range(30)
    ),
)
"""A source of thirty chunks that differ from each other, more than there are golden queries."""


@pytest.fixture(scope="module")
async def stored_logbook(make_empty_context: MakeEmptyContext) -> Contents:
    """The documents of `logbook`, which are made only once."""
    ctx = make_empty_context(NOON)
    await store_sources(ctx, LOGBOOK)
    return await read_root_documents(ctx.database.client)


@pytest.fixture
async def logbook(ctx: Context, stored_logbook: Contents) -> None:
    """A knowledge base with this source."""
    await write_documents(ctx.database.client, stored_logbook)


async def test_a_night_is_a_day_of_the_owner(ctx: Context, settings: Settings) -> None:
    await store_sources(ctx, BAKING)
    zone = settings.model_copy(update={"time_zone": "Pacific/Kiritimati"})  # 14 hours ahead
    await health(replace(ctx, settings=zone), make_ample_budget())
    [night] = await SearchHealth(ctx.database).load_nights()
    assert night.date == "2026-03-11"


async def read_stored_queries(ctx: Context) -> tuple[GoldenQuery, ...]:
    """Return the queries that the job has chosen."""
    return (await SearchHealth(ctx.database).load_golden_set()).chosen


async def test_the_golden_queries_of_an_intact_base_are_found(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    progress: list[int] = []

    report = await health(ctx, Budget(math.inf, progress.append))

    assert report.counts == Counter(queries=5, found=5)
    assert report.finished
    assert "recall@10 1.00, MRR@10 1.00" in report.note
    assert sum(progress) == 5
    [night] = await SearchHealth(ctx.database).load_nights()
    assert night.date == "2026-03-10"
    assert night.model == "words"
    assert night.recall == 1.0
    queries = await read_stored_queries(ctx)
    assert {query.chunk_id for query in queries} == set(await read_chunks(ctx))
    assert {query.name for query in queries} == night.ranks.keys()


async def test_a_query_is_a_sentence_of_the_card_not_in_the_text(ctx: Context) -> None:
    first, *_ = await store_sources(ctx, BAKING)
    card = {
        "summary": "Dough needs work and warmth.",
        "takeaways": ["Knead the dough until it is smooth", "Work it long, and give it time."],
    }
    await set_fields(ctx, f"chunks/{first.chunk_id}", {"knowledge_card": card})
    await health(ctx, make_ample_budget())
    query_texts = {query.chunk_id: query.query for query in await read_stored_queries(ctx)}
    assert query_texts[first.chunk_id] == "Work it long, and give it time."


async def test_a_query_without_a_card_is_a_sentence_of_the_text(ctx: Context) -> None:
    text = "It rose. The baker folded the sticky rye dough around raisins. Then it was eaten."
    [chunk] = await store_sources(ctx, Source("rye", "Rye", sections=(Section(text),)))
    await health(ctx, make_ample_budget())
    query = GoldenQuery("The baker folded the sticky rye dough around raisins.", chunk.chunk_id)
    assert await read_stored_queries(ctx) == (query,)


@pytest.mark.usefixtures("logbook")
async def test_queries_stay_while_their_chunks_exist(ctx: Context, clock: SettableClock) -> None:
    await health(ctx, make_ample_budget())
    chosen = await read_stored_queries(ctx)
    assert len({query.chunk_id for query in chosen}) == SET_SIZE

    await store_sources(ctx, BAKING, SAILING)
    await set_fields(ctx, f"chunks/{chosen[0].chunk_id}", {"knowledge_card": {"summary": "New."}})
    for _ in range(2):
        clock.advance(days=1)
        await health(ctx, make_ample_budget())

    assert await read_stored_queries(ctx) == chosen
    first_night, *later_nights = await SearchHealth(ctx.database).load_nights()
    assert [night.ranks for night in later_nights] == [first_night.ranks] * 2


@pytest.mark.usefixtures("logbook")
async def test_only_queries_of_deleted_chunks_are_replaced(
    ctx: Context, clock: SettableClock
) -> None:
    await health(ctx, make_ample_budget())
    before = await read_stored_queries(ctx)
    deleted_ids = {query.chunk_id for query in before[:2]}
    sections = [
        Section(data["content"])
        for chunk_id, data in (await read_chunks(ctx)).items()
        if chunk_id not in deleted_ids
    ]
    await store_sources(ctx, replace(LOGBOOK, sections=tuple(sections)))
    clock.advance(days=1)

    await health(ctx, make_ample_budget())

    after = await read_stored_queries(ctx)
    assert after[: SET_SIZE - 2] == before[2:]
    assert len({query.chunk_id for query in after} - deleted_ids) == SET_SIZE
    first_night, second_night = await SearchHealth(ctx.database).load_nights()
    assert second_night.compute_gain(first_night) == 0.0


async def test_the_choice_of_queries_is_deterministic(
    settings: Settings, stored_logbook: Contents
) -> None:
    """In two equal databases, the same queries are chosen."""
    choices = []
    for number in range(2):
        project = f"{settings.google_cloud_project}-{number}"
        app = App(
            settings.model_copy(update={"google_cloud_project": project}), embedder=WordEmbedder()
        )
        ctx = make_job_context(app)
        await write_documents(ctx.database.client, stored_logbook)
        await health(ctx, make_ample_budget())
        choices.append(await read_stored_queries(ctx))
        await app.aclose()
    assert choices[0] == choices[1]


@pytest.mark.usefixtures("logbook")
async def test_users_queries_are_run_and_never_overwritten(ctx: Context) -> None:
    first, second, *_ = sorted(await read_chunks(ctx))
    given = [
        {"query": "whose net was it?", "chunk_id": first},
        {"query": "nobody knows", "chunk_id": "gone"},
        *({"query": f"{number} nets", "chunk_id": second} for number in range(8)),
    ]
    await set_fields(ctx, "meta/golden_queries", {"given": given})
    assert (await health(ctx, make_ample_budget())).counts["queries"] == MAX_QUERIES
    assert (await read_documents(ctx, "meta"))["golden_queries"]["given"] == given
    # Nine of the ten given queries are run, because one of the chunks does not exist.
    assert MAX_QUERIES - 9 <= len(await read_stored_queries(ctx)) <= SET_SIZE


@pytest.mark.usefixtures("logbook")
async def test_users_queries_do_not_change_the_chosen_ones(
    ctx: Context, clock: SettableClock
) -> None:
    """With many queries of the user, only some of the chosen ones are run."""
    await health(ctx, make_ample_budget())
    chosen = await read_stored_queries(ctx)
    [first, *_] = sorted(await read_chunks(ctx))
    given = [{"query": f"{number} nets", "chunk_id": first} for number in range(10)]
    await set_fields(ctx, "meta/golden_queries", {"given": given})
    clock.advance(days=1)
    assert (await health(ctx, make_ample_budget())).counts["queries"] == MAX_QUERIES
    assert await read_stored_queries(ctx) == chosen


def parse_log_lines(printed: str) -> list[dict[str, Any]]:
    """Return the printed lines that are JSON objects."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


@pytest.mark.usefixtures("logbook")
async def test_a_loss_of_recall_is_logged_as_numbers_only(
    ctx: Context, clock: SettableClock, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        await health(ctx, make_ample_budget())
        clock.advance(days=1)
    assert parse_log_lines(capfd.readouterr().err) == []

    # Three chunks lose their vectors, and all postings are lost.
    damage: dict[str, Any] = {"facets": [], "embedding": None}
    for query in (await read_stored_queries(ctx))[:3]:
        await ctx.database.client.document(f"chunks/{query.chunk_id}").update(damage)
    for term in await read_documents(ctx, "lexicon"):
        await ctx.database.client.document(f"lexicon/{term}").delete()
    report = await health(ctx, make_ample_budget())

    assert report.counts["found"] == SET_SIZE - 3
    [warning] = parse_log_lines(capfd.readouterr().err)
    assert warning == {
        "message": "search_finds_less",
        "severity": "WARNING",
        "recall_at_10": 0.85,
        "since_a_week": -0.15,
        "queries": SET_SIZE,
        "mrr_at_10": warning["mrr_at_10"],
        "time": warning["time"],
    }


async def test_no_query_text_is_logged_or_stored_with_the_run(
    app: App, ctx: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    await store_sources(ctx, BAKING)
    capfd.readouterr()
    await run_job(JOB, app)
    printed = capfd.readouterr().err + str(await read_documents(ctx, "runs"))
    assert [word for word in ("dough", "Knead", "sourdough", "oven") if word in printed] == []


async def test_a_later_measurement_of_a_day_replaces_the_first(
    ctx: Context, clock: SettableClock
) -> None:
    await store_sources(ctx, BAKING)
    await health(ctx, make_ample_budget())
    await store_sources(ctx, SAILING)
    clock.advance(hours=1)
    await health(ctx, make_ample_budget())
    [night] = await SearchHealth(ctx.database).load_nights()
    assert len(night.ranks) == 5


async def test_the_last_thirty_nights_are_stored(ctx: Context, clock: SettableClock) -> None:
    """There are 29 nights of January; two runs add two more, and the first one is dropped."""
    section = Section("Rye bread keeps for many days.")
    await store_sources(ctx, Source("rye", "Rye", sections=(section,)))
    await health(ctx, make_ample_budget())
    search_health = SearchHealth(ctx.database)
    [night] = await search_health.load_nights()
    nights = [replace(night, date=f"2026-01-{day:02}") for day in range(1, MAX_NIGHTS)]
    await search_health.store_nights(nights)

    for _ in range(2):
        clock.advance(days=1)
        await health(ctx, make_ample_budget())

    nights = list(await search_health.load_nights())
    assert nights[0].date == "2026-01-02"
    assert len(nights) == MAX_NIGHTS
    assert nights[-1].date == f"{clock():%Y-%m-%d}"


async def test_a_run_without_semantic_search_stores_nothing(
    ctx: Context, embedder: WordEmbedder
) -> None:
    await store_sources(ctx, BAKING)
    embedder.is_down = True
    report = await health(ctx, make_ample_budget())
    assert replace(report, note="") == Report()
    assert report.note == "Semantic search is not available: nothing was measured."
    assert await SearchHealth(ctx.database).load_nights() == []


async def test_a_run_without_time_stores_nothing(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    assert await health(ctx, make_spent_budget()) == Report(finished=False)
    assert await SearchHealth(ctx.database).load_nights() == []


async def test_unindexed_chunks_are_not_chosen(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    pending_id, *other_ids = await read_chunks(ctx)
    await set_fields(ctx, f"chunks/{pending_id}", {"pending": {"embed": NOON}})
    await health(ctx, make_ample_budget())
    chosen_ids = {query.chunk_id for query in await read_stored_queries(ctx)}
    assert chosen_ids == set(other_ids)


async def test_an_empty_base_costs_a_few_reads(app: App) -> None:
    meter = Meter()
    assert await health(app.context(Caller(), meter), make_ample_budget()) == Report()
    assert meter.documents_written == 0
    assert meter.documents_read <= 5


@pytest.mark.usefixtures("logbook")
async def test_a_run_costs_as_much_as_its_searches(app: App, clock: SettableClock) -> None:
    ctx = make_job_context(app)
    await health(ctx, make_ample_budget())
    clock.advance(days=1)
    meter = Meter()
    await health(app.context(Caller(), meter), make_ample_budget())
    assert meter.documents_written == 1
    # A search reads up to 50 chunks by vector, 30 by words, and the postings of its words.
    assert meter.documents_read < SET_SIZE * (50 + 30 + 20)


@pytest.mark.usefixtures("logbook")
async def test_the_next_run_after_a_kill_measures_the_same(
    settings: Settings, ctx: Context, clock: SettableClock
) -> None:
    """Three runs are killed after their first commit."""

    class Killed(Exception):
        pass

    async def send_and_die(_commit: int, send: Send) -> Results:
        await send()
        raise Killed

    for _ in range(3):
        dying_app = WatchedApp(settings, send_and_die, clock=clock, embedder=WordEmbedder())
        with pytest.raises(Killed):
            await health(make_job_context(dying_app), make_ample_budget())
        await dying_app.aclose()
    chosen = await read_stored_queries(ctx)
    [night_before] = await SearchHealth(ctx.database).load_nights()

    await health(ctx, make_ample_budget())

    assert await read_stored_queries(ctx) == chosen
    [night] = await SearchHealth(ctx.database).load_nights()
    assert night.ranks == night_before.ranks
