"""The postings that a knowledge base must have, and random changes to it."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.index.job import index_with
from shared.core.dates import day_name, to_microseconds
from shared.index.bm25 import pack
from shared.index.facets import Kind, parse_facet_id
from shared.knowledge import chunk_repository
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section, Source
from shared.pipeline.indexing import Indexing
from shared.text.terms import terms
from tests.support.knowledge import with_chunks
from tests.support.stored_documents import ample_budget, chunks, documents, one_step, tombstones

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.index.postings import PostingsRef
    from shared.knowledge.chunk import Chunk
    from shared.knowledge.ingestion import ChunkedSource
    from shared.pipeline.indexing import IndexChange
    from shared.runtime.context import Context

NOON: Final = datetime(2024, 5, 31, 12, tzinfo=UTC)
EMPTY: Final = {"documents": 0, "length": 0}
WORDS: Final = ("rye", "wheat", "oven", "sail", "anchor", "storm", "harbour", "dough", "Ångström")
TAGS: Final = ("food", "Food", "a/b", "100%", "..", "__x__", "é" * 700, "🍞", "x" * 450, "%2F")
TITLES: Final = ("Bread", "bread", "Under Sail", "A % of a / of .", "!!!")
AUTHORS: Final = (None, "Ida Loaf", "IDA  loaf", "Ann/Bo", "王小波")
SOURCES: Final = ("baking", "sailing", "_x", "notes-2", "z")


@dataclass
class ExpectedPostings:
    """What a knowledge base's lists hold, by collection and id.

    Attributes:
        entries: What each list says of its chunks.
        names: The spellings that a facet's chunks use.
        totals: How many chunks have terms, and how many terms these are.
    """

    entries: dict[PostingsRef, dict[str, int]] = field(default_factory=dict)
    names: dict[PostingsRef, set[str]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=lambda: dict(EMPTY))

    def add(self, chunk: Chunk) -> None:
        """Add a chunk."""
        assert chunk.dated_at
        results = terms(chunk.indexed_text)
        self.totals["documents"] += bool(results)
        self.totals["length"] += len(results)
        for term, tf in Counter(results).items():
            entry = pack(tf, len(results))
            self.entries.setdefault(("lexicon", term), {})[chunk.chunk_id] = entry
        for facet, name in chunk.facets.items():
            entry = to_microseconds(chunk.dated_at)
            self.entries.setdefault(("facets", facet.id), {})[chunk.chunk_id] = entry
            self.names.setdefault(("facets", facet.id), set()).add(name)


async def expected_postings(ctx: Context) -> ExpectedPostings:
    """Return the postings computed from the existing chunks."""
    lists = ExpectedPostings()
    for name, data in (await chunks(ctx)).items():
        lists.add(chunk_repository.to_chunk(name, data))
    return lists


async def stored_postings(ctx: Context) -> dict[PostingsRef, dict[str, Any]]:
    """Return the stored postings."""
    return {
        (collection, name): data
        for collection in ("lexicon", "facets")
        for name, data in (await documents(ctx, collection)).items()
    }


async def stored_totals(ctx: Context) -> dict[str, int]:
    """Return the stored totals."""
    data = (await documents(ctx, "meta")).get("lexicon", {})
    return {name: data.get(name, 0) for name in EMPTY}


async def postings_in_use(ctx: Context) -> dict[PostingsRef, dict[str, Any]]:
    """Return the stored postings that any document has. The others must be empty."""
    stored = await stored_postings(ctx)
    assert all(not data["postings"] for data in stored.values() if not data["df"])
    return {name: data for name, data in stored.items() if data["df"]}


async def assert_exact(ctx: Context) -> None:
    """Check that postings equal the expected ones, and that nothing of deleted chunks is left."""
    expected, stored = await expected_postings(ctx), await postings_in_use(ctx)
    assert expected.entries == {name: data["postings"] for name, data in stored.items()}
    await assert_sound(ctx)


async def assert_sound(ctx: Context) -> None:
    """Check what is true of postings even if they are truncated.

    Their counts are exact, what they say is true, and a facet's list misses nothing from its
    `since` on.
    """
    expected, stored = await expected_postings(ctx), await postings_in_use(ctx)
    counts = {name: len(entries) for name, entries in expected.entries.items()}
    assert {name: data["df"] for name, data in stored.items()} == counts
    assert expected.totals == await stored_totals(ctx)
    for name, data in stored.items():
        entries, stored_terms = expected.entries[name], data["postings"]
        assert stored_terms.items() <= entries.items()
        assert len(stored_terms) <= data["held"]
        if name[0] == "facets":
            since = data.get("since", -math.inf)
            assert {
                chunk for chunk, date in entries.items() if date >= since
            } <= stored_terms.keys()
            facet = parse_facet_id(name[1], data["name"])
            if facet.kind is Kind.MONTH:
                days = Counter(day_name(date) for date in entries.values())
                assert {day: count for day, count in data["days"].items() if count} == days
            assert (facet.id, facet.kind, facet.key) == (name[1], data["kind"], data["key"])
            assert data["name"] in expected.names[name] or facet.kind is not Kind.SOURCE
    assert await tombstones(ctx) == {}


class RacingIndexing(Indexing):
    """Indexing that runs a callback between reading chunks and writing postings."""

    race: Callable[[], Awaitable[object]] | None = None

    async def apply(self, changes: Sequence[IndexChange]) -> None:
        """Run the callback first, the first time only."""
        race, self.race = self.race, None
        if race:
            await race()
        await super().apply(changes)


class History:
    """Random changes to a knowledge base."""

    def __init__(self, ctx: Context, seed: int, **limits: int) -> None:
        """Change this knowledge base."""
        self.ctx = ctx
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.sources: dict[str, Source] = {}
        self.moment = NOON
        self.indexing = RacingIndexing(ctx.database)
        self._limits = limits

    async def event(self) -> None:
        """Make one random change."""
        await self.chance.choice(self.events())()

    def events(self) -> list[Callable[[], Awaitable[None]]]:
        """Return the possible changes; one that occurs twice is twice as likely."""
        return [self.ingest, self.ingest, self.index, self.begin_to_index, self.edit_meanwhile]

    async def ingest(self) -> None:
        """Ingest sources that are new, changed, deleted, restored or unchanged."""
        changed = self.chance.sample(SOURCES, self.chance.randint(1, 3))
        for name in changed:
            self.sources[name] = self._changed(self.sources.get(name) or Source(name, "Bread"))
        self.moment += timedelta(minutes=self.chance.choice([0, 1, 50_000]))
        await self.save([with_chunks(self.sources[name]) for name in changed])

    async def save(self, sources: Sequence[ChunkedSource]) -> None:
        """Store sources as ingest does."""
        await Ingestion(self.ctx.database).save(sources, self.moment)

    async def index(self) -> None:
        """Run the job to its end."""
        assert (
            await index_with(self.indexing, self.ctx, ample_budget(), **self._limits)
        ).failures == []

    async def begin_to_index(self) -> None:
        """Run the job, and stop it after its first commit."""
        await index_with(self.indexing, self.ctx, one_step(), **self._limits)

    async def edit_meanwhile(self) -> None:
        """Change sources between the job's reads and writes."""
        self.indexing.race = self.ingest
        await self.index()

    def _changed(self, source: Source) -> Source:
        chance = self.chance
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
                sections[chance.randrange(len(sections))] = self._section()
            case _:
                sections += [self._section() for _ in range(chance.randrange(4))]
                chance.shuffle(sections)
        return replace(source, sections=tuple(sections))

    def _section(self) -> Section:
        chance = self.chance
        days = chance.choice([None, None, 0, -1, -40, -20_000])
        return Section(
            text=" ".join(chance.choices(WORDS, k=chance.randint(1, 6))),
            tags=tuple(chance.sample(TAGS, chance.randrange(2))),
            highlighted_at=None if days is None else NOON + timedelta(days=days),
        )
