"""Random changes to a knowledge base by ingest, before and during runs of the job `index`."""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from functions.jobs.index.job import index_with
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from shared.writer.chunked_source import ChunkedSource
from shared.writer.indexing import IndexChange, Indexing
from shared.writer.ingestion import Ingestion
from tests.support.clock import NOON
from tests.support.jobs import make_ample_budget, make_one_step_budget
from tests.support.knowledge import chunk_source

# Some of these have characters that document ids cannot contain, are too long for an id, or differ
# only in case or spaces.
WORDS: Final = ("rye", "wheat", "oven", "sail", "anchor", "storm", "harbour", "dough", "Ångström")
TAGS: Final = ("food", "Food", "a/b", "100%", "..", "__x__", "é" * 700, "🍞", "x" * 450, "%2F")
TITLES: Final = ("Bread", "bread", "Under Sail", "A % of a / of .", "!!!")
AUTHORS: Final = (None, "Ida Loaf", "IDA  loaf", "Ann/Bo", "王小波")
SOURCES: Final = ("baking", "sailing", "fig", "notes-2", "rye")


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
    """Random changes to a knowledge base. The same seed makes the same changes.

    Attributes:
        ctx: The context of job runs.
        generator: The source of random choices.
        sources: The newest version of each source, by id.
        moment: The time of the last ingest.
        indexing: The index job's part that writes postings.
    """

    def __init__(self, ctx: Context, seed: int, **limits: int) -> None:
        """Begin without sources. The `limits` are keyword arguments of `index_with`."""
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
        """Ingest up to three sources that are new, changed, emptied, refilled or unchanged."""
        source_ids = self.generator.sample(SOURCES, self.generator.randint(1, 3))
        for source_id in source_ids:
            source = self.sources.get(source_id) or Source(source_id, "Bread")
            self.sources[source_id] = self._change_source(source)
        self.moment += timedelta(minutes=self.generator.choice([0, 1, 50_000]))
        await self.save([chunk_source(self.sources[source_id]) for source_id in source_ids])

    async def save(self, sources: Sequence[ChunkedSource]) -> None:
        """Store sources as ingest does."""
        await Ingestion(self.ctx.database).save(sources, self.moment)

    async def index(self) -> None:
        """Run the index job until nothing is pending."""
        report = await index_with(self.indexing, self.ctx, make_ample_budget(), **self._limits)
        assert report.failures == []

    async def begin_to_index(self) -> None:
        """Run the index job, and stop it after its first commit."""
        await index_with(self.indexing, self.ctx, make_one_step_budget(), **self._limits)

    async def edit_meanwhile(self) -> None:
        """Ingest between the index job's reads and writes."""
        self.indexing.race = self.ingest
        await self.index()

    def _change_source(self, source: Source) -> Source:
        """Return a source with a random change to one field, or to its sections."""
        generator = self.generator
        sections = [*source.sections]
        match generator.randrange(8):
            case 0:
                return replace(source, title=generator.choice(TITLES))
            case 1:
                return replace(source, author=generator.choice(AUTHORS))
            case 2:
                return replace(source, tags=tuple(generator.sample(TAGS, generator.randrange(4))))
            case 3:
                return replace(source, category=generator.choice(["book", "Book", "note"]))
            case 4:
                return replace(source, sections=())
            case 5 if sections:
                sections[generator.randrange(len(sections))] = self._make_section()
            case _:
                sections += [self._make_section() for _ in range(generator.randrange(4))]
                generator.shuffle(sections)
        return replace(source, sections=tuple(sections))

    def _make_section(self) -> Section:
        generator = self.generator
        days = generator.choice([None, None, 0, -1, -40, -20_000])
        return Section(
            text=" ".join(generator.choices(WORDS, k=generator.randint(1, 6))),
            tags=tuple(generator.sample(TAGS, generator.randrange(2))),
            highlighted_at=None if days is None else NOON + timedelta(days=days),
        )
