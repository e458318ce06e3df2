"""Random knowledge bases, and the results that `search_kb` must return, computed by brute force.

The reference results use the chunks' texts and vectors, and none of the product's indexes.
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from shared.ai.embedding import Vector
from shared.knowledge import chunk_repository
from shared.knowledge.chunk import Chunk
from shared.knowledge.source import Section, Source
from shared.runtime.context import Context
from shared.search.fusion import Scores, diversify_ranking, fuse
from shared.text.terms import count_terms, terms
from tests.support.fakes.embedder import compute_similarity
from tests.support.knowledge import index_all, store_sources
from tests.support.stored_documents import read_chunks

# Random sources and filters are made of these. Some differ only in case or spaces, which filters
# ignore.
FIRST_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
WORDS: Final = (
    *("rye", "wheat", "oven", "dough", "crust", "flour", "salt", "yeast", "lamp", "bell"),
    *("sail", "anchor", "storm", "harbour", "rope", "tide", "mast", "wind", "gull", "chart"),
    *("reef", "pier", "buoy", "knot", "hull", "deck"),
)
TAGS: Final = ("Food", "food", "Sea", "craft", "a/b", "100%")
AUTHORS: Final = (None, "Ida Loaf", "IDA  LOAF", "Ann Bo")
TITLES: Final = ("Bread", "Under Sail", "bread", "Notes")
CATEGORIES: Final = ("books", "articles")
CLUSTERS: Final = ("c1", "c2", "c3")


@dataclass(frozen=True, slots=True)
class EmbeddedChunk:
    """A chunk with its vector, read directly from Firestore."""

    chunk: Chunk
    vector: Vector


async def store_random_sources(ctx: Context, generator: random.Random) -> list[EmbeddedChunk]:
    """Store sources with random tags, authors, dates, cards and clusters; return all passages."""
    await store_sources(ctx, *(_make_random_source(generator, number) for number in range(9)))
    client = ctx.database.connection.client
    async for snapshot in client.collection("chunks").select([]).stream():
        card = {"summary": "In short.", "takeaways": ["One."]} if generator.random() < 0.5 else None
        clusters = generator.sample(CLUSTERS, generator.choice((0, 1, 1, 2)))
        fields = {"knowledge_card": card, "cluster_id": clusters, "pending.index": ctx.clock()}
        await snapshot.reference.update(fields)
    await index_all(ctx)
    return await read_embedded_chunks(ctx)


async def read_embedded_chunks(ctx: Context) -> list[EmbeddedChunk]:
    stored = await read_chunks(ctx)
    return [
        EmbeddedChunk(chunk_repository.to_chunk(chunk_id, data), tuple(data["embedding"]))
        for chunk_id, data in stored.items()
    ]


def matches_filters(chunk: Chunk, filters: Mapping[str, Any], *, cards_only: bool = False) -> bool:
    """Return whether a passage passes the filters of `search_kb`, without the product's code."""
    return all(_check_filters(chunk, filters)) and (
        not cards_only or chunk.knowledge_card is not None
    )


def sort_newest_first(candidates: Sequence[EmbeddedChunk]) -> list[str]:
    chunks = sorted(
        (entry.chunk for entry in candidates),
        key=lambda chunk: (chunk.dated_at or chunk_repository.UNDATED, chunk.chunk_id),
        reverse=True,
    )
    return [chunk.chunk_id for chunk in chunks]


def rank_by_meaning(candidates: Sequence[EmbeddedChunk], vector: Vector) -> list[str]:
    """Return the ids of passages by similarity to a vector, best first."""
    scores = {
        entry.chunk.chunk_id: compute_similarity(entry.vector, vector) for entry in candidates
    }
    return _diversify_ids(_sort_best_first(scores), candidates)


def rank_by_words(
    candidates: Sequence[EmbeddedChunk], all_chunks: Sequence[EmbeddedChunk], query: str
) -> list[str]:
    """Return the ids of the candidates that contain a term of a query, by BM25, best first.

    Those with all terms come first. The frequencies of terms are those in all chunks.
    """
    scores = compute_bm25(all_chunks, query)
    step = max((scores[entry.chunk.chunk_id] for entry in candidates), default=0.0)
    query_terms = set(terms(query))
    candidate_scores = {
        entry.chunk.chunk_id: scores[entry.chunk.chunk_id]
        + step * (query_terms <= set(terms(entry.chunk.indexed_text)))
        for entry in candidates
        if scores[entry.chunk.chunk_id]
    }
    return _diversify_ids(_sort_best_first(candidate_scores), candidates)


def rank_by_fusion(
    candidates: Sequence[EmbeddedChunk],
    all_chunks: Sequence[EmbeddedChunk],
    query: str,
    vector: Vector,
) -> list[str]:
    """Return the ids of the candidates by the fusion of both scores, best first."""
    lexical_scores = compute_bm25(all_chunks, query)
    pair_scores = _score_pairs(
        [entry for entry in candidates if lexical_scores[entry.chunk.chunk_id]], query
    )
    scores = {
        entry.chunk.chunk_id: Scores(
            compute_similarity(entry.vector, vector),
            lexical_scores[entry.chunk.chunk_id] + pair_scores.get(entry.chunk.chunk_id, 0.0),
        )
        for entry in candidates
    }
    trust = min(1, _find_best_coverage(candidates, all_chunks, query) / 0.4)
    return _diversify_ids(fuse(scores, 1 - 0.5 * trust), candidates)


def _score_pairs(candidates: Sequence[EmbeddedChunk], query: str) -> dict[str, float]:
    """Return the score of the query's neighbouring words in each candidate: BM25 among these."""
    texts = {entry.chunk.chunk_id: f" {_fold(entry.chunk.indexed_text)} " for entry in candidates}
    scores = dict.fromkeys(texts, 0.0)
    for first, second in pairwise(query.split()):
        counts = {name: text.count(f" {first} {second} ") for name, text in texts.items()}
        df = sum(map(bool, counts.values()))
        for name, tf in counts.items():
            idf = math.log(1 + (len(counts) - df + 0.5) / (df + 0.5))
            scores[name] += 0.2 * idf * tf / (tf + 1.2)
    return scores


def _find_best_coverage(
    candidates: Sequence[EmbeddedChunk], all_chunks: Sequence[EmbeddedChunk], query: str
) -> float:
    """Return the largest share of the query's information that a candidate has."""
    chunk_terms = {
        entry.chunk.chunk_id: set(terms(entry.chunk.indexed_text)) for entry in all_chunks
    }
    information: defaultdict[str, float] = defaultdict(float)
    for term in terms(query):
        df = sum(term in other for other in chunk_terms.values())
        information[term] += math.log(1 + (len(all_chunks) - df + 0.5) / (df + 0.5))
    shares = (
        sum(information[term] for term in chunk_terms[entry.chunk.chunk_id] & information.keys())
        for entry in candidates
    )
    return max(shares, default=0.0) / sum(information.values())


def compute_bm25(all_chunks: Sequence[EmbeddedChunk], query: str) -> dict[str, float]:
    """Return the BM25 score of every passage by its id, with k1 = 1.2 and b = 0.75.

    The formula is that of Lucene: https://en.wikipedia.org/wiki/Okapi_BM25
    """
    term_counts = {
        entry.chunk.chunk_id: count_terms(entry.chunk.indexed_text, entry.chunk.title)
        for entry in all_chunks
    }
    documents = len(term_counts)
    average_length = sum(counts.length for counts in term_counts.values()) / documents
    scores = dict.fromkeys(term_counts, 0.0)
    for term in terms(query):
        df = sum(term in counts.by_term for counts in term_counts.values())
        idf = math.log(1 + (documents - df + 0.5) / (df + 0.5))
        for chunk_id, counts in term_counts.items():
            norm = 1.2 * (0.25 + 0.75 * counts.length / average_length)
            tf = counts.by_term.get(term, 0)
            scores[chunk_id] += idf * tf / (tf + norm)
    return scores


def make_random_filters(generator: random.Random) -> dict[str, Any]:
    """Return up to three random filters of `search_kb`."""
    start = FIRST_DAY + timedelta(days=generator.randrange(0, 700))
    filters: dict[str, Any] = {
        "tags": generator.sample([*TAGS, "FOOD", "unknown"], generator.randint(1, 3)),
        "author": generator.choice(("ida loaf", "Ann Bo", "ann  BO")),
        "source": generator.choice(("bread", "UNDER SAIL", "s1", "s2")),
        "category": generator.choice(("Books", "articles")),
        "cluster_id": generator.choice(CLUSTERS),
        "date_range": {
            "start": start.date().isoformat(),
            "end": (start + timedelta(days=generator.choice((0, 30, 200, 800)))).date().isoformat(),
        },
    }
    if generator.random() < 0.3:
        del filters["date_range"][generator.choice(("start", "end"))]
    return {
        name: filters[name] for name in generator.sample(sorted(filters), generator.randint(0, 3))
    }


def _check_filters(chunk: Chunk, filters: Mapping[str, Any]) -> Iterator[bool]:
    """Yield for each filter whether a passage passes it."""
    for name, expected in filters.items():
        match name:
            case "tags":
                yield not {_fold(tag) for tag in expected}.isdisjoint(map(_fold, chunk.tags))
            case "author" | "category":
                yield _fold(getattr(chunk, name) or "") == _fold(expected)
            case "source":
                yield expected == chunk.source_id or _fold(expected) == _fold(chunk.title)
            case "cluster_id":
                yield expected in chunk.cluster_id
            case "date_range":
                day = f"{chunk.dated_at:%Y-%m-%d}" if chunk.dated_at else ""
                yield bool(day) and expected.get("start", "") <= day <= expected.get("end", "9999")


def _fold(name: str) -> str:
    """Return a name without differences in case and spaces."""
    return " ".join(name.casefold().split())


def _sort_best_first(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def _diversify_ids(
    ranking: list[tuple[str, float]], candidates: Sequence[EmbeddedChunk]
) -> list[str]:
    """Return the ids of a ranking, reordered so that sources take turns."""
    sources = {entry.chunk.chunk_id: entry.chunk.source_id for entry in candidates}
    return [chunk_id for chunk_id, _ in diversify_ranking(ranking, sources)]


def _make_random_source(generator: random.Random, number: int) -> Source:
    return Source(
        f"s{number}",
        title=generator.choice(TITLES),
        author=generator.choice(AUTHORS),
        category=generator.choice(CATEGORIES),
        tags=tuple(generator.sample(TAGS, generator.randint(0, 2))),
        sections=tuple(_make_random_section(generator) for _ in range(generator.randint(6, 11))),
    )


def _make_random_section(generator: random.Random) -> Section:
    highlighted_at = FIRST_DAY + timedelta(minutes=generator.randrange(700 * 24 * 60))
    return Section(
        " ".join(generator.choices(WORDS, k=generator.randint(5, 12))),
        tags=tuple(generator.sample(TAGS, generator.choice((0, 1)))),
        highlighted_at=highlighted_at,
    )
