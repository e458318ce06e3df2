"""The quality of search on SciFact, as nDCG@10, Recall@10 and Recall@100, and the reads of a query.

Usage: python -m benchmarks.retrieval [test|train] [QUERIES]

All documents go through ingest, embed and index on the emulator, and all queries through the
ranking of search_kb in each mode. They are compared in memory with two alternatives on the same
documents: `bm25s` with its own tokenizer, and exhaustive comparison of the vectors. Tune on
`train`, confirm on `test`.

SciFact: Wadden et al., "Fact or Fiction: Verifying Scientific Claims", EMNLP 2020. nDCG with binary
gains: Järvelin, Kekäläinen, "Cumulated Gain-Based Evaluation of IR Techniques", ACM TOIS 20(4).
"""

from __future__ import annotations

import asyncio
import csv
import json
import math
import os
import sys
from dataclasses import dataclass, field
from statistics import mean, median
from typing import TYPE_CHECKING, Final

import bm25s
import numpy as np
import Stemmer

from benchmarks.dataset import SCIFACT, CachingEmbedder, read_sources, scifact_vectors
from benchmarks.measurement import print_table
from functions.jobs.embed.job import embed
from functions.jobs.index.job import index
from infra.local.emulator import EmulatorMissing, run_emulator
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.chunk import source_id_of
from shared.knowledge.corpus import knowledge
from shared.knowledge.ingestion import BATCH_SIZE, Ingestion
from shared.runtime.context import App
from shared.runtime.job import Budget
from shared.search.filter_plan import Selection
from shared.search.fusion import diversify_hits
from shared.search.hybrid import rank
from shared.search.query import Mode, SearchQuery
from tests.support.knowledge import with_chunks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from shared.ai.embedding import Vector
    from shared.runtime.context import Context

PROJECT: Final = "bench-retrieval"
TRAIN: Final = SCIFACT.with_name("scifact-train")
GOALS: Final = (
    "goals: lexical within 0.005 of full BM25 at one read a term; hybrid at least 0.727 and 0.04"
    " above the better leg"
)


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries with their vectors and relevant documents."""

    texts: list[str]
    vectors: list[Vector]
    relevant: list[set[str]]


@dataclass(slots=True)
class Result:
    """The results of one search method: a ranking of documents for each query."""

    rankings: list[list[str]] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    trips: list[int] = field(default_factory=list)

    def row(self, name: str, relevant: Sequence[set[str]]) -> list[str]:
        """Return the row of the table."""
        pairs = list(zip(self.rankings, relevant, strict=True))
        return [
            name,
            f"{mean(ndcg(ranking, relevant, 10) for ranking, relevant in pairs):.4f}",
            f"{mean(recall(ranking, relevant, 10) for ranking, relevant in pairs):.4f}",
            f"{mean(recall(ranking, relevant, 100) for ranking, relevant in pairs):.4f}",
            f"{mean(self.reads):.1f}" if self.reads else "",
            f"{median(self.trips):.0f}" if self.trips else "",
        ]


def ndcg(ranking: Sequence[str], relevant: set[str], depth: int) -> float:
    """Normalized discounted cumulative gain; 1 if all relevant documents come first."""
    gains = (
        1 / math.log2(place + 2) for place, name in enumerate(ranking[:depth]) if name in relevant
    )
    ideal = sum(1 / math.log2(place + 2) for place in range(min(len(relevant), depth)))
    return sum(gains) / ideal


def recall(ranking: Sequence[str], relevant: set[str], depth: int) -> float:
    """Return the share of relevant documents that are found."""
    return len(relevant & set(ranking[:depth])) / len(relevant)


def read_queries(folder: Path, limit: int | None) -> Queries:
    """Return the queries with relevant documents."""
    relevant: dict[str, set[str]] = {}
    with (folder / "qrels.tsv").open(encoding="utf-8") as rows:
        for query, document, gain, *_ in csv.reader(rows, delimiter="\t"):
            if gain.isdigit() and int(gain) > 0:
                relevant.setdefault(query, set()).add(document)
    with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
        queries = [json.loads(line) for line in lines]
    vectors = np.load(next(folder.glob("minilm-int8.queries*.npy")))
    kept = [place for place, query in enumerate(queries) if query["_id"] in relevant][:limit]
    return Queries(
        [queries[place]["text"] for place in kept],
        [tuple(vectors[place].tolist()) for place in kept],
        [relevant[queries[place]["_id"]] for place in kept],
    )


async def fill(ctx: Context) -> dict[str, str]:
    """Ingest all documents; return the document of each source."""
    sources = list(read_sources(SCIFACT / "corpus.jsonl"))
    with (SCIFACT / "corpus.jsonl").open(encoding="utf-8") as lines:
        ids = [json.loads(line)["_id"] for line in lines]
    for start in range(0, len(sources), BATCH_SIZE):
        block = [with_chunks(source) for source in sources[start : start + BATCH_SIZE]]
        await Ingestion(ctx.database).save(block, ctx.clock())
    for job in (embed, index):
        await job(ctx, Budget(math.inf))
    return {source.source_id: name for source, name in zip(sources, ids, strict=True)}


async def search(app: App, queries: Queries, mode: Mode, documents: Mapping[str, str]) -> Result:
    """Rank all queries as search_kb does."""
    result = Result()
    for text in queries.texts:
        meter = Meter()
        ctx = app.context(Caller(), meter)
        ranking = await rank(SearchQuery(text, mode, Selection()), knowledge(ctx.database), ctx)
        sources = [source_id_of(hit.id) for hit in diversify_hits(ranking.hits, source_id_of)]
        result.rankings.append(list(dict.fromkeys(documents[source] for source in sources)))
        result.reads.append(meter.documents_read)
        result.trips.append(meter.round_trips)
    return result


def peers(queries: Queries) -> dict[str, Result]:
    """Rank with the alternatives, without database, postings and chunks."""
    with (SCIFACT / "corpus.jsonl").open(encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    ids = [document["_id"] for document in documents]
    stemmer = Stemmer.Stemmer("english")
    texts = [f"{document['title']} {document['text']}" for document in documents]
    words = bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
    full = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    full.index(words, show_progress=False)
    asked = bm25s.tokenize(queries.texts, stopwords="en", stemmer=stemmer, show_progress=False)
    documents, _ = full.retrieve(asked, k=100, show_progress=False)
    vectors = np.load(SCIFACT / "minilm-int8.documents.npy")
    near = np.argsort(-(np.asarray(queries.vectors) @ vectors.T), axis=1)[:, :100]
    return {
        "bm25s, every document": Result([[ids[place] for place in row] for row in documents]),
        "embedder, every document": Result([[ids[place] for place in row] for row in near]),
    }


async def measure(folder: Path, limit: int | None) -> None:
    """Fill a base, search it in every mode, and print the table."""
    queries = read_queries(folder, limit)
    vectors = scifact_vectors() | dict(zip(queries.texts, queries.vectors, strict=True))
    settings = Settings(google_cloud_project=PROJECT)
    app = App(settings, embedder=CachingEmbedder(LocalEmbedder(), vectors))
    documents = await fill(app.context(Caller(), Meter()))
    rows = [result.row(name, queries.relevant) for name, result in peers(queries).items()]
    for mode in Mode:
        result = await search(app, queries, mode, documents)
        rows.append(result.row(mode.value, queries.relevant))
    await app.aclose()
    columns = ("", "nDCG@10", "Recall@10", "Recall@100", "reads", "round trips")
    title = f"{folder.name}: {len(queries.texts)} queries, {len(documents)} documents; {GOALS}"
    print_table(title, columns, rows)


def main() -> None:
    """Measure on the named queries."""
    folder = TRAIN if sys.argv[1:2] == ["train"] else SCIFACT
    if not folder.is_dir():
        sys.exit(f"Skipped: {folder} is not here. It is no part of the project.")
    limit = int(sys.argv[2]) if sys.argv[2:] else None
    try:
        with run_emulator() as host:
            os.environ["FIRESTORE_EMULATOR_HOST"] = host
            asyncio.run(measure(folder, limit))
    except EmulatorMissing as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
