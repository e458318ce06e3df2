"""A knowledge base for benchmarks: SciFact if it is available, else copies of the sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from benchmarks.scifact import ABSTRACTS, SCIFACT, load_vectors, read_rows
from functions.jobs.ingest.listing import read
from infra.local.local_database import SAMPLE
from shared.ai.embedding import Purpose
from shared.core.ids import IdKind, make_id
from shared.knowledge.chunk import build_embedding_text
from shared.knowledge.source import Source
from shared.writer.ingestion import BATCH_SIZE, Ingestion
from tests.support.knowledge import chunk_source, embed_all, index_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from shared.ai.embedding import Embedder, Vector
    from shared.runtime.context import Context
    from shared.writer.chunked_source import ChunkedSource

QUESTIONS: Final = (
    "why do flaky tests hurt?",
    "how large should a function be?",
    "when is it right to optimise?",
)


class CachingEmbedder:
    """An embedder that caches vectors in memory, with all their halves."""

    def __init__(self, embedder: Embedder, vectors: dict[str, Vector]) -> None:
        """Begin with `vectors` by text, and use `embedder` for all other texts."""
        self._embedder = embedder
        self._vectors = vectors
        self.model = embedder.model
        self.dimension = embedder.dimension
        self.batch_size = embedder.batch_size

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the texts that are not in the cache, and add them to it."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if purpose is not Purpose.DOCUMENT:
            purpose = Purpose.QUERY
        embedded = await self._embedder.embed(missing, purpose)
        self._vectors.update(zip(missing, embedded, strict=True))
        return [self._vectors[text] for text in texts]

    async def aclose(self) -> None:
        """Close the wrapped embedder."""
        await self._embedder.aclose()


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """A knowledge base in the database.

    Attributes:
        name: The name for headings of tables.
        chunk_ids: The ids of all chunks.
        questions: Questions to search for.
    """

    name: str
    chunk_ids: list[str]
    questions: list[str]


def load_scifact_vectors() -> dict[str, Vector]:
    """Load the vectors of SciFact's abstracts, by embedding text.

    Without SciFact, the result is empty.
    """
    if not SCIFACT.is_dir():
        return {}
    texts = [build_embedding_text(row["title"], row["text"]) for row in read_rows(ABSTRACTS)]
    return dict(zip(texts, load_vectors(SCIFACT, "documents", texts), strict=True))


async def fill_database(ctx: Context, chunks: int, vectors: dict[str, Vector]) -> KnowledgeBase:
    """Add about this many chunks: abstracts that have vectors, or else copies of the sample."""
    sources = _iterate_abstracts(vectors) if vectors else _iterate_sample_copies()
    ids: list[str] = []
    batch: list[ChunkedSource] = []
    while len(ids) < chunks:
        batch.append(next(sources))
        ids += [chunk.chunk_id for chunk in batch[-1].chunks]
        if len(batch) == BATCH_SIZE or len(ids) >= chunks:
            await Ingestion(ctx.database).save(batch, ctx.clock())
            batch = []
    await embed_all(ctx)
    await index_all(ctx)
    name = "SciFact" if vectors else "the sample, repeated"
    questions = _read_scifact_claims() if vectors else list(QUESTIONS)
    return KnowledgeBase(f"{len(ids)} chunks of {name}", ids, questions)


def _iterate_abstracts(vectors: dict[str, Vector]) -> Iterator[ChunkedSource]:
    for source in read_sources(ABSTRACTS):
        chunked_source = chunk_source(source)
        if all(chunk.embedding_text in vectors for chunk in chunked_source.chunks):
            yield chunked_source


def _iterate_sample_copies() -> Iterator[ChunkedSource]:
    sample = list(read_sources(SAMPLE))
    copies = (
        replace(source, source_id=make_id(IdKind.RECORD, f"{source.source_id}-{number}"))
        for number in count(1)
        for source in sample
    )
    return map(chunk_source, copies)


def read_sources(path: Path) -> Iterator[Source]:
    """Return the valid sources in a file."""
    return (item for item in read(path) if isinstance(item, Source))


def _read_scifact_claims() -> list[str]:
    return [row["text"] for row in read_rows(SCIFACT / "queries.jsonl")]
