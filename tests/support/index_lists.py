"""What the lists of a knowledge base have to be, by its chunks, and what may happen to it."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from functions.jobs.index.job import index_with
from shared.core.dates import to_microseconds
from shared.index.bm25 import pack
from shared.index.facets import Kind, parse_facet_id
from shared.knowledge import chunk_repository
from shared.knowledge.ingestion import Ingestion
from shared.knowledge.source import Section, Source
from shared.pipeline.indexing import Indexing
from shared.text.terms import terms
from tests.support.knowledge import in_chunks
from tests.support.stored_documents import ample, chunks, documents, one_step, tombstones

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from shared.index.postings import PostingsRef
    from shared.knowledge.chunk import Chunk
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
class SearchPostings:
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
        """Take in a chunk."""
        assert chunk.dated_at
        found = terms(chunk.indexed_text)
        self.totals["documents"] += bool(found)
        self.totals["length"] += len(found)
        for term, tf in Counter(found).items():
            entry = pack(tf, len(found))
            self.entries.setdefault(("lexicon", term), {})[chunk.chunk_id] = entry
        for facet, name in chunk.facets.items():
            entry = to_microseconds(chunk.dated_at)
            self.entries.setdefault(("facets", facet.id), {})[chunk.chunk_id] = entry
            self.names.setdefault(("facets", facet.id), set()).add(name)


async def wanted_lists(ctx: Context) -> SearchPostings:
    """The lists made from scratch, of the chunks that exist."""
    lists = SearchPostings()
    for name, data in (await chunks(ctx)).items():
        lists.add(chunk_repository.to_chunk(name, data))
    return lists


async def stored_lists(ctx: Context) -> dict[PostingsRef, dict[str, Any]]:
    """The lists as they stand in the database."""
    return {
        (collection, name): data
        for collection in ("lexicon", "facets")
        for name, data in (await documents(ctx, collection)).items()
    }


async def stored_totals(ctx: Context) -> dict[str, int]:
    """The totals as they stand in the database."""
    data = (await documents(ctx, "meta")).get("lexicon", {})
    return {name: data.get(name, 0) for name in EMPTY}


async def assert_exact(ctx: Context) -> None:
    """The lists are exactly those made from scratch, and nothing is left of what was deleted."""
    wanted, stored = await wanted_lists(ctx), await stored_lists(ctx)
    assert wanted.entries == {name: data["postings"] for name, data in stored.items()}
    await assert_sound(ctx)


async def assert_sound(ctx: Context) -> None:
    """What holds of the lists even where they were cut.

    Their counts are exact, what they say is true, and a facet's list misses nothing from its
    `since` on.
    """
    wanted, stored = await wanted_lists(ctx), await stored_lists(ctx)
    counts = {name: len(entries) for name, entries in wanted.entries.items()}
    assert counts == {name: data["df"] for name, data in stored.items()}
    assert wanted.totals == await stored_totals(ctx)
    for name, data in stored.items():
        entries, held = wanted.entries[name], data["postings"]
        assert held.items() <= entries.items()
        assert len(held) <= data["held"]
        if name[0] == "facets":
            since = data.get("since", -math.inf)
            assert {chunk for chunk, date in entries.items() if date >= since} <= held.keys()
            facet = parse_facet_id(name[1], data["name"])
            assert (facet.id, facet.kind, facet.key) == (name[1], data["kind"], data["key"])
            assert data["name"] in wanted.names[name] or facet.kind is not Kind.SOURCE
    assert await tombstones(ctx) == {}


class Raced(Indexing):
    """Lets something happen between reading chunks and changing the lists."""

    race: Callable[[], Awaitable[object]] | None = None

    async def apply(self, changes: Sequence[IndexChange]) -> list[PostingsRef]:
        """Once, let it happen first."""
        race, self.race = self.race, None
        if race:
            await race()
        return await super().apply(changes)


class History:
    """What happens to a knowledge base, by chance."""

    def __init__(self, ctx: Context, seed: int, **limits: int) -> None:
        """Let it happen to this one."""
        self.ctx = ctx
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.sources: dict[str, Source] = {}
        self.moment = NOON
        self.indexing = Raced(ctx.database, **limits)

    async def event(self) -> None:
        """Something."""
        happens = self.chance.choice(
            [self.ingest, self.ingest, self.index, self.begin_to_index, self.edit_meanwhile]
        )
        await happens()

    async def ingest(self) -> None:
        """Some sources come in: new, changed, gone, back, or as they were."""
        changed = self.chance.sample(SOURCES, self.chance.randint(1, 3))
        for name in changed:
            self.sources[name] = self._changed(self.sources.get(name) or Source(name, "Bread"))
        chunked = [in_chunks(self.sources[name]) for name in changed]
        self.moment += timedelta(minutes=self.chance.choice([0, 1, 50_000]))
        await Ingestion(self.ctx.database).save(chunked, self.moment)

    async def index(self) -> None:
        """The job runs to its end."""
        assert (await index_with(self.indexing, self.ctx, ample())).failures == []

    async def begin_to_index(self) -> None:
        """The job runs, and is stopped after its first commit."""
        await index_with(self.indexing, self.ctx, one_step())

    async def edit_meanwhile(self) -> None:
        """Sources change while the job holds what it has read."""
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
