"""The quality of search on SciFact (nDCG@10, Recall@10 and Recall@100), and the reads of a query.

Usage: python -m benchmarks.retrieval [test|train] [QUERIES]

All documents are ingested, embedded and indexed on the local database, and the ranking of
`search_kb` runs all queries in each mode. Two alternatives run in memory on the same documents:
`bm25s` with its own tokenizer, and a comparison with all vectors. Tune on `train`, confirm on
`test`.

SciFact: Wadden et al., "Fact or Fiction: Verifying Scientific Claims", EMNLP 2020. nDCG with binary
gains: Järvelin, Kekäläinen, "Cumulated Gain-Based Evaluation of IR Techniques", ACM TOIS 20(4).
"""

from __future__ import annotations

import asyncio
import math
import sys
from dataclasses import dataclass, field
from statistics import mean, median
from typing import TYPE_CHECKING, Final

import bm25s
import numpy as np
import Stemmer

from benchmarks.database import use_database
from benchmarks.dataset import CachingEmbedder, load_scifact_vectors, read_sources
from benchmarks.measurement import print_table
from benchmarks.ranking_metrics import compute_ndcg, compute_recall
from benchmarks.scifact import (
    ABSTRACTS,
    SCIFACT,
    TRAIN,
    VECTORS,
    load_vectors,
    read_relevance,
    read_rows,
    require_file,
)
from functions.jobs.embed.job import embed
from functions.jobs.index.job import index
from shared.ai.local_embedding import LocalEmbedder
from shared.ai.vector_halves import ENGLISH_DIMENSION
from shared.core.caller import Caller
from shared.core.ids import parse_source_id
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.corpus import get_knowledge_corpus
from shared.runtime.context import App
from shared.runtime.job import Budget
from shared.search.filter_plan import Selection
from shared.search.fusion import diversify_hits
from shared.search.hybrid import rank
from shared.search.query import Mode, SearchQuery
from shared.writer.ingestion import BATCH_SIZE, Ingestion
from tests.support.knowledge import chunk_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from shared.ai.embedding import Vector
    from shared.runtime.context import Context

TARGETS: Final = (
    "targets: lexical within 0.005 of full BM25 at one read per term; hybrid at least 0.727, and"
    " 0.04 above the better of semantic and lexical"
)


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries with their vectors and relevant documents."""

    texts: list[str]
    vectors: list[Vector]
    relevant: list[set[str]]


@dataclass(slots=True)
class Result:
    """The rankings of a search method, one for each query, with their reads and round trips."""

    rankings: list[list[str]] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    round_trips: list[int] = field(default_factory=list)

    def make_row(self, name: str, relevant: Sequence[set[str]]) -> list[str]:
        """Return the row of the table."""
        pairs = list(zip(self.rankings, relevant, strict=True))
        return [
            name,
            f"{mean(compute_ndcg(ranking, relevant, 10) for ranking, relevant in pairs):.4f}",
            f"{mean(compute_recall(ranking, relevant, 10) for ranking, relevant in pairs):.4f}",
            f"{mean(compute_recall(ranking, relevant, 100) for ranking, relevant in pairs):.4f}",
            f"{mean(self.reads):.1f}" if self.reads else "",
            f"{median(self.round_trips):.0f}" if self.round_trips else "",
        ]


def read_queries(folder: Path, limit: int | None) -> Queries:
    """Return the queries with relevant documents."""
    relevant = read_relevance(folder)
    queries = read_rows(folder / "queries.jsonl")
    vectors = load_vectors(folder, "queries", [query["text"] for query in queries])
    answerable = [index for index, query in enumerate(queries) if query["_id"] in relevant]
    indexes = answerable[:limit]
    return Queries(
        [queries[index]["text"] for index in indexes],
        [vectors[index] for index in indexes],
        [set(relevant[queries[index]["_id"]]) for index in indexes],
    )


async def ingest_corpus(ctx: Context) -> dict[str, str]:
    """Ingest all documents, and return the document id of each source."""
    sources = list(read_sources(ABSTRACTS))
    ids = [row["_id"] for row in read_rows(ABSTRACTS)]
    for start in range(0, len(sources), BATCH_SIZE):
        batch = [chunk_source(source) for source in sources[start : start + BATCH_SIZE]]
        await Ingestion(ctx.database).save(batch, ctx.clock())
    for job in (embed, index):
        await job(ctx, Budget(math.inf))
    return {source.source_id: name for source, name in zip(sources, ids, strict=True)}


async def search(app: App, queries: Queries, mode: Mode, documents: Mapping[str, str]) -> Result:
    """Rank the documents for all queries as search_kb does."""
    result = Result()
    for text in queries.texts:
        meter = Meter()
        ctx = app.context(Caller(), meter)
        ranking = await rank(
            SearchQuery(text, mode, Selection()), get_knowledge_corpus(ctx.database), ctx
        )
        sources = [parse_source_id(hit.id) for hit in diversify_hits(ranking.hits, parse_source_id)]
        result.rankings.append(list(dict.fromkeys(documents[source] for source in sources)))
        result.reads.append(meter.documents_read)
        result.round_trips.append(meter.round_trips)
    return result


def rank_with_alternatives(queries: Queries) -> dict[str, Result]:
    """Rank the documents for all queries with the alternatives, which need no database."""
    documents = read_rows(ABSTRACTS)
    ids = [document["_id"] for document in documents]
    stemmer = Stemmer.Stemmer("english")
    texts = [f"{document['title']} {document['text']}" for document in documents]
    document_tokens = bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
    ranker = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    ranker.index(document_tokens, show_progress=False)
    query_tokens = bm25s.tokenize(
        queries.texts, stopwords="en", stemmer=stemmer, show_progress=False
    )
    best, _ = ranker.retrieve(query_tokens, k=100, show_progress=False)
    english_halves = np.asarray(queries.vectors)[:, :ENGLISH_DIMENSION]
    nearest = np.argsort(-(english_halves @ np.load(VECTORS).T), axis=1)[:, :100]
    return {
        "bm25s, every document": Result([[ids[index] for index in row] for row in best]),
        "embedder, every document": Result([[ids[index] for index in row] for row in nearest]),
    }


async def measure(folder: Path, limit: int | None) -> None:
    """Ingest the corpus, search it in each mode, and print the table."""
    queries = read_queries(folder, limit)
    vectors = load_scifact_vectors() | dict(zip(queries.texts, queries.vectors, strict=True))
    app = App(Settings(), embedder=CachingEmbedder(LocalEmbedder(), vectors))
    documents = await ingest_corpus(app.context(Caller(), Meter()))
    rows = [
        result.make_row(name, queries.relevant)
        for name, result in rank_with_alternatives(queries).items()
    ]
    for mode in Mode:
        result = await search(app, queries, mode, documents)
        rows.append(result.make_row(mode.value, queries.relevant))
    await app.aclose()
    columns = ("", "nDCG@10", "Recall@10", "Recall@100", "reads", "round trips")
    title = f"{folder.name}: {len(queries.texts)} queries, {len(documents)} documents; {TARGETS}"
    print_table(title, columns, rows)


def main() -> None:
    """Measure on the test or the training queries."""
    folder = TRAIN if sys.argv[1:2] == ["train"] else SCIFACT
    require_file(folder)
    limit = int(sys.argv[2]) if sys.argv[2:] else None
    use_database()
    asyncio.run(measure(folder, limit))


if __name__ == "__main__":
    main()
