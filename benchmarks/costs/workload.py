"""The workload of cost measurements: a base with tags and authors, a mix of calls, and a model.

SciFact lies beside the clone; it is no part of the project (see `benchmarks.dataset`). Its
abstracts are longer than most highlights: 1,000 characters of each are one passage.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.services.firestore.async_client import FirestoreAsyncClient

from benchmarks.jobs_dataset import ONE_IN, HashingEmbedder, abstracts
from infra.build.discovery import ROOT
from shared.ai.answer_schema import answer_schema
from shared.ai.generation import Generated
from shared.text.tokens import token_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from google.cloud.firestore import AsyncClient
    from pydantic import BaseModel

    from shared.ai.embedding import Purpose, Vector
    from shared.ai.generation import ModelT

    Scan = tuple[str, tuple[str, ...]]
    """A vector query: its collection, and its facets."""
    Figures = dict[str, float]
    """Measured values by name."""

ENTRIES_A_READ: Final = 100
"""Firestore bills one read for this many vector index entries."""
MATERIALS: Final = 20_000
"""The length of a text that is uploaded to a task."""
AUTHORS: Final = 20
TAGS: Final = {"odd": 2, "seventh": 7, "hundredth": 100}
_SAMPLE: Final = ROOT / "infra" / "local" / "sample"


class TokenCountingEmbedder(HashingEmbedder):
    """An embedder without cost that counts tokens."""

    def __init__(self) -> None:
        """Use one model name."""
        super().__init__("hashed")
        self.tokens = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the texts."""
        self.tokens += sum(map(token_count, texts))
        return await super().embed(texts, purpose)


class FakeGenerator:
    """A fake language model: cards from the sample, and a warning for every fifth passage."""

    model = "sample-writer"

    def __init__(self) -> None:
        """Read the sample."""
        cards = json.loads((_SAMPLE / "knowledge.json").read_text("utf-8"))["cards"]
        self._cards = cycle(cards)
        self._read = 0

    async def generate(
        self, instruction: str, text: str, schema: type[ModelT]
    ) -> Generated[ModelT]:
        """Answer, with token counts of input and output, including the schema."""
        answer = json.dumps(self._answer(text, schema))
        given = (instruction, text, json.dumps(answer_schema(schema)))
        value = schema.model_validate_json(answer)
        return Generated(value, sum(map(token_count, given)), token_count(answer))

    async def aclose(self) -> None:
        """Do nothing."""

    def _answer(self, text: str, schema: type[BaseModel]) -> dict[str, Any]:
        if schema.__name__ == "GeneratedCard":
            card = next(self._cards)
            return {"summary": card["summary"], "takeaways": card["takeaways"]}
        if schema.__name__ == "ClusterName":
            keywords = text.partition("\n")[0].partition(": ")[2].split(", ")
            name = " ".join(["About", *" ".join(keywords).split()][:4])
            return {"name": name, "description": f"About {name}.", "keywords": keywords[:8]}
        self._read += 1
        passage = text.partition("\n\n")[2]
        if self._read % ONE_IN or not passage:
            return {}
        content = {"title": passage[:60], "description": passage[:600]}
        topics = [word for word in passage.lower().split() if word.isalpha() and len(word) > 5][:2]
        extraction = {
            "quote": passage[:200],
            "content": content,
            "topics": topics,
            "confidence": 0.9,
        }
        return {"warnings": [extraction]}


def documents(number: int) -> Iterator[dict[str, Any]]:
    """Yield this many documents for the job `ingest`, with some ten facets each."""
    for place, row in enumerate(abstracts(number)):
        tags = [tag for tag, every in TAGS.items() if place % every == 0]
        author = f"Author {place % AUTHORS}"
        yield row | {"tags": ["science", *tags], "author": author, "category": "articles"}


@dataclass(frozen=True, slots=True)
class SourceGroups:
    """The ids that calls can use.

    Attributes:
        chunks: Ids.
        sources: Ids.
        clusters: Ids.
        traces: Ids.
        tasks: Ids of to-dos that are open.
        questions: None is asked twice.
        materials: Texts, each once.
        problems: Titles and texts of solved problems to share.
    """

    chunks: Sequence[str]
    sources: Sequence[str]
    clusters: Sequence[str]
    traces: Sequence[str]
    tasks: Sequence[str]
    questions: Iterator[str]
    materials: Sequence[str]
    problems: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class CallKind:
    """A kind of call in the usual mix.

    Attributes:
        name: The tool, and how it is called.
        tool: The tool's name.
        a_day: How many of a hundred calls are of this kind.
        arguments: Those of the nth call of this kind.
    """

    name: str
    tool: str
    a_day: int
    arguments: Callable[[SourceGroups, int], dict[str, Any]]


def _ask(more: dict[str, Any]) -> Callable[[SourceGroups, int], dict[str, Any]]:
    return lambda shelves, _: {"query": next(shelves.questions), **more}


def _nth(ids: Sequence[str], number: int) -> str:
    """Return the nth item, cyclically."""
    return ids[number % len(ids)]


def _none(_: SourceGroups, __: int) -> dict[str, Any]:
    return {}


def _shared(shelves: SourceGroups, number: int) -> dict[str, Any]:
    title, text = shelves.problems[number]
    return {"title": title, "context_text": text, "solution_text": text[::-1], "tags": ["science"]}


_TAG: Final = {"filters": {"tags": ["seventh"]}}
_AUTHOR: Final = {"filters": {"author": "Author 7"}}
MIX: Final = (
    CallKind("search_kb", "search_kb", 30, _ask({})),
    CallKind("search_kb, one tag", "search_kb", 10, _ask(_TAG)),
    CallKind("search_kb, one author", "search_kb", 5, _ask(_AUTHOR)),
    CallKind("get_chunk", "get_chunk", 15, lambda all_, n: {"chunk_id": _nth(all_.chunks, n)}),
    CallKind("get_source", "get_source", 4, lambda all_, n: {"source_id": _nth(all_.sources, n)}),
    CallKind("list_sources", "list_sources", 2, _none),
    CallKind("get_recent", "get_recent", 2, lambda _, __: {"period": "last_30_days"}),
    CallKind("list_clusters", "list_clusters", 2, _none),
    CallKind(
        "get_cluster", "get_cluster", 1, lambda all_, n: {"cluster_id": _nth(all_.clusters, n)}
    ),
    CallKind("get_stats", "get_stats", 2, _none),
    CallKind("get_warnings, by meaning", "get_warnings", 3, _ask({})),
    CallKind("list_topics", "list_topics", 1, _none),
    CallKind("search_traces", "search_traces", 6, _ask({})),
    CallKind("get_trace", "get_trace", 3, lambda all_, n: {"trace_id": _nth(all_.traces, n)}),
    CallKind("contribute_trace", "contribute_trace", 1, _shared),
    CallKind("vote_trace", "vote_trace", 1, lambda all_, n: _vote(_nth(all_.traces, n))),
    CallKind("list_tasks", "list_tasks", 5, _none),
    CallKind("add_task", "add_task", 2, lambda _, n: {"title": f"Read abstract {n}"}),
    CallKind("complete_task", "complete_task", 2, lambda all_, n: {"task_id": all_.tasks[n]}),
    CallKind(
        "extract_key_info, 20,000 characters",
        "extract_key_info",
        1,
        lambda all_, n: {"query": next(all_.questions), "materials": all_.materials[n]},
    ),
    CallKind(
        "extract_key_info, the same again",
        "extract_key_info",
        2,
        lambda all_, n: {"query": next(all_.questions), "materials": all_.materials[n]},
    ),
)
"""The usual mix of a hundred calls: mostly searches and reads, some writes. It is an estimate."""


def _vote(trace_id: str) -> dict[str, Any]:
    return {"trace_id": trace_id, "vote_type": "up"}


@contextmanager
def record_vector_queries() -> Iterator[list[Scan]]:
    """Record the vector queries of this process until the block ends."""
    queries: list[Scan] = []
    prepare = AsyncVectorQuery._prep_stream  # noqa: SLF001 - Google's; it makes each request

    @wraps(prepare)
    def prepared(*args: Any, **kwargs: Any) -> Any:
        made = prepare(*args, **kwargs)
        query = made[0]["structured_query"]
        value = query.where.field_filter.value
        several = [value.string_value for value in value.array_value.values]
        facets = tuple(filter(None, [*several, value.string_value]))
        queries.append((f"{made[0]['parent']}/{query.from_[0].collection_id}", facets))
        return made

    AsyncVectorQuery._prep_stream = prepared  # type: ignore[method-assign]  # noqa: SLF001 - see above
    try:
        yield queries
    finally:
        AsyncVectorQuery._prep_stream = prepare  # type: ignore[method-assign]  # noqa: SLF001


class IndexEntries:
    """Counts the vector index entries that queries scan, and the billed reads.

    A flat index is read whole, as far as the filter before the vector leaves it: for each facet
    that is asked for, the entries that it begins.
    """

    def __init__(self, client: AsyncClient) -> None:
        """Count in this database."""
        self._client = client
        self._known: dict[tuple[str, str], int] = {}

    async def billed(self, queries: Sequence[Scan]) -> int:
        """Return the reads that are billed for these queries."""
        entries = [await self._of(*query) for query in queries]
        return sum(math.ceil(entry / ENTRIES_A_READ) for entry in entries)

    async def _of(self, path: str, facets: Sequence[str]) -> int:
        collection = path.partition("/documents/")[2]
        counts = [await self._count(collection, facet) for facet in facets or ("",)]
        return sum(counts)

    async def _count(self, collection: str, facet: str) -> int:
        if (collection, facet) not in self._known:
            query: Any = self._client.collection(collection)
            if facet:
                query = query.where(filter=FieldFilter("facets", "array_contains", facet))
            [[result]] = await query.count().get()
            self._known[collection, facet] = int(result.value)
        return self._known[collection, facet]


@contextmanager
def count_operations(database: str) -> Iterator[Counter[str]]:
    """Count the documents of a database that this process reads by name and writes in the block."""
    counts: Counter[str] = Counter()
    methods = {"batch_get_documents": ("documents", "read"), "commit": ("writes", "written")}
    before = {name: getattr(FirestoreAsyncClient, name) for name in methods}

    def counted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        field, kind = methods[name]

        @wraps(method)
        def count(self: Any, request: Any = None, **kwargs: Any) -> Any:
            if request["database"].endswith(f"/databases/{database}"):
                counts[kind] += len(request[field])
            return method(self, request=request, **kwargs)

        return count

    for name, method in before.items():
        setattr(FirestoreAsyncClient, name, counted(name, method))
    try:
        yield counts
    finally:
        for name, method in before.items():
            setattr(FirestoreAsyncClient, name, method)
