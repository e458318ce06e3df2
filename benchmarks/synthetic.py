"""A synthetic knowledge base for benchmarks, written directly as the jobs would leave it.

The jobs take many minutes for 20,000 chunks; writing their results takes one or two. Texts are
pseudo-words with a Zipf distribution, and each chunk is about one of 60 subjects. The vector of a
text is the sum of its words' vectors and of noise, so that search by meaning and search by words
agree in part. The same seeds produce the same knowledge base.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import timedelta
from itertools import islice, product
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.bulk_writer import BulkWriter
from functions.jobs.repair.rebuilt_postings import RebuildLimits, RebuiltPostings
from shared.core.dates import to_microseconds
from shared.core.ids import safe_id
from shared.extractions.groups import COLLECTION as EXTRACTIONS
from shared.extractions.groups import GROUPS, TOPICS
from shared.extractions.model import (
    Extraction,
    Pattern,
    Pitfall,
    build_facets,
    compute_extraction_id,
)
from shared.extractions.repository import to_fields
from shared.index.facets import select_vector_index_facets
from shared.index.indexed_state import IndexedState
from shared.index.postings import KNOWLEDGE, TRACES
from shared.index.stored_vector import build_vector_fields
from shared.knowledge import cluster_repository
from shared.knowledge.cluster import Cluster
from shared.knowledge.cluster_repository import ClusterWithCentroid
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.map_repository import (
    POINTS_PER_PAGE,
    KnowledgeMap,
    MapCluster,
    MapPoint,
    Maps,
)
from shared.knowledge.source import Section, Source
from shared.tasks.model import Priority, Task
from shared.tasks.repository import Tasks
from shared.text.spans import Span
from shared.text.terms import TITLE_WEIGHT, terms
from shared.traces.model import Trace, TraceContent
from shared.traces.repository import TRACE, TraceIndexEntry
from shared.writer.chunk_documents import build_new_document
from shared.writer.chunked_source import ChunkedSource, build_source_document
from shared.writer.indexing import INDEX_VERSION
from shared.writer.source_chunks import split_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from benchmarks.bulk_writer import Document
    from shared.ai.embedding import Purpose, Vector
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context


READER: Final = "reader"
"""The user whose tasks are in the knowledge base."""
WORD_COUNT: Final = 6_000
"""The number of words of the vocabulary."""
SUBJECT_COUNT: Final = 60
"""The number of subjects."""
WORDS_PER_SUBJECT: Final = 60
"""The number of words that are typical of a subject."""
CHUNKS_PER_SOURCE: Final = 10
AUTHOR_COUNT: Final = 40
TAG_INTERVALS: Final = {"second": 2, "seventh": 7, "hundredth": 100}
"""Each tag, and its interval: every second source has the tag `second`."""
DIMENSION: Final = 384
WORDS_PER_CHUNK: Final = 150
"""The number of words of a chunk, which make 1,000 characters."""
CHUNKS_PER_DAY: Final = 20
"""How many passages are dated on the same day; the days precede the creation of the base."""
CHUNKS_PER_EXTRACTION: Final = 5
CHUNKS_PER_TRACE: Final = 20
CHUNKS_PER_TASK: Final = 100
_SUBJECT_SHARE: Final = 0.15
"""The share of a text's words that are typical of its subject."""
_NOISE: Final = 1.2
"""The length of a vector's noise, relative to the sum of the words' vectors."""
_TRACE_SEED: Final = 10**9
_SYLLABLES: Final = [a + b for a, b in product("bdfgklmnprstvz", "aeiou")]


class SyntheticTexts:
    """Texts about subjects, and their vectors."""

    def __init__(self) -> None:
        """Choose the vocabulary, and draw a vector for each word."""
        numbers = np.random.default_rng(1).permutation(len(_SYLLABLES) ** 3)
        words_with_terms = list(islice(_iterate_words_with_terms(numbers), WORD_COUNT))
        self.words = [word for word, _ in words_with_terms]
        self._terms = dict(words_with_terms)
        self._positions = {word: position for position, word in enumerate(self.words)}
        vectors = np.random.default_rng(2).standard_normal((WORD_COUNT, DIMENSION))
        # Rare words matter more, as they do to an embedding model.
        weights = np.log1p(np.arange(WORD_COUNT))
        self._vectors = vectors * weights[:, None]
        frequencies = 1 / (np.arange(WORD_COUNT) + 20)
        self._frequencies = frequencies / frequencies.sum()

    def write_text(self, subject: int, seed: int, length: int) -> str:
        """Write a text of this many words about a subject."""
        random = np.random.default_rng((subject, seed))
        common_words = random.choice(WORD_COUNT, size=length, p=self._frequencies)
        subject_words = random.choice(self.choose_typical_words(subject), size=length)
        is_about_subject = random.random(length) < _SUBJECT_SHARE
        positions = np.where(is_about_subject, subject_words, common_words)
        return " ".join(self.words[position] for position in positions)

    def choose_typical_words(self, subject: int) -> NDArray[np.int64]:
        """Return the positions of the words that are typical of a subject."""
        return np.random.default_rng(subject).choice(
            WORD_COUNT, size=WORDS_PER_SUBJECT, replace=False
        )

    def write_question(self, number: int) -> str:
        """Ask about a subject, in three of its typical words and two other words."""
        random = np.random.default_rng((3, number))
        subject_words = random.choice(
            self.choose_typical_words(number % SUBJECT_COUNT), size=3, replace=False
        )
        common_words = random.choice(WORD_COUNT, size=2, p=self._frequencies)
        return " ".join(self.words[position] for position in (*subject_words, *common_words))

    def embed(self, text: str) -> Vector:
        """Embed a text; the result has length 1."""
        positions = [self._positions[word] for word in text.split() if word in self._positions]
        total = self._vectors[positions].sum(axis=0) if positions else np.ones(DIMENSION)
        noise = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIMENSION)
        noisy = total / np.linalg.norm(total) + _NOISE * noise / math.sqrt(DIMENSION)
        return tuple((noisy / np.linalg.norm(noisy)).tolist())

    def count_terms(self, text: str) -> Counter[str]:
        """Count the terms of a text, as the index job does, but faster."""
        counts = Counter[str]()
        for word, occurrences in Counter(text.split()).items():
            word_terms = [self._terms[word]] if word in self._terms else terms(word)
            for term in word_terms:
                counts[term] += occurrences
        return counts


def _iterate_words_with_terms(numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
    """Yield pseudo-words of three syllables, each with its term, and each term only once.

    A number below the cube of the number of syllables selects three syllables.
    """
    base = len(_SYLLABLES)
    used_terms = set[str]()
    for number in numbers:
        positions = number // base**2, number // base % base, number % base
        word = "".join(_SYLLABLES[position] for position in positions)
        word_terms = terms(word)
        if len(word_terms) == 1 and word_terms[0] not in used_terms:
            used_terms.add(word_terms[0])
            yield word, word_terms[0]


class SyntheticEmbedder:
    """An embedder that costs almost nothing: it adds up the vectors of words."""

    model = "synthetic"
    batch_size = 100
    dimension = DIMENSION

    def __init__(self, texts: SyntheticTexts) -> None:
        """Use the vectors of these words."""
        self._texts = texts

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:  # noqa: ARG002 - the same for both
        """Embed the texts."""
        return [self._texts.embed(text) for text in texts]

    async def aclose(self) -> None:
        """Do nothing."""


class SyntheticBase:
    """A knowledge base in the database, with traces and tasks, that grows.

    Attributes:
        texts: The texts and vectors of the documents.
        chunk_ids: The ids of the chunks so far.
    """

    def __init__(self, ctx: Context, texts: SyntheticTexts) -> None:
        """Begin with an empty knowledge base."""
        self._ctx = ctx
        self.texts = texts
        self._now = ctx.clock()
        limits = RebuildLimits(memory_budget=10**9)
        words = WORDS_PER_CHUNK
        self._knowledge = RebuiltPostings(KNOWLEDGE, (KNOWLEDGE.facets, ""), words, limits)
        self._traces = RebuiltPostings(TRACES, (TRACES.facets, ""), 2 * words, limits)
        self._topics: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._cluster_sizes = Counter[int]()
        self.chunk_ids: list[str] = []
        self._trace_count = 0
        self._task_count = 0

    async def grow(self, chunk_count: int) -> None:
        """Add sources until there are this many chunks, with traces and tasks in proportion."""
        writer = BulkWriter(self._ctx.database.connection.client)
        while len(self.chunk_ids) < chunk_count:
            for document in self._build_source(len(self.chunk_ids) // CHUNKS_PER_SOURCE):
                await writer.add(document)
        while self._trace_count < len(self.chunk_ids) // CHUNKS_PER_TRACE:
            await writer.add(self._build_trace(self._trace_count))
        for document in self._build_derived():
            await writer.add(document)
        await writer.flush()
        await self._draw_map()
        await self._add_tasks(len(self.chunk_ids) // CHUNKS_PER_TASK)

    def _build_source(self, number: int) -> Iterator[Document]:
        """Yield the documents of a source, its chunks and their extractions."""
        tags = tuple(tag for tag, interval in TAG_INTERVALS.items() if number % interval == 0)
        title = f"Book {self.texts.words[number % WORD_COUNT]} {number}"
        positions = range(number * CHUNKS_PER_SOURCE, (number + 1) * CHUNKS_PER_SOURCE)
        texts = [
            self.texts.write_text(position % SUBJECT_COUNT, position, WORDS_PER_CHUNK)
            for position in positions
        ]
        source = Source(
            f"book-{number}",
            title,
            author=f"Author {number % AUTHOR_COUNT}",
            category="books",
            tags=tags,
            sections=tuple(Section(text) for text in texts),
        )
        chunks = split_source(source, [[Span(0, len(text))] for text in texts])
        for position, chunk in zip(positions, chunks, strict=True):
            yield from self._build_chunk(position, chunk)
        document = build_source_document(ChunkedSource(source, chunks), self._now)
        yield f"sources/{source.source_id}", document | {"created_at": self._now}

    def _build_chunk(self, position: int, chunk: Chunk) -> Iterator[Document]:
        subject = position % SUBJECT_COUNT
        dated_at = self._now - timedelta(
            days=position // CHUNKS_PER_DAY % 1_000, seconds=position % 3_600
        )
        card = KnowledgeCard(chunk.content[:200], (chunk.content[:80], chunk.content[80:160]))
        chunk = replace(
            chunk, dated_at=dated_at, knowledge_card=card, cluster_id=(f"cluster-{subject}",)
        )
        state = self._build_state(chunk, f"{chunk.title} {chunk.content} {chunk.author}")
        self._knowledge.add_document(chunk.chunk_id, state)
        self._cluster_sizes[subject] += 1
        extractions = (
            [self._build_extraction(position, chunk)]
            if position % CHUNKS_PER_EXTRACTION == 0
            else []
        )
        for extraction in extractions:
            vector = self.texts.embed(extraction.content.text)
            path = f"{EXTRACTIONS}/{extraction.extraction_id}"
            facets = build_facets(extraction.type, extraction.topics, extraction.source_id)
            fields = to_fields(extraction, vector, SyntheticEmbedder.model)
            yield path, fields | {"facets": facets}
            group = {"visible": extraction.extraction_id, "joined": 0}
            yield f"{GROUPS}/{extraction.group}", group
            for topic in extraction.topics:
                self._topics[topic][extraction.type.value] += 1
        document = build_new_document(chunk, self._now) | {
            "dated_at": dated_at,
            "pending": {},
            "knowledge_card": {"summary": card.summary, "takeaways": list(card.takeaways)},
            "cluster_id": list(chunk.cluster_id),
            "indexed": state.to_document(),
            "facets": select_vector_index_facets(state.facets),
            "extracted": {item.extraction_id: item.group for item in extractions},
        }
        vector = self.texts.embed(chunk.embedding_text)
        document |= build_vector_fields(vector, SyntheticEmbedder.model)
        yield f"chunks/{chunk.chunk_id}", document
        self.chunk_ids.append(chunk.chunk_id)

    def _build_state(self, document: Chunk | Trace, text: str) -> IndexedState:
        """Return the state that `indexed_state` would compute."""
        facets = {facet.id: name for facet, name in document.facets.items()}
        dated_at = to_microseconds(document.dated_at) if document.dated_at else 0
        counts = self.texts.count_terms(text)
        length = counts.total()
        for _ in range(TITLE_WEIGHT - 1):
            counts += self.texts.count_terms(document.title)
        return IndexedState(dict(counts), facets, dated_at, length)

    def _build_extraction(self, position: int, chunk: Chunk) -> Extraction:
        words = chunk.content.split()
        topics = tuple(f"topic {topic}" for topic in (position % 40, position % 7))
        if position % 2:
            content: Pattern | Pitfall = Pattern(
                name=" ".join(words[:4]), problem=" ".join(words[:20]), solution=words[20]
            )
        else:
            content = Pitfall(title=" ".join(words[:4]), description=" ".join(words[:30]))
        extraction_id = compute_extraction_id(chunk.chunk_id, content)
        return Extraction(
            extraction_id=extraction_id,
            content=content,
            topics=tuple(dict.fromkeys(topics)),
            quote=" ".join(words[:30]),
            source_id=chunk.source_id,
            chunk_id=chunk.chunk_id,
            confidence=0.5 + position % 50 / 100,
            model="synthetic",
            extracted_at=self._now,
            group=extraction_id,
        )

    def _build_trace(self, number: int) -> Document:
        problem, solution = (
            self.texts.write_text(number % SUBJECT_COUNT, seed, WORDS_PER_CHUNK)
            for seed in (_TRACE_SEED + 2 * number, _TRACE_SEED + 2 * number + 1)
        )
        content = TraceContent(
            title=" ".join(problem.split()[:6]),
            context_text=problem,
            solution_text=solution,
            tags=(f"tag-{number % 50}", "all"),
        )
        trace = Trace(
            trace_id=f"trace-{number}",
            content=content,
            contributor="contributor",
            created_at=self._now,
            updated_at=self._now - timedelta(minutes=number),
        )
        state = self._build_state(trace, trace.indexed_text)
        self._traces.add_document(trace.trace_id, state)
        vector = self.texts.embed(content.embedding_text)
        entry = TraceIndexEntry(vector, SyntheticEmbedder.model, state)
        self._trace_count += 1
        return f"traces/{trace.trace_id}", TRACE.write(trace) | entry.to_fields(trace)

    def _build_derived(self) -> Iterator[Document]:
        """Yield the documents derived from all chunks: postings, totals, clusters and topics."""
        for names, rebuilt in ((KNOWLEDGE, self._knowledge), (TRACES, self._traces)):
            for ref in rebuilt.list_refs():
                yield "/".join(ref), rebuilt.build_fields(ref, None) or {}
            totals = {"documents": rebuilt.document_count, "length": rebuilt.total_length}
            yield "/".join(names.totals), totals | INDEX_VERSION
        for subject, size in self._cluster_sizes.items():
            cluster = self._build_cluster(subject, size)
            yield f"clusters/cluster-{subject}", cluster_repository.to_document(cluster)
        for topic, counts in self._topics.items():
            data = {"name": topic, "counts": dict(counts), "total": counts.total()}
            yield f"{TOPICS}/{safe_id(topic)}", data
        space = {"model": SyntheticEmbedder.model, "dimension": DIMENSION}
        yield "meta/embedding", space

    def _build_cluster(self, subject: int, size: int) -> ClusterWithCentroid:
        words = [
            self.texts.words[position] for position in self.texts.choose_typical_words(subject)[:8]
        ]
        cluster = Cluster(
            f"cluster-{subject}",
            " ".join(words[:3]),
            keywords=tuple(words),
            size=size,
            run_id="run",
            created_at=self._now,
        )
        return ClusterWithCentroid(cluster, self.texts.embed(" ".join(words)))

    async def _draw_map(self) -> None:
        """Store a map of all chunks, on which each cluster is a row."""
        maps = Maps(self._ctx.database)
        points = {
            chunk_id: MapPoint(
                number % 10_000, 100 * (number % SUBJECT_COUNT), number % SUBJECT_COUNT
            )
            for number, chunk_id in enumerate(self.chunk_ids)
        }
        clusters = [
            MapCluster(
                cluster_id=f"cluster-{subject}",
                name=self.texts.words[subject],
                size=size,
                x=5_000,
                y=100 * subject,
                radius=50,
                mean_x=0,
                mean_y=0,
                scale=1,
            )
            for subject, size in sorted(self._cluster_sizes.items())
        ]
        drawn = KnowledgeMap(
            version=1,
            page_count=math.ceil(len(points) / POINTS_PER_PAGE),
            run_id="run",
            model=SyntheticEmbedder.model,
            made_at=self._now,
            axes=bytes(8 * DIMENSION),
            clusters=tuple(clusters),
            drawn_count=len(points),
        )

        async def load_chunk_ids() -> set[str]:
            return set(points)

        await maps.replace(drawn, points, load_chunk_ids)

    async def _add_tasks(self, total: int) -> None:
        tasks = Tasks(self._ctx.database, READER)
        new_tasks = [
            Task(
                number=number,
                title=f"Read book {number}",
                description=None,
                priority=Priority.MEDIUM,
                due_date=None,
                created_at=self._now,
                updated_at=self._now,
            )
            for number in range(self._task_count + 1, total + 1)
        ]
        self._task_count = total
        await self._ctx.database.commit(
            tasks.build_creation_writes(await tasks.get_counter(), new_tasks)
        )
