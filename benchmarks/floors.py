"""The floor of each tool that reads: the fewest Firestore requests that give a correct answer.

They are sent with Google's client alone. Their ids, facets and limits are determined before the
clock starts. So no time is spent on computing them, or on making a result of the answers.

If filters leave few documents, the floor reads them by id and compares their vectors here.
Otherwise, it searches for just enough nearest documents that `DENSE_POOL` of them pass.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial
from operator import mul
from typing import TYPE_CHECKING, Any, Generic

from google.cloud.firestore_v1.async_aggregation import AsyncAggregationQuery
from google.cloud.firestore_v1.base_query import FieldFilter

from benchmarks.synthetic import READER
from functions.tools.knowledge.search_kb.filters import Filters, to_selection
from shared.core.dates import ALL_DATES, Period, resolve_period
from shared.extractions import repository as extractions
from shared.extractions.model import ExtractionType, build_facet
from shared.extractions.topics import most_frequent_query
from shared.index import bm25
from shared.index.facets import Facet, Kind
from shared.index.postings import KNOWLEDGE, TRACES, commonest_query, prefix_query
from shared.index.searchable import DocumentT
from shared.index.stored_vector import COMPACT, from_compact
from shared.index.vector_index import dated_query, nearest_query, newest_query
from shared.knowledge import chunk_repository
from shared.knowledge import cluster_repository as clusters
from shared.knowledge import source_repository as sources
from shared.knowledge.chunk_repository import COLLECTION as CHUNKS
from shared.knowledge.chunk_repository import READ_FIELDS as CHUNK_FIELDS
from shared.knowledge.chunk_repository import STEPS
from shared.knowledge.corpus import get_knowledge_corpus
from shared.knowledge.map_repository import pages_query
from shared.knowledge.queue import dead_letter_query, pending_query
from shared.knowledge.source_repository import SourceOrder
from shared.links import repository as links
from shared.search.candidates import DENSE_POOL, LEXICAL_POOL, MAX_CHECKED
from shared.search.filter_plan import Selection, plan_filters
from shared.tasks.model import TaskStatus
from shared.tasks.repository import TaskFilter, page_query
from shared.text.terms import terms
from shared.traces import repository as traces
from shared.traces.corpus import make_trace_corpus
from shared.traces.repository import READ_FIELDS as TRACE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot
    from google.cloud.firestore_v1.async_vector_query import AsyncVectorQuery

    from benchmarks.synthetic import SyntheticTexts
    from shared.ai.embedding import Vector
    from shared.index.postings import IndexCollections
    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context
    from shared.search.corpus import DatedCorpus

    Floor = Callable[[], Awaitable[object]]
    """A function that sends the requests of one call."""
    Query = AsyncQuery | AsyncVectorQuery | AsyncAggregationQuery


@dataclass(frozen=True, slots=True)
class BareSearch:
    """What the requests of one search depend on.

    Attributes:
        vector: The vector of the question.
        postings: The postings to read: of terms and of filters.
        passing: The ids of all documents that pass the filters, if reading these is cheapest.
        facets: The facets that the vector search filters by.
        limit: The number of nearest documents of which DENSE_POOL pass the filters.
        lexical: The ids of the documents with the best BM25 scores.
    """

    vector: Vector
    postings: list[tuple[str, str]]
    passing: list[str]
    facets: tuple[str, ...]
    limit: int
    lexical: list[str]


class BareSearches(Generic[DocumentT]):
    """Issues the requests of searches of a corpus."""

    def __init__(
        self,
        client: AsyncClient,
        corpus: DatedCorpus[DocumentT],
        collection: str,
        fields: Sequence[str],
        names: IndexCollections,
    ) -> None:
        """Search the documents of a collection."""
        self._client = client
        self._corpus = corpus
        self._collection = client.collection(collection)
        self._fields = fields
        self._names = names

    async def prepare(self, question: str, vector: Vector, selection: Selection) -> BareSearch:
        """Determine what the requests of a search depend on, before its time is measured."""
        query_terms = terms(question)
        read = await self._corpus.index.read(query_terms, selection.facets)
        plan = plan_filters(selection, read.facets)
        scores = bm25.score(query_terms, read.terms, read.totals)
        passing = {
            name: score
            for name, score in scores.items()
            if plan.dates is None or name in plan.dates
        }
        best = sorted(passing, key=lambda name: (-passing[name], name))[:LEXICAL_POOL]
        postings = [(self._names.lexicon, term) for term in dict.fromkeys(query_terms)]
        postings += [(self._names.facets, facet.id) for facet in selection.facets]
        facets = plan.prefilter.facets
        nearest = await self._corpus.documents.find_nearest(vector, MAX_CHECKED, facets)
        ranks = [rank for rank, hit in enumerate(nearest, 1) if selection.admits(hit.document)]
        limit = ranks[DENSE_POOL - 1] if len(ranks) >= DENSE_POOL else len(nearest)
        return BareSearch(
            vector=vector,
            postings=[*postings, self._names.totals],
            passing=plan.ids if plan.is_exact and len(plan.ids) <= limit else [],
            facets=facets,
            limit=limit,
            lexical=best,
        )

    async def find_nearest(self, search: BareSearch) -> list[str]:
        """Find the nearest documents."""
        query = nearest_query(
            self._collection, self._fields, search.vector, search.limit, search.facets
        )
        return [snapshot.id async for snapshot in query.stream()]

    async def search_by_both(self, search: BareSearch) -> None:
        """Read postings and the nearest documents concurrently, then the documents that words find.

        If few documents pass the filters, these are read instead, once the postings are known.
        """
        references = [self._client.document(*name) for name in search.postings]
        if search.passing:
            await get_all(self._client, references)
            await self._compare(search, search.passing)
        else:
            _, nearest = await asyncio.gather(
                get_all(self._client, references), self.find_nearest(search)
            )
            await self._compare(search, [name for name in search.lexical if name not in nearest])

    async def search_by_words(self, search: BareSearch) -> None:
        """Read postings, then the first ten documents."""
        references = [self._client.document(*name) for name in search.postings]
        await get_all(self._client, references)
        await get_all(
            self._client,
            [self._collection.document(name) for name in search.lexical[:10]],
            self._fields,
        )

    async def _compare(self, search: BareSearch, ids: Sequence[str]) -> None:
        """Read documents, and compute the similarities of their compact vectors."""
        references = [self._collection.document(name) for name in ids]
        for snapshot in await get_all(self._client, references, [*self._fields, COMPACT]):
            sum(map(mul, search.vector, from_compact(snapshot.get(COMPACT))))


def make_knowledge_searches(ctx: Context) -> BareSearches[Chunk]:
    """Return the searches of the knowledge base."""
    client, corpus = ctx.database.client, get_knowledge_corpus(ctx.database)
    return BareSearches(client, corpus, CHUNKS, CHUNK_FIELDS, KNOWLEDGE)


class Floors:
    """The floors of the calls that the benchmark of growth makes."""

    def __init__(self, ctx: Context, texts: SyntheticTexts) -> None:
        """Read the base of these texts."""
        self._ctx = ctx
        self._texts = texts
        self._client = client = ctx.database.client
        self._knowledge = make_knowledge_searches(ctx)
        self._traces = BareSearches(
            client, make_trace_corpus(ctx.database), "traces", TRACE_FIELDS, TRACES
        )

    async def prepare(self, tool: str, arguments: dict[str, Any]) -> Floor:  # noqa: C901, PLR0911 - one case for each tool
        """Determine what the requests of a call depend on, and return its floor."""
        match tool:
            case "search_kb":
                return await self._search_kb(arguments)
            case "get_chunk":
                return partial(self._get_chunk, arguments["chunk_id"])
            case "get_source":
                return partial(self._get_source, arguments["source_id"])
            case "get_map":
                return await self._get_map()
            case "get_cluster":
                return partial(self._get_cluster, arguments["cluster_id"])
            case "get_recent":
                return await self._get_recent(Period(arguments.get("period", "last_7_days")))
            case "get_patterns":
                query = extractions.page_query(
                    self._client, build_facet(ExtractionType.PATTERN), 26, None
                )
                return partial(self._load_with_sources, query)
            case "get_warnings":
                vector = self._get_vector(arguments)
                neighbours = extractions.nearest_query(
                    self._client, build_facet(ExtractionType.WARNING), vector, 25
                )
                return partial(self._load_with_sources, neighbours)
            case "search_traces":
                question, vector = arguments["query"], self._get_vector(arguments)
                return partial(
                    self._traces.search_by_both,
                    await self._traces.prepare(question, vector, Selection()),
                )
            case "get_trace":
                return partial(self._get_trace, arguments["trace_id"])
            case _:
                return partial(self._run_all, lambda: self._list_queries(tool))

    def _list_queries(self, tool: str) -> list[Query]:
        """Return the queries of a tool that needs only queries."""
        client = self._client
        facets, tags = client.collection(KNOWLEDGE.facets), client.collection(TRACES.facets)
        steps = [pending_query(client, step) for step in STEPS]
        steps += [dead_letter_query(client, step) for step in STEPS]
        types = [extractions.visible_query(client, kind) for kind in ExtractionType]
        counts = [*steps, *types, clusters.clusters_query(client)]
        kinds = {Kind.TAG: 10, Kind.AUTHOR: 10, Kind.CATEGORY: 20}
        tasks = TaskFilter((TaskStatus.OPEN,))
        queries: dict[str, list[Query]] = {
            "list_sources": [sources.list_query(client, SourceOrder.RECENT, 21, None, None)],
            "list_clusters": [clusters.largest_query(client, 21, None)],
            "list_topics": [most_frequent_query(client, 101, None, None)],
            "list_tags": [
                prefix_query(tags, Kind.TAG, "", 101),
                make_count_query(commonest_query(tags, Kind.TAG)),
            ],
            "list_tasks": [page_query(client, f"users/{READER}/tasks", tasks, 26, None)],
            "get_stats": [
                *(
                    commonest_query(facets, kind).select(["name", "df"]).limit(limit)
                    for kind, limit in kinds.items()
                ),
                *map(make_count_query, counts),
                newest_query(client.collection(CHUNKS), 1, (), ALL_DATES, None).select(
                    ["dated_at"]
                ),
                facets.where(filter=FieldFilter("kind", "in", ["card", "position"])).select(["df"]),
            ],
        }
        return queries[tool]

    async def _search_kb(self, arguments: dict[str, Any]) -> Floor:
        filters = Filters.model_validate(arguments.get("filters", {}))
        selection = to_selection(filters, self._ctx.clock(), cards_only=False)
        if "query" not in arguments:
            [facet] = selection.facets
            query = newest_query(self._client.collection(CHUNKS), 11, [facet.id], ALL_DATES, None)
            return partial(self._run_all, lambda: [query.select(CHUNK_FIELDS)])
        vector = self._get_vector(arguments)
        search = await self._knowledge.prepare(arguments["query"], vector, selection)
        by_mode = {
            "semantic": self._knowledge.find_nearest,
            "lexical": self._knowledge.search_by_words,
        }
        return partial(
            by_mode.get(arguments.get("mode", ""), self._knowledge.search_by_both), search
        )

    async def _get_chunk(self, chunk_id: str) -> None:
        chunks = self._client.collection(CHUNKS)
        chunk = await chunks.document(chunk_id).get([*CHUNK_FIELDS, COMPACT])
        vector = from_compact(chunk.get(COMPACT))
        [cluster_id] = chunk.get("cluster_id")
        await asyncio.gather(
            _run(nearest_query(chunks, CHUNK_FIELDS, vector, 6)),
            self._client.document("clusters", cluster_id).get(["name"]),
        )

    async def _get_source(self, source_id: str) -> None:
        query = chunk_repository.of_source_query(self._client, source_id, 21, 1)
        await asyncio.gather(
            self._client.document("sources", source_id).get(), _run(query.select(CHUNK_FIELDS))
        )

    async def _get_map(self) -> Floor:
        """Read what describes the map, and its pages."""
        pages = [page.reference for page in await _run(pages_query(self._client))]
        return partial(get_all, self._client, [self._client.document("meta", "map"), *pages])

    async def _get_cluster(self, cluster_id: str) -> None:
        chunks, facets = self._client.collection(CHUNKS), [Facet(Kind.CLUSTER, cluster_id).id]
        members = newest_query(chunks, 21, facets, ALL_DATES, None).select(CHUNK_FIELDS)
        cluster, _ = await asyncio.gather(
            self._client.document("clusters", cluster_id).get(), _run(members)
        )
        await _run(clusters.nearest_query(self._client, cluster.get("centroid"), 6))

    async def _get_recent(self, period: Period) -> Floor:
        """Read the newest passages, the postings of months, and the busiest sources."""
        span = resolve_period(period, self._ctx.clock())
        query = newest_query(self._client.collection(CHUNKS), 11, (), span, None)
        months = [self._client.document("facets", f"month:{name}") for name in span.months]
        chunks = await _run(dated_query(self._client.collection(CHUNKS), span))
        counts = Counter(chunk.get("source_id") for chunk in chunks)
        busiest = [self._client.document("sources", name) for name, _ in counts.most_common(20)]

        async def floor() -> None:
            await asyncio.gather(
                _run(query.select(CHUNK_FIELDS)),
                _run(make_count_query(pending_query(self._client, "index"))),
                get_all(self._client, months),
                _run(links.newest_query(self._client, 5)),
            )
            await get_all(self._client, busiest)

        return floor

    async def _load_with_sources(self, query: Query) -> None:
        names = {snapshot.get("source_id") for snapshot in await _run(query)}
        await get_all(self._client, [self._client.document("sources", name) for name in names])

    async def _get_trace(self, trace_id: str) -> None:
        trace = self._client.document("traces", trace_id)
        await asyncio.gather(
            trace.get(TRACE_FIELDS),
            trace.collection("votes").document(READER).get(),
            _run(traces.feedback_query(self._client, trace_id, 5)),
        )

    async def _run_all(self, queries: Callable[[], list[Query]]) -> None:
        await asyncio.gather(*map(_run, queries()))

    def _get_vector(self, arguments: dict[str, Any]) -> Vector:
        return self._texts.embed(arguments["query"])


def make_count_query(query: AsyncQuery) -> AsyncAggregationQuery:
    """Return the query that counts the results of another."""
    counting: AsyncAggregationQuery = AsyncAggregationQuery(query).count()
    return counting


async def get_all(
    client: AsyncClient, references: Sequence[Any], fields: Sequence[str] | None = None
) -> list[DocumentSnapshot[Any]]:
    """Read documents."""
    if not references:
        return []
    return [snapshot async for snapshot in client.get_all(list(references), fields)]


async def _run(query: Query) -> list[Any]:
    return [result async for result in query.stream()]
