"""The postings that a knowledge base must have, and random changes to it and to its index."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.index.job import index_with
from shared.core.dates import format_day, to_microseconds
from shared.index.bm25 import pack
from shared.index.facets import Kind, parse_facet_id
from shared.knowledge import chunk_repository
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section, Source
from shared.pipeline.indexing import Indexing
from shared.text.terms import terms
from tests.support.clock import NOON
from tests.support.jobs import make_ample_budget, make_one_step_budget
from tests.support.knowledge import chunk_source
from tests.support.stored_documents import read_chunks, read_documents, read_tombstones

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.index.postings import PostingsRef
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.ingestion import ChunkedSource
    from shared.pipeline.indexing import IndexChange
    from shared.runtime.context import Context

EMPTY: Final = {"documents": 0, "length": 0}
WORDS: Final = ("rye", "wheat", "oven", "sail", "anchor", "storm", "harbour", "dough", "Ångström")
TAGS: Final = ("food", "Food", "a/b", "100%", "..", "__x__", "é" * 700, "🍞", "x" * 450, "%2F")
TITLES: Final = ("Bread", "bread", "Under Sail", "A % of a / of .", "!!!")
AUTHORS: Final = (None, "Ida Loaf", "IDA  loaf", "Ann/Bo", "王小波")
SOURCES: Final = ("baking", "sailing", "_x", "notes-2", "z")


@dataclass
class ExpectedPostings:
    """The postings that a knowledge base must have, by the collection and the id of their document.

    Attributes:
        entries: The entries of each document of postings, by chunk id.
        names: The spellings of each facet that chunks use.
        totals: The number of chunks with terms, and the number of their terms.
    """

    entries: dict[PostingsRef, dict[str, int]] = field(default_factory=dict)
    names: dict[PostingsRef, set[str]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=lambda: dict(EMPTY))

    def add(self, chunk: Chunk) -> None:
        """Add the entries of a chunk."""
        assert chunk.dated_at
        chunk_terms = terms(chunk.indexed_text)
        self.totals["documents"] += bool(chunk_terms)
        self.totals["length"] += len(chunk_terms)
        for term, tf in Counter(chunk_terms).items():
            entry = pack(tf, len(chunk_terms))
            self.entries.setdefault(("lexicon", term), {})[chunk.chunk_id] = entry
        for facet, name in chunk.facets.items():
            entry = to_microseconds(chunk.dated_at)
            self.entries.setdefault(("facets", facet.id), {})[chunk.chunk_id] = entry
            self.names.setdefault(("facets", facet.id), set()).add(name)


async def compute_expected_postings(ctx: Context) -> ExpectedPostings:
    """Return the postings computed from the existing chunks."""
    expected = ExpectedPostings()
    for chunk_id, data in (await read_chunks(ctx)).items():
        expected.add(chunk_repository.to_chunk(chunk_id, data))
    return expected


async def read_postings(ctx: Context) -> dict[PostingsRef, dict[str, Any]]:
    """Return the stored postings."""
    return {
        (collection, name): data
        for collection in ("lexicon", "facets")
        for name, data in (await read_documents(ctx, collection)).items()
    }


async def read_totals(ctx: Context) -> dict[str, int]:
    """Return the stored totals."""
    data = (await read_documents(ctx, "meta")).get("lexicon", {})
    return {name: data.get(name, 0) for name in EMPTY}


async def read_postings_in_use(ctx: Context) -> dict[PostingsRef, dict[str, Any]]:
    """Return the stored postings that have documents, and assert that the others are empty."""
    stored = await read_postings(ctx)
    assert all(not data["postings"] for data in stored.values() if not data["df"])
    return {name: data for name, data in stored.items() if data["df"]}


async def assert_postings_are_exact(ctx: Context) -> None:
    """Assert that postings equal the expected ones, and that nothing of deleted chunks is left."""
    expected = await compute_expected_postings(ctx)
    stored = await read_postings_in_use(ctx)
    assert expected.entries == {ref: data["postings"] for ref, data in stored.items()}
    await assert_postings_are_sound(ctx)


async def assert_postings_are_sound(ctx: Context) -> None:
    """Assert what is true of all postings, even truncated ones.

    The counts are exact, the entries are true, and a facet's postings are complete from `since` on.
    """
    expected = await compute_expected_postings(ctx)
    stored = await read_postings_in_use(ctx)
    expected_counts = {ref: len(entries) for ref, entries in expected.entries.items()}
    assert {ref: data["df"] for ref, data in stored.items()} == expected_counts
    assert await read_totals(ctx) == expected.totals
    for ref, data in stored.items():
        expected_entries = expected.entries[ref]
        assert data["postings"].items() <= expected_entries.items()
        assert len(data["postings"]) <= data["held"]
        if ref[0] == "facets":
            _assert_sound_facet(ref[1], data, expected_entries)
            assert data["name"] in expected.names[ref] or data["kind"] != Kind.SOURCE
    assert await read_tombstones(ctx) == {}


def _assert_sound_facet(
    facet_id: str, data: dict[str, Any], expected_entries: dict[str, int]
) -> None:
    since = data.get("since", -math.inf)
    recent = {chunk_id for chunk_id, date in expected_entries.items() if date >= since}
    assert recent <= data["postings"].keys()
    facet = parse_facet_id(facet_id, data["name"])
    assert (data["kind"], data["key"]) == (facet.kind, facet.key)
    assert facet.id == facet_id
    if facet.kind is Kind.MONTH:
        expected_days = Counter(format_day(date) for date in expected_entries.values())
        assert {day: count for day, count in data["days"].items() if count} == expected_days


class RacingIndexing(Indexing):
    """Indexing that runs a callback once, between reading chunks and writing postings.

    Attributes:
        race: The callback, until it has run.
    """

    race: Callable[[], Awaitable[object]] | None = None

    async def apply(self, changes: Sequence[IndexChange]) -> None:
        """Run the callback, if it has not run, and then apply the changes."""
        race, self.race = self.race, None
        if race:
            await race()
        await super().apply(changes)


class History:
    """Random changes to a knowledge base."""

    def __init__(self, ctx: Context, seed: int, **limits: int) -> None:
        """Change this knowledge base."""
        self.ctx = ctx
        self.generator = random.Random(seed)  # noqa: S311 - no secret
        self.sources: dict[str, Source] = {}
        self.moment = NOON
        self.indexing = RacingIndexing(ctx.database)
        self._limits = limits

    async def make_change(self) -> None:
        """Make one random change."""
        await self.generator.choice(self.list_changes())()

    def list_changes(self) -> list[Callable[[], Awaitable[None]]]:
        """Return the possible changes; one that occurs twice is twice as likely."""
        return [self.ingest, self.ingest, self.index, self.begin_to_index, self.edit_meanwhile]

    async def ingest(self) -> None:
        """Ingest sources that are new, changed, deleted, restored or unchanged."""
        changed = self.generator.sample(SOURCES, self.generator.randint(1, 3))
        for name in changed:
            self.sources[name] = self._change_source(
                self.sources.get(name) or Source(name, "Bread")
            )
        self.moment += timedelta(minutes=self.generator.choice([0, 1, 50_000]))
        await self.save([chunk_source(self.sources[name]) for name in changed])

    async def save(self, sources: Sequence[ChunkedSource]) -> None:
        """Store sources as ingest does."""
        await Ingestion(self.ctx.database).save(sources, self.moment)

    async def index(self) -> None:
        """Run the job until nothing is pending."""
        report = await index_with(self.indexing, self.ctx, make_ample_budget(), **self._limits)
        assert report.failures == []

    async def begin_to_index(self) -> None:
        """Run the job, and stop it after its first commit."""
        await index_with(self.indexing, self.ctx, make_one_step_budget(), **self._limits)

    async def edit_meanwhile(self) -> None:
        """Change sources between the job's reads and writes."""
        self.indexing.race = self.ingest
        await self.index()

    def _change_source(self, source: Source) -> Source:
        chance = self.generator
        sections = [*source.sections]
        match chance.randrange(8):
            case 0:
                return replace(source, title=chance.choice(TITLES))
            case 1:
                return replace(source, author=chance.choice(AUTHORS))
            case 2:
                return replace(source, tags=tuple(chance.sample(TAGS, chance.randrange(4))))
            case 3:
                return replace(source, category=chance.choice(["book", "Book", "note"]))
            case 4:
                return replace(source, sections=())
            case 5 if sections:
                sections[chance.randrange(len(sections))] = self._make_section()
            case _:
                sections += [self._make_section() for _ in range(chance.randrange(4))]
                chance.shuffle(sections)
        return replace(source, sections=tuple(sections))

    def _make_section(self) -> Section:
        chance = self.generator
        days = chance.choice([None, None, 0, -1, -40, -20_000])
        return Section(
            text=" ".join(chance.choices(WORDS, k=chance.randint(1, 6))),
            tags=tuple(chance.sample(TAGS, chance.randrange(2))),
            highlighted_at=None if days is None else NOON + timedelta(days=days),
        )
