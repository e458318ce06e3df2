"""A knowledge base to measure on: SciFact where it is at hand, else the sample again and again.

SciFact (5,183 abstracts of papers) lies beside the clone, in `../shared/data/scifact`, with its
vectors; it is no part of the project. See https://github.com/allenai/scifact.
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
from shared.knowledge.ingestion import BLOCK, Ingestion
from shared.knowledge.source import Source
from tests.support.knowledge import embed_all, in_chunks, index_all

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


class Remembering:
    """An embedder that knows the vectors of some texts and asks another one for the rest."""

    def __init__(self, embedder: Embedder, known: dict[str, Vector]) -> None:
        """Pass for `embedder`."""
        self._embedder = embedder
        self._known = known
        self.model = embedder.model
        self.dimension = embedder.dimension
        self.batch_size = embedder.batch_size

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed what was never seen; remember it."""
        unseen = [text for text in dict.fromkeys(texts) if text not in self._known]
        vectors = await self._embedder.embed(unseen, purpose)
        self._known.update(zip(unseen, vectors, strict=True))
        return [self._known[text] for text in texts]

    async def aclose(self) -> None:
        """Let go of the other one."""
        await self._embedder.aclose()


@dataclass(frozen=True, slots=True)
class Base:
    """What was put in.

    Attributes:
        name: For the heading of a table.
        chunk_ids: The ids of its chunks.
        questions: What to search it for.
    """

    name: str
    chunk_ids: list[str]
    questions: list[str]


def known_vectors() -> dict[str, Vector]:
    """Embedding text to vector, of all of SciFact's abstracts; nothing where it is absent."""
    if not SCIFACT.is_dir():
        return {}
    vectors = np.load(SCIFACT / "minilm-int8.documents.npy")
    with (SCIFACT / "corpus.jsonl").open(encoding="utf-8") as lines:
        texts = [embedding_text(row["title"], row["text"]) for row in map(json.loads, lines)]
    return {text: tuple(row.tolist()) for text, row in zip(texts, vectors, strict=True)}


async def fill(ctx: Context, chunks: int, known: dict[str, Vector]) -> Base:
    """Put about this many chunks in: abstracts whose vectors are known, or copies of the sample."""
    scifact = SCIFACT.is_dir()
    sources = _abstracts(known) if scifact else _copies()
    ids: list[str] = []
    block: list[ChunkedSource] = []
    while len(ids) < chunks:
        block.append(next(sources))
        ids += [chunk.chunk_id for chunk in block[-1].chunks]
        if len(block) == BLOCK or len(ids) >= chunks:
            await Ingestion(ctx.database).save(block, ctx.clock())
            block = []
    await embed_all(ctx)
    await index_all(ctx)
    name = "SciFact" if scifact else "the sample, repeated"
    return Base(f"{len(ids)} chunks of {name}", ids, _questions() if scifact else list(QUESTIONS))


def _abstracts(known: dict[str, Vector]) -> Iterator[ChunkedSource]:
    for source in read_sources(SCIFACT / "corpus.jsonl"):
        chunked = in_chunks(source)
        if all(chunk.embedding_text in known for chunk in chunked.chunks):
            yield chunked


def _copies() -> Iterator[ChunkedSource]:
    sample = list(read_sources(SAMPLE))
    copies = (
        replace(source, source_id=f"{source.source_id}-{number}")
        for number in count(1)
        for source in sample
    )
    return map(in_chunks, copies)


def read_sources(path: Path) -> Iterator[Source]:
    """The sources in a file, without what is broken."""
    return (item for item in read(path) if isinstance(item, Source))


def _questions() -> list[str]:
    with (SCIFACT / "queries.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]
