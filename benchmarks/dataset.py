"""A knowledge base for benchmarks: SciFact if it is available, else copies of the sample.

SciFact (5,183 abstracts of papers) and its vectors are beside the clone, in
`../shared/data/scifact`, and not part of the project. See https://github.com/allenai/scifact.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np

from functions.jobs.ingest.readers.reading import read
from infra.build.discovery import ROOT
from infra.local.local_database import SAMPLE
from shared.knowledge.chunk import embedding_text
from shared.knowledge.ingestion import BATCH_SIZE, Ingestion
from shared.knowledge.source import Source
from tests.support.knowledge import embed_all, index_all, with_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from shared.ai.embedding import Embedder, Purpose, Vector
    from shared.knowledge.ingestion import ChunkedSource
    from shared.runtime.context import Context

SCIFACT: Final = ROOT.parent / "shared" / "data" / "scifact"
QUESTIONS: Final = (
    "why do flaky tests hurt?",
    "how large should a function be?",
    "when is it right to optimise?",
)


class CachingEmbedder:
    """An embedder with a cache of vectors."""

    def __init__(self, embedder: Embedder, vectors: dict[str, Vector]) -> None:
        """Use `embedder` for texts that are not in the cache."""
        self._embedder = embedder
        self._known = vectors
        self.model = embedder.model
        self.dimension = embedder.dimension
        self.batch_size = embedder.batch_size

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the texts that are not in the cache, and add them to it."""
        unseen = [text for text in dict.fromkeys(texts) if text not in self._known]
        vectors = await self._embedder.embed(unseen, purpose)
        self._known.update(zip(unseen, vectors, strict=True))
        return [self._known[text] for text in texts]

    async def aclose(self) -> None:
        """Close the other embedder."""
        await self._embedder.aclose()


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    """The content of the database.

    Attributes:
        name: For the heading of a table.
        chunk_ids: The ids of its chunks.
        questions: What to search it for.
    """

    name: str
    chunk_ids: list[str]
    questions: list[str]


def scifact_vectors() -> dict[str, Vector]:
    """The vectors of SciFact's abstracts by embedding text; empty if SciFact is not available."""
    if not SCIFACT.is_dir():
        return {}
    vectors = np.load(SCIFACT / "minilm-int8.documents.npy")
    with (SCIFACT / "corpus.jsonl").open(encoding="utf-8") as lines:
        texts = [embedding_text(row["title"], row["text"]) for row in map(json.loads, lines)]
    return {text: tuple(row.tolist()) for text, row in zip(texts, vectors, strict=True)}


async def fill_database(ctx: Context, chunks: int, vectors: dict[str, Vector]) -> KnowledgeBase:
    """Add about this many chunks: abstracts with known vectors, or copies of the sample."""
    scifact = SCIFACT.is_dir()
    sources = _abstracts(vectors) if scifact else _copies()
    ids: list[str] = []
    block: list[ChunkedSource] = []
    while len(ids) < chunks:
        block.append(next(sources))
        ids += [chunk.chunk_id for chunk in block[-1].chunks]
        if len(block) == BATCH_SIZE or len(ids) >= chunks:
            await Ingestion(ctx.database).save(block, ctx.clock())
            block = []
    await embed_all(ctx)
    await index_all(ctx)
    name = "SciFact" if scifact else "the sample, repeated"
    return KnowledgeBase(
        f"{len(ids)} chunks of {name}", ids, _questions() if scifact else list(QUESTIONS)
    )


def _abstracts(vectors: dict[str, Vector]) -> Iterator[ChunkedSource]:
    for source in read_sources(SCIFACT / "corpus.jsonl"):
        chunked = with_chunks(source)
        if all(chunk.embedding_text in vectors for chunk in chunked.chunks):
            yield chunked


def _copies() -> Iterator[ChunkedSource]:
    sample = list(read_sources(SAMPLE))
    copies = (
        replace(source, source_id=f"{source.source_id}-{number}")
        for number in count(1)
        for source in sample
    )
    return map(with_chunks, copies)


def read_sources(path: Path) -> Iterator[Source]:
    """Return the valid sources in a file."""
    return (item for item in read(path) if isinstance(item, Source))


def _questions() -> list[str]:
    with (SCIFACT / "queries.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]
