"""The workload of cost measurements: documents, the usual mix of calls, and fake models.

The documents are abstracts of SciFact, which is not part of the project (see `benchmarks.scifact`).
Abstracts are longer than most highlights, so each is cut to a passage of 1,000 characters.
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

from benchmarks.jobs_dataset import PASSAGES_PER_EXTRACTION, HashingEmbedder, read_abstracts
from infra.build.discovery import ROOT
from shared.ai.answer_schema import build_answer_schema
from shared.ai.generation import Generated
from shared.text.tokens import count_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from google.cloud.firestore import AsyncClient
    from pydantic import BaseModel

    from shared.ai.embedding import Purpose, Vector
    from shared.ai.generation import ModelT

    Scan = tuple[str, tuple[str, ...]]
    """The part of a vector index that a query scans: a collection, and the facets it filters by."""
    Figures = dict[str, float]
    """The measured values by name."""

ENTRIES_PER_READ: Final = 100
"""The number of vector index entries that Firestore bills as one read."""
MATERIALS_CHARACTERS: Final = 20_000
"""The length of a text for `extract_key_info`."""
AUTHOR_COUNT: Final = 20
TAG_INTERVALS: Final = {"odd": 2, "seventh": 7, "hundredth": 100}
"""Each tag, and its interval: every second document has the tag `odd`."""
_SAMPLE: Final = ROOT / "infra" / "local" / "sample"


class TokenCountingEmbedder(HashingEmbedder):
    """An embedder that hashes words and counts tokens."""

    def __init__(self) -> None:
        """Start at no tokens."""
        super().__init__("hashed")
        self.tokens = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Hash the texts, and count their tokens."""
        self.tokens += sum(map(count_tokens, texts))
        return await super().embed(texts, purpose)


class FakeGenerator:
    """A fake language model: cards from the sample, and a warning for every fifth passage."""

    model = "sample-writer"

    def __init__(self) -> None:
        """Read the cards of the sample."""
        cards = json.loads((_SAMPLE / "knowledge.json").read_text("utf-8"))["cards"]
        self._cards = cycle(cards)
        self._passages_read = 0

    async def generate(
        self, instruction: str, text: str, schema: type[ModelT]
    ) -> Generated[ModelT]:
        """Return an answer with its token counts; the schema counts as input."""
        answer = json.dumps(self._answer(text, schema))
        prompt_parts = (instruction, text, json.dumps(build_answer_schema(schema)))
        value = schema.model_validate_json(answer)
        return Generated(value, sum(map(count_tokens, prompt_parts)), count_tokens(answer))

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
        self._passages_read += 1
        passage = text.partition("\n\n")[2]
        if self._passages_read % PASSAGES_PER_EXTRACTION or not passage:
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


def make_documents(number: int) -> Iterator[dict[str, Any]]:
    """Yield this many documents for the job `ingest`, with about ten facets each."""
    for position, row in enumerate(read_abstracts(number)):
        tags = [tag for tag, interval in TAG_INTERVALS.items() if position % interval == 0]
        author = f"Author {position % AUTHOR_COUNT}"
        yield row | {"tags": ["science", *tags], "author": author, "category": "articles"}


@dataclass(frozen=True, slots=True)
class WorkloadInputs:
    """The ids and texts that calls use as arguments.

    Attributes:
        chunks: Ids of chunks.
        sources: Ids of sources.
        clusters: Ids of clusters.
        traces: Ids of traces.
        tasks: Ids of open tasks.
        questions: Queries, all different.
        materials: Texts for `extract_key_info`, all different.
        problems: Titles and texts of traces to contribute.
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
        per_day: How many of a hundred calls are of this kind.
        arguments: A function that makes the arguments of the nth call of this kind.
    """

    name: str
    tool: str
    per_day: int
    arguments: Callable[[WorkloadInputs, int], dict[str, Any]]


def _make_search_arguments(
    arguments: dict[str, Any],
) -> Callable[[WorkloadInputs, int], dict[str, Any]]:
    return lambda inputs, _: {"query": next(inputs.questions), **arguments}


def _pick_nth(ids: Sequence[str], number: int) -> str:
    """Return the nth item, cyclically."""
    return ids[number % len(ids)]


def _make_no_arguments(_: WorkloadInputs, __: int) -> dict[str, Any]:
    return {}


def _make_trace_arguments(inputs: WorkloadInputs, number: int) -> dict[str, Any]:
    title, text = inputs.problems[number]
    return {"title": title, "context_text": text, "solution_text": text[::-1], "tags": ["science"]}


_TAG: Final = {"filters": {"tags": ["seventh"]}}
_AUTHOR: Final = {"filters": {"author": "Author 7"}}
MIX: Final = (
    CallKind("search_kb", "search_kb", 30, _make_search_arguments({})),
    CallKind("search_kb, one tag", "search_kb", 10, _make_search_arguments(_TAG)),
    CallKind("search_kb, one author", "search_kb", 5, _make_search_arguments(_AUTHOR)),
    CallKind(
        "get_chunk", "get_chunk", 15, lambda inputs, n: {"chunk_id": _pick_nth(inputs.chunks, n)}
    ),
    CallKind(
        "get_source", "get_source", 4, lambda inputs, n: {"source_id": _pick_nth(inputs.sources, n)}
    ),
    CallKind("list_sources", "list_sources", 2, _make_no_arguments),
    CallKind("get_recent", "get_recent", 2, lambda _, __: {"period": "last_30_days"}),
    CallKind("list_clusters", "list_clusters", 2, _make_no_arguments),
    CallKind(
        "get_cluster",
        "get_cluster",
        1,
        lambda inputs, n: {"cluster_id": _pick_nth(inputs.clusters, n)},
    ),
    CallKind("get_stats", "get_stats", 2, _make_no_arguments),
    CallKind("get_warnings, by meaning", "get_warnings", 3, _make_search_arguments({})),
    CallKind("list_topics", "list_topics", 1, _make_no_arguments),
    CallKind("search_traces", "search_traces", 6, _make_search_arguments({})),
    CallKind(
        "get_trace", "get_trace", 3, lambda inputs, n: {"trace_id": _pick_nth(inputs.traces, n)}
    ),
    CallKind("contribute_trace", "contribute_trace", 1, _make_trace_arguments),
    CallKind(
        "vote_trace",
        "vote_trace",
        1,
        lambda inputs, n: _make_vote_arguments(_pick_nth(inputs.traces, n)),
    ),
    CallKind("list_tasks", "list_tasks", 5, _make_no_arguments),
    CallKind("add_task", "add_task", 2, lambda _, n: {"title": f"Read abstract {n}"}),
    CallKind("complete_task", "complete_task", 2, lambda inputs, n: {"task_id": inputs.tasks[n]}),
    CallKind(
        "extract_key_info, 20,000 characters",
        "extract_key_info",
        1,
        lambda inputs, n: {"query": next(inputs.questions), "materials": inputs.materials[n]},
    ),
    CallKind(
        "extract_key_info, the same again",
        "extract_key_info",
        2,
        lambda inputs, n: {"query": next(inputs.questions), "materials": inputs.materials[n]},
    ),
)
"""An estimate of a hundred usual calls: mostly searches and reads, some writes."""


def _make_vote_arguments(trace_id: str) -> dict[str, Any]:
    return {"trace_id": trace_id, "vote_type": "up"}


@contextmanager
def record_vector_queries() -> Iterator[list[Scan]]:
    """Record the vector queries that this process sends until the block ends."""
    queries: list[Scan] = []
    original = AsyncVectorQuery._prep_stream  # noqa: SLF001 - Google's method that prepares each request

    @wraps(original)
    def recording_prep_stream(*args: Any, **kwargs: Any) -> Any:
        prepared = original(*args, **kwargs)
        query = prepared[0]["structured_query"]
        value = query.where.field_filter.value
        values = [value.string_value for value in value.array_value.values]
        facets = tuple(filter(None, [*values, value.string_value]))
        queries.append((f"{prepared[0]['parent']}/{query.from_[0].collection_id}", facets))
        return prepared

    AsyncVectorQuery._prep_stream = recording_prep_stream  # type: ignore[method-assign]  # noqa: SLF001 - see above
    try:
        yield queries
    finally:
        AsyncVectorQuery._prep_stream = original  # type: ignore[method-assign]  # noqa: SLF001 - see above


class IndexEntries:
    """The reads that Firestore bills for vector index entries.

    A vector query scans all entries of a flat index that have one of the filter's facets.
    """

    def __init__(self, client: AsyncClient) -> None:
        """Count the entries in this database."""
        self._client = client
        self._counts: dict[tuple[str, str], int] = {}

    async def count_billed_reads(self, queries: Sequence[Scan]) -> int:
        """Return the reads that Firestore bills for these queries."""
        counts = [await self._count_entries(*query) for query in queries]
        return sum(math.ceil(count / ENTRIES_PER_READ) for count in counts)

    async def _count_entries(self, path: str, facets: Sequence[str]) -> int:
        collection = path.partition("/documents/")[2]
        counts = [await self._count(collection, facet) for facet in facets or ("",)]
        return sum(counts)

    async def _count(self, collection: str, facet: str) -> int:
        if (collection, facet) not in self._counts:
            query: Any = self._client.collection(collection)
            if facet:
                query = query.where(filter=FieldFilter("facets", "array_contains", facet))
            [[result]] = await query.count().get()
            self._counts[collection, facet] = int(result.value)
        return self._counts[collection, facet]


@contextmanager
def count_operations(database: str) -> Iterator[Counter[str]]:
    """Count the documents that this process reads by name and writes, until the block ends."""
    counts: Counter[str] = Counter()
    methods = {"batch_get_documents": ("documents", "read"), "commit": ("writes", "written")}
    originals = {name: getattr(FirestoreAsyncClient, name) for name in methods}

    def count_calls_of(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        field, kind = methods[name]

        @wraps(method)
        def counting_method(self: Any, request: Any = None, **kwargs: Any) -> Any:
            if request["database"].endswith(f"/databases/{database}"):
                counts[kind] += len(request[field])
            return method(self, request=request, **kwargs)

        return counting_method

    for name, method in originals.items():
        setattr(FirestoreAsyncClient, name, count_calls_of(name, method))
    try:
        yield counts
    finally:
        for name, method in originals.items():
            setattr(FirestoreAsyncClient, name, method)
