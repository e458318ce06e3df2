"""The index job keeps postings exact, whatever happens to the chunks."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from functions.jobs.index.commits import MAX_BYTES, MAX_POSTINGS, split_commits
from functions.jobs.index.job import JOB, PAGE_SIZE, count_pending, index, index_with
from shared.core.caller import Caller
from shared.core.errors import PlatformFault
from shared.core.meter import Meter
from shared.firestore.database import LeaseLost
from shared.firestore.leases import Leases
from shared.index.facets import HAS_CARD, Facet, Kind, make_named_facet
from shared.index.indexed_state import NOT_INDEXED, IndexedState
from shared.index.posting_changes import IndexDifference, build_postings_writes
from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from shared.pipeline.indexing import INDEX_VERSION, ChunkToIndex, IndexChange, Indexing
from shared.runtime.context import App
from shared.runtime.job import Budget, Report, run_job
from shared.text.terms import ANALYZER_VERSION
from tests.support.clock import NOON
from tests.support.index_history import History, RacingIndexing
from tests.support.index_postings import (
    assert_postings_are_exact,
    assert_postings_are_sound,
    read_postings,
    read_postings_in_use,
)
from tests.support.jobs import make_ample_budget, make_spent_budget
from tests.support.knowledge import BAKING, SAILING, chunk_source, set_fields, store_sources
from tests.support.stored_documents import read_chunks, read_documents, read_leased_jobs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.runtime.context import Context

pytestmark = pytest.mark.anyio

NOTES = Source(
    source_id="notes",
    title="Notes",
    sections=tuple(Section(f"Note {number}.") for number in range(10)),
)
ODD = chunk_source(NOTES).chunks[3]
SEEDS = [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]


async def ingest_sources(ctx: Context, *sources: Source) -> None:
    """Ingest sources without indexing them."""
    await Ingestion(ctx.database).save([chunk_source(source) for source in sources], NOON)


@pytest.fixture
async def notes(ctx: Context) -> Context:
    """Make a knowledge base of ten pending notes."""
    await ingest_sources(ctx, NOTES)
    return ctx


def index_with_race(ctx: Context, race: Callable[[], Awaitable[object]]) -> Indexing:
    """Run a function between the read and the commit of the chunks."""
    raced = RacingIndexing(ctx.database)
    raced.race = race
    return raced


@pytest.mark.parametrize("seed", SEEDS)
async def test_postings_are_exact_after_any_history(ctx: Context, seed: int) -> None:
    history = History(ctx, seed)
    for _ in range(3):
        for _ in range(6):
            await history.make_change()
        await history.index()
        await assert_postings_are_exact(ctx)


@pytest.mark.parametrize("seed", SEEDS)
async def test_truncated_postings_are_correct_after_any_history(ctx: Context, seed: int) -> None:
    history = History(ctx, seed, cap=4, slack=2)
    for _ in range(3):
        for _ in range(6):
            await history.make_change()
        await history.index()
        await assert_postings_are_sound(ctx)
        lists = await read_postings(ctx)
        assert all(len(data["postings"]) < 6 for data in lists.values())


async def test_empty_base_has_no_postings(ctx: Context) -> None:
    await store_sources(ctx, BAKING, SAILING)
    await ingest_sources(ctx, replace(BAKING, sections=()), replace(SAILING, sections=()))
    assert (await index(ctx, make_ample_budget())).counts == {"indexed": 5}
    assert await read_postings_in_use(ctx) == {}
    assert await read_documents(ctx, "chunks") == {}
    await assert_postings_are_exact(ctx)


async def test_restored_chunk_is_indexed_again(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await ingest_sources(ctx, replace(BAKING, sections=()))
    await ingest_sources(ctx, BAKING)
    assert (await index(ctx, make_ample_budget())).counts == {"indexed": 3}
    await assert_postings_are_exact(ctx)
    assert len(await read_chunks(ctx)) == 3


async def test_chunk_edited_during_the_run_is_indexed_as_edited(notes: Context) -> None:
    async def edit() -> None:
        edited = {"content": "Note 3, edited.", "pending": {"index": NOON}}
        await set_fields(notes, f"chunks/{ODD.chunk_id}", edited)

    report = await index_with(index_with_race(notes, edit), notes, make_ample_budget())
    assert report == Report(Counter(indexed=10))
    assert ("lexicon", "edit") in await read_postings(notes)
    await assert_postings_are_exact(notes)


async def test_chunk_deleted_during_the_run_is_removed(notes: Context) -> None:
    async def delete() -> None:
        await ingest_sources(
            notes, replace(NOTES, sections=NOTES.sections[:3] + NOTES.sections[4:])
        )

    await index_with(index_with_race(notes, delete), notes, make_ample_budget())
    assert len(await read_documents(notes, "chunks")) == 9
    await assert_postings_are_exact(notes)


async def test_chunk_restored_during_its_removal_stays(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await ingest_sources(ctx, replace(BAKING, sections=()))
    await index_with(
        index_with_race(ctx, lambda: ingest_sources(ctx, BAKING)), ctx, make_ample_budget()
    )
    assert len(await read_chunks(ctx)) == 3
    await assert_postings_are_exact(ctx)


async def test_second_run_has_nothing_to_do(notes: Context, app: App) -> None:
    await index(notes, make_ample_budget())
    meter = Meter()
    assert await index(app.context(Caller(), meter), make_ample_budget()) == Report()
    # What waits, the analysis, the long postings of both corpora, extractions that went, sources
    # that are being forgotten or were edited.
    assert (meter.documents_read, meter.documents_written) == (9, 0)


async def test_postings_that_others_made_too_long_are_cut(ctx: Context) -> None:
    for number in range(6):
        state = IndexedState({"bread": 1}, {}, number)
        difference = IndexDifference(f"d{number}", NOT_INDEXED, state)
        await ctx.database.commit(build_postings_writes(ctx.database, KNOWLEDGE, [difference]))
    report = await index_with(Indexing(ctx.database), ctx, make_ample_budget(), cap=3, slack=2)
    assert report == Report(Counter(shortened=1))
    bread = (await read_postings(ctx))["lexicon", "bread"]
    assert (bread["df"], bread["held"], len(bread["postings"])) == (6, 3, 3)


async def test_changed_title_is_indexed(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await store_sources(ctx, replace(BAKING, title="Loaves"))
    lists = await read_postings(ctx)
    assert lists["facets", Facet(Kind.SOURCE, "baking").id]["name"] == "Loaves"
    await assert_postings_are_exact(ctx)


async def test_changed_spelling_of_a_tag_is_stored(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await store_sources(ctx, replace(BAKING, tags=("FOOD",)))
    assert (await read_postings(ctx))["facets", make_named_facet(Kind.TAG, "food").id][
        "name"
    ] == "FOOD"


async def test_new_card_becomes_a_facet(ctx: Context) -> None:
    first, *_ = await store_sources(ctx, BAKING)
    card = {"knowledge_card": {"summary": "Knead."}, "pending": {"index": NOON}}
    await set_fields(ctx, f"chunks/{first.chunk_id}", card)
    await index(ctx, make_ample_budget())
    lists = await read_postings(ctx)
    assert {first.chunk_id} == lists["facets", HAS_CARD.id]["postings"].keys()
    await assert_postings_are_exact(ctx)


async def test_a_chunk_lists_its_facets(ctx: Context) -> None:
    first, *_ = await store_sources(ctx, replace(BAKING, sections=BAKING.sections[:1]))
    stored = (await read_chunks(ctx))[first.chunk_id]["facets"]
    months = [name for name in stored if name.startswith("month:")]
    expected = ["author:ida loaf", "category:books", *months, "source:baking"]
    assert [*expected, "tag:dough", "tag:food", "title:bread at home"] == sorted(stored)


@pytest.mark.parametrize(
    "tag",
    [
        "a/b",
        "100%",
        "%2F",
        "..",
        ".",
        "__x__",
        "x" * 1_500,
        "王" * 1_500,
        "🍞",
        " ",
        "a`b",
        "a.b\\",
    ],
)
async def test_any_tag_is_indexed(ctx: Context, tag: str) -> None:
    await ingest_sources(ctx, replace(BAKING, tags=(tag,), author=tag, category=tag, title=tag))
    assert await index(ctx, make_ample_budget()) == Report(Counter(indexed=3))
    await assert_postings_are_exact(ctx)
    lists = await InvertedIndex(ctx.database, KNOWLEDGE).read([], [make_named_facet(Kind.TAG, tag)])
    assert [3] * bool(tag.strip()) == [postings.df for postings in lists.facets.values()]


async def test_chunk_without_terms_is_indexed_by_its_facets(ctx: Context) -> None:
    await ingest_sources(ctx, Source("marks", "???", sections=(Section("!!!"),)))
    assert await index(ctx, make_ample_budget()) == Report(Counter(indexed=1))
    await assert_postings_are_exact(ctx)
    assert {name for name, _ in await read_postings(ctx)} == {"facets"}


async def test_word_of_any_length_is_indexed(ctx: Context) -> None:
    await ingest_sources(
        ctx, Source("_long", "A", sections=(Section(f"{'𐐀' * 64} {'x' * 3_000}"),))
    )
    assert (await index(ctx, make_ample_budget())).failures == []
    await assert_postings_are_exact(ctx)


async def test_chunk_without_a_date_is_found_by_its_words(notes: Context) -> None:
    await set_fields(notes, f"chunks/{ODD.chunk_id}", {"dated_at": None})
    await index(notes, make_ample_budget())
    lists = await read_postings(notes)
    assert lists["lexicon", "3"]["df"] == 1
    assert len(next(data for name, data in lists.items() if "month:" in name[1])["postings"]) == 9


async def test_malformed_document_is_dead_lettered(notes: Context, app: App) -> None:
    await set_fields(notes, "chunks/stray", {"pending": {"index": NOON}, "content": "Whatever."})
    reasons = []
    for turn in range(6):
        moment = NOON + timedelta(hours=turn)
        later = App(app.settings, clock=lambda moment=moment: moment)  # type: ignore[misc]
        report = await index(later.context(Caller(), Meter()), make_ample_budget())
        await later.aclose()
        assert report.counts == ({} if turn else {"indexed": 10})
        reasons += [failure.reason for failure in report.failures]
    assert reasons == ["the document is malformed: KeyError('source_id')"] * 5
    assert list((await read_documents(notes, "chunks"))["stray"]["parked"]) == ["index"]
    assert await count_pending(notes) == 0


@pytest.mark.parametrize(
    "fields", [{"tags": [7]}, {"dated_at": "yesterday"}, {"knowledge_card": "?"}, {"tries": None}]
)
async def test_chunk_with_a_field_of_wrong_type_blocks_no_other(
    notes: Context, fields: dict[str, Any]
) -> None:
    await set_fields(notes, f"chunks/{ODD.chunk_id}", fields)
    report = await index(notes, make_ample_budget())
    assert report.counts["indexed"] + len(report.failures) == 10
    assert {ODD.chunk_id} >= {failure.name for failure in report.failures}
    assert await index(notes, make_ample_budget()) == Report()


async def test_chunk_rejected_by_the_database_blocks_no_other(notes: Context) -> None:
    await set_fields(notes, f"chunks/{ODD.chunk_id}", {"padding": "x" * 1_047_900})
    report = await index(notes, make_ample_budget())
    assert report.counts == {"indexed": 9}
    assert [failure.name for failure in report.failures] == [ODD.chunk_id]
    await set_fields(notes, f"chunks/{ODD.chunk_id}", {"padding": "", "pending": {"index": NOON}})
    assert (await index(notes, make_ample_budget())).counts == {"indexed": 1}
    odd = (await read_chunks(notes))[ODD.chunk_id]
    assert ("index" in odd["pending"], odd["tries"], odd["parked"]) == (False, {}, {})
    await assert_postings_are_exact(notes)


async def test_database_rejecting_all_writes_defers_no_chunk(
    notes: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RefusedChunks(RacingIndexing):
        async def apply(self, changes: Sequence[IndexChange]) -> None:
            raise PlatformFault(f"{len(changes)} are too many.")

    class Refusing(ChunkQueue):
        async def defer(self, *_: object) -> None:
            raise PlatformFault("Not this either.")

    monkeypatch.setattr("shared.pipeline.worker.ChunkQueue", Refusing)
    with pytest.raises(PlatformFault, match="Not this either"):
        await index_with(RefusedChunks(notes.database), notes, make_ample_budget())


async def index_with_another_analyzer(ctx: Context) -> None:
    """Index the pending chunks by the word "old" alone, as another analyzer might have."""
    page = await Indexing(ctx.database).load_pending(NOON, 100)
    old = IndexedState(terms={"old": 2, "note": 1}, facets={}, dated_at=5)
    await Indexing(ctx.database).apply([IndexChange(waiting, old) for waiting in page])
    await Indexing(ctx.database).save_version(INDEX_VERSION | {"analysis": ANALYZER_VERSION - 1})


async def test_texts_are_indexed_again_for_a_new_analyzer(notes: Context, app: App) -> None:
    await index_with_another_analyzer(notes)
    assert (await read_postings(notes)).keys() == {("lexicon", "old"), ("lexicon", "note")}
    assert await index(notes, make_ample_budget()) == Report(Counter(indexed=10))
    await assert_postings_are_exact(notes)
    assert (await read_documents(notes, "meta"))["lexicon"]["analysis"] == ANALYZER_VERSION
    assert await index(app.context(Caller(), Meter()), make_ample_budget()) == Report()


async def test_stopped_reindexing_is_completed(notes: Context) -> None:
    await index_with_another_analyzer(notes)
    await index(notes, make_spent_budget())
    assert await count_pending(notes) == 10
    await index(notes, make_ample_budget())
    await assert_postings_are_exact(notes)


async def test_large_chunks_are_indexed_in_several_commits(ctx: Context) -> None:
    tags = tuple(f"{number} {'王' * 1_000}" for number in range(6))
    sections = tuple(Section(f"Note {number}.") for number in range(PAGE_SIZE + 20))
    await ingest_sources(ctx, replace(NOTES, tags=tags, sections=sections))
    assert await index(ctx, make_ample_budget()) == Report(Counter(indexed=PAGE_SIZE + 20))
    await assert_postings_are_exact(ctx)


def make_change(number: int, terms: int) -> IndexChange:
    """Make a new chunk with this many terms, all of which chunk 0 has too."""
    state = IndexedState(terms=dict.fromkeys(map(str, range(terms)), 1))
    return IndexChange(ChunkToIndex(f"chunk-{number}", None, NOT_INDEXED, 0, None), state)


def test_changes_are_split_into_commits_in_order() -> None:
    changes = [make_change(number, 1_500) for number in range(200)]
    cut = list(split_commits(changes))
    assert changes == [make_change for commit in cut for make_change in commit]
    assert 2 < len(cut) < 10


def test_commit_changes_a_bounded_number_of_postings() -> None:
    own = [
        IndexedState(terms={f"{number} {word}": 1 for word in range(1_400)}) for number in range(5)
    ]
    cut = list(
        split_commits([replace(make_change(number, 1), state=own[number]) for number in range(5)])
    )
    assert [len(commit) for commit in cut] == [2, 2, 1]
    assert 2 * 1_400 <= MAX_POSTINGS < 3 * 1_400


def test_index_entries_of_a_commit_are_bounded() -> None:
    facets = {f"tag:{number}": "tag" for number in range(9)}
    borne = replace(make_change(1, 1).state, facets=facets)
    cut = list(
        split_commits([replace(make_change(number, 1), state=borne) for number in range(200)])
    )
    assert [len(commit) for commit in cut] == [145, 55]  # of ten entries of 6,200 bytes each


def test_oversized_change_has_its_own_commit() -> None:
    small, large = make_change(1, 1), make_change(2, MAX_BYTES // 100)
    assert list(split_commits([small, large, small])) == [[small], [large], [small]]


def test_no_changes_make_no_commit() -> None:
    assert list(split_commits([])) == []


async def test_run_without_its_lease_indexes_nothing(notes: Context, app: App) -> None:
    hours_later = App(app.settings, clock=lambda: app.clock() + timedelta(hours=1))
    other = hours_later.context(Caller(), Meter()).database

    async def overtaken() -> None:
        await Leases(other).acquire("index", 30, hours_later.clock)

    async def run(ctx: Context, budget: Budget) -> Report:
        return await index_with(index_with_race(ctx, overtaken), ctx, budget)

    with pytest.raises(LeaseLost):
        await run_job(replace(JOB, run=run), app)
    assert await count_pending(notes) == 10
    assert await read_postings(notes) == {}
    assert await read_leased_jobs(notes) == {"index"}
    await hours_later.aclose()


async def test_run_without_time_indexes_nothing(notes: Context) -> None:
    assert await index(notes, make_spent_budget()) == Report(finished=False)
    assert await count_pending(notes) == 10


async def test_progress_ends_at_the_total(notes: Context) -> None:
    done: list[int] = []
    announce_migration = await count_pending(notes)
    await index(notes, Budget(math.inf, done.append))
    assert announce_migration == sum(done) == 10
