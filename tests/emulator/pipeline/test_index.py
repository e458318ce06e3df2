"""The index job keeps the postings of the inverted index exact, whatever happens to the chunks.

The postings of a term (collection `lexicon`) or of a facet such as a tag or a source (`facets`) are
the list of the chunks that have it. `assert_postings_are_exact` computes them from the chunks.
"""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from functions.jobs.index.job import PAGE_SIZE, count_pending, index, index_with
from shared.core.caller import Caller
from shared.core.errors import PlatformFault
from shared.core.meter import Meter
from shared.index.facets import HAS_CARD, Kind, make_named_facet
from shared.index.indexed_state import NOT_INDEXED, IndexedState
from shared.index.posting_changes import IndexDifference, build_postings_writes
from shared.index.postings import KNOWLEDGE, InvertedIndex
from shared.knowledge.queue import ChunkQueue
from shared.knowledge.source import Section, Source
from shared.runtime.context import App, Context
from shared.runtime.job import Budget, Failure, Report
from shared.text.terms import ANALYZER_VERSION
from shared.writer.commits import MAX_BYTES, MAX_POSTINGS, split_commits
from shared.writer.indexing import INDEX_VERSION, ChunkToIndex, IndexChange, Indexing, plan_indexing
from tests.support.clock import NOON, SettableClock
from tests.support.index_history import History, RacingIndexing
from tests.support.index_postings import (
    assert_postings_are_exact,
    assert_postings_are_sound,
    read_postings,
)
from tests.support.jobs import make_ample_budget, make_spent_budget
from tests.support.knowledge import (
    BAKING,
    chunk_source,
    ingest_sources,
    set_fields,
    store_sources,
)
from tests.support.stored_documents import read_chunks, read_documents

NOTES = Source(
    source_id="notes",
    title="Notes",
    sections=tuple(Section(f"Note {number}.") for number in range(10)),
)
ODD = chunk_source(NOTES).chunks[3]
"""The note that is changed or rejected in some tests."""
SEEDS = [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))]


@pytest.fixture
def clock() -> SettableClock:
    """The clock of the app, which stands after all changes of a history."""
    return SettableClock()


@pytest.fixture
async def notes(ctx: Context) -> Context:
    """A knowledge base of ten pending notes."""
    await ingest_sources(ctx, NOTES, now=NOON)
    return ctx


def make_racing_indexing(ctx: Context, race: Callable[[], Awaitable[object]]) -> Indexing:
    """Return an indexing that calls a function between the read and the commit of the chunks."""
    indexing = RacingIndexing(ctx.database)
    indexing.race = race
    return indexing


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


async def test_a_chunk_edited_during_the_run_is_indexed_as_edited(notes: Context) -> None:
    async def edit_chunk() -> None:
        change = {"content": "Note 3, edited.", "pending": {"index": NOON}}
        await set_fields(notes, f"chunks/{ODD.chunk_id}", change)

    report = await index_with(make_racing_indexing(notes, edit_chunk), notes, make_ample_budget())

    assert report == Report(Counter(indexed=10))
    assert ("lexicon", "edit") in await read_postings(notes)
    await assert_postings_are_exact(notes)


async def test_a_chunk_restored_during_its_removal_stays(ctx: Context) -> None:
    await store_sources(ctx, BAKING)
    await ingest_sources(ctx, replace(BAKING, sections=()))

    async def restore_chunks() -> None:
        await ingest_sources(ctx, BAKING, now=NOON)

    await index_with(make_racing_indexing(ctx, restore_chunks), ctx, make_ample_budget())

    assert len(await read_chunks(ctx)) == 3
    await assert_postings_are_exact(ctx)


async def test_a_second_run_has_nothing_to_do(notes: Context, app: App) -> None:
    await index(notes, make_ample_budget())
    meter = Meter()
    assert await index(app.context(Caller(), meter), make_ample_budget()) == Report()
    # Empty queries for pending chunks, long postings of chunks and of traces, and sources that are
    # being forgotten or were edited; and the version of the analyzer.
    assert meter.documents_read == 8
    assert meter.documents_written == 0


async def test_overlong_postings_are_cut(ctx: Context) -> None:
    """Indexing cuts postings only now and then, so that they may grow beyond the limit."""
    for number in range(6):
        state = IndexedState({"bread": 1}, {}, number, 1)
        difference = IndexDifference(f"d{number}", NOT_INDEXED, state)
        await ctx.database.commit(build_postings_writes(KNOWLEDGE, [difference]))
    report = await index_with(Indexing(ctx.database), ctx, make_ample_budget(), cap=3, slack=2)
    assert report == Report(Counter(shortened=1))
    bread = (await read_postings(ctx))["lexicon", "bread"]
    assert bread["df"] == 6
    assert bread["held"] == 3
    assert len(bread["postings"]) == 3


async def test_a_new_card_becomes_a_facet(ctx: Context) -> None:
    first, *_ = await store_sources(ctx, BAKING)
    card = {"knowledge_card": {"summary": "Knead."}, "pending": {"index": NOON}}
    await set_fields(ctx, f"chunks/{first.chunk_id}", card)
    await index(ctx, make_ample_budget())
    lists = await read_postings(ctx)
    assert lists["facets", HAS_CARD.id]["postings"].keys() == {first.chunk_id}
    await assert_postings_are_exact(ctx)


async def test_a_chunk_lists_its_facets(ctx: Context) -> None:
    first, *_ = await store_sources(ctx, replace(BAKING, sections=BAKING.sections[:1]))
    facets = (await read_chunks(ctx))[first.chunk_id]["facets"]
    [month] = [name for name in facets if name.startswith("month:")]
    assert sorted(facets) == [
        *("author:ida loaf", "category:books", "language:en", month, "source:baking"),
        *("tag:dough", "tag:food", "title:bread at home"),
    ]


@pytest.mark.parametrize(
    "tag",
    [
        *("a/b", "..", ".", "__x__"),  # are not valid as ids of documents
        *("x" * 1_500, "王" * 1_500),  # are too long for an id
        *("100%", "%2F", "🍞", "a`b", "a.b\\", " "),
    ],
)
async def test_a_tag_of_any_characters_is_indexed(ctx: Context, tag: str) -> None:
    await ingest_sources(ctx, replace(BAKING, tags=(tag,), author=tag, category=tag, title=tag))
    assert await index(ctx, make_ample_budget()) == Report(Counter(indexed=3))
    await assert_postings_are_exact(ctx)
    facet = make_named_facet(Kind.TAG, tag)
    lists = await InvertedIndex(ctx.database, KNOWLEDGE).read([], [facet])
    expected = [3] if tag.strip() else []
    assert [postings.df for postings in lists.facets.values()] == expected


async def test_chunks_without_terms_and_with_long_words_are_indexed(ctx: Context) -> None:
    await ingest_sources(ctx, Source("marks", "???", sections=(Section("!!!"),)))
    assert await index(ctx, make_ample_budget()) == Report(Counter(indexed=1))
    assert {name for name, _ in await read_postings(ctx)} == {"facets"}
    text = f"{'𐐀' * 64} {'x' * 3_000}"  # 𐐀 has four bytes in UTF-8
    chunks = await ingest_sources(ctx, Source("_long", "A", sections=(Section(text),)))
    assert await index(ctx, make_ample_budget()) == Report(Counter(indexed=len(chunks)))
    await assert_postings_are_exact(ctx)


async def test_a_chunk_without_a_date_is_indexed_by_its_words(notes: Context) -> None:
    await set_fields(notes, f"chunks/{ODD.chunk_id}", {"dated_at": None})
    await index(notes, make_ample_budget())
    lists = await read_postings(notes)
    assert lists["lexicon", "3"]["df"] == 1
    [month] = [data for (_, name), data in lists.items() if "month:" in name]
    assert len(month["postings"]) == 9


async def test_a_malformed_document_is_dead_lettered(notes: Context, clock: SettableClock) -> None:
    await set_fields(notes, "chunks/stray", {"pending": {"index": NOON}, "content": "Whatever."})
    failures: list[Failure] = []
    for number in range(6):
        report = await index(notes, make_ample_budget())
        assert report.counts == ({"indexed": 10} if number == 0 else {})
        failures += report.failures
        clock.advance(hours=1)

    reason = "the document is malformed: KeyError('source_id')"
    assert [failure.reason for failure in failures] == [reason] * 5
    assert list((await read_documents(notes, "chunks"))["stray"]["parked"]) == ["index"]
    assert await count_pending(notes) == 0


@pytest.mark.parametrize(
    "fields", [{"tags": [7]}, {"dated_at": "yesterday"}, {"knowledge_card": "?"}, {"tries": None}]
)
async def test_a_chunk_with_a_field_of_the_wrong_type_blocks_no_other(
    notes: Context, fields: dict[str, Any]
) -> None:
    """The chunk itself is indexed without the field, or deferred."""
    await set_fields(notes, f"chunks/{ODD.chunk_id}", fields)
    report = await index(notes, make_ample_budget())
    assert report.counts["indexed"] + len(report.failures) == 10
    assert all(failure.name == ODD.chunk_id for failure in report.failures)
    assert await index(notes, make_ample_budget()) == Report()


async def test_a_chunk_rejected_by_the_database_blocks_no_other(notes: Context) -> None:
    """The document is so large that its terms do not fit: a document may have 1 MiB."""
    await set_fields(notes, f"chunks/{ODD.chunk_id}", {"padding": "x" * 1_047_800})

    report = await index(notes, make_ample_budget())
    assert report.counts == {"indexed": 9}
    assert [failure.name for failure in report.failures] == [ODD.chunk_id]

    await set_fields(notes, f"chunks/{ODD.chunk_id}", {"padding": "", "pending": {"index": NOON}})
    assert (await index(notes, make_ample_budget())).counts == {"indexed": 1}
    odd = (await read_chunks(notes))[ODD.chunk_id]
    assert "index" not in odd["pending"]
    assert odd["tries"] == {}
    assert odd["parked"] == {}
    await assert_postings_are_exact(notes)


async def test_a_database_that_rejects_all_writes_defers_no_chunk(
    notes: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RefusedIndexing(Indexing):
        async def apply(self, changes: Sequence[IndexChange]) -> None:
            raise PlatformFault(f"{len(changes)} are too many.")

    class RefusedQueue(ChunkQueue):
        async def defer(self, *_: object) -> None:
            raise PlatformFault("Not this either.")

    monkeypatch.setattr("shared.pipeline.worker.ChunkQueue", RefusedQueue)
    with pytest.raises(PlatformFault, match="Not this either"):
        await index_with(RefusedIndexing(notes.database), notes, make_ample_budget())


async def index_with_another_analyzer(ctx: Context) -> None:
    """Index each pending chunk by the same two words, as a former analyzer might have."""
    indexing = Indexing(ctx.database)
    chunks = await indexing.load_pending(NOON, 100)
    state = IndexedState(terms={"old": 2, "note": 1}, facets={}, dated_at=5, length=3)
    await indexing.apply([plan_indexing(chunk, state) for chunk in chunks])
    await indexing.save_version(INDEX_VERSION | {"analysis": ANALYZER_VERSION - 1})


async def test_texts_are_indexed_again_for_a_new_analyzer(notes: Context, app: App) -> None:
    await index_with_another_analyzer(notes)
    assert (await read_postings(notes)).keys() == {("lexicon", "old"), ("lexicon", "note")}
    await index(notes, make_spent_budget())
    assert await count_pending(notes) == 10
    assert await index(notes, make_ample_budget()) == Report(Counter(indexed=10))
    await assert_postings_are_exact(notes)
    assert (await read_documents(notes, "meta"))["lexicon"]["analysis"] == ANALYZER_VERSION
    assert await index(app.context(Caller(), Meter()), make_ample_budget()) == Report()


async def test_large_chunks_are_indexed_in_several_commits(ctx: Context) -> None:
    tags = tuple(f"{number} {'王' * 1_000}" for number in range(6))
    sections = tuple(Section(f"Note {number}.") for number in range(PAGE_SIZE + 20))
    await ingest_sources(ctx, replace(NOTES, tags=tags, sections=sections))
    assert await index(ctx, make_ample_budget()) == Report(Counter(indexed=PAGE_SIZE + 20))
    await assert_postings_are_exact(ctx)


def make_state(term_count: int) -> IndexedState:
    """Return the state of a chunk with the terms "0", "1" and so on."""
    return IndexedState(terms=dict.fromkeys(map(str, range(term_count)), 1), length=term_count)


def make_change(number: int, state: IndexedState) -> IndexChange:
    """Return the indexing of a new chunk."""
    return plan_indexing(ChunkToIndex(f"chunk-{number}", None, NOT_INDEXED, 0, None), state)


def test_changes_are_split_into_commits_in_order() -> None:
    changes = [make_change(number, make_state(1_500)) for number in range(200)]
    commits = list(split_commits(changes))
    assert [change for commit in commits for change in commit] == changes
    assert 2 < len(commits) < 10


def test_the_postings_of_a_commit_are_bounded() -> None:
    """Each of five chunks has 1,400 terms that no other chunk has."""
    states = [
        IndexedState(terms={f"{number} {word}": 1 for word in range(1_400)}, length=1_400)
        for number in range(5)
    ]
    commits = list(split_commits([make_change(*pair) for pair in enumerate(states)]))
    assert [len(commit) for commit in commits] == [2, 2, 1]
    assert 2 * 1_400 <= MAX_POSTINGS < 3 * 1_400


def test_the_index_entries_of_a_commit_are_bounded() -> None:
    """Each chunk has nine tags and one term: ten entries of 6,200 bytes each."""
    facets = {f"tag:{number}": "tag" for number in range(9)}
    state = replace(make_state(1), facets=facets)
    commits = list(split_commits([make_change(number, state) for number in range(200)]))
    assert [len(commit) for commit in commits] == [130, 70]


def test_an_oversized_change_has_its_own_commit() -> None:
    small, large = make_change(1, make_state(1)), make_change(2, make_state(MAX_BYTES // 100))
    assert list(split_commits([small, large, small])) == [[small], [large], [small]]


async def test_the_reported_progress_ends_at_the_total(notes: Context) -> None:
    batch_sizes: list[int] = []
    total = await count_pending(notes)
    assert await index(notes, make_spent_budget()) == Report(finished=False)
    await index(notes, Budget(math.inf, batch_sizes.append))
    assert total == sum(batch_sizes) == 10
