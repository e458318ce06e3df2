"""Hybrid search: ranks the documents that answer a query.

A semantic search finds the documents whose vectors are nearest to the query's vector. A lexical
search scores documents by BM25 from the postings of the query's terms. Hybrid search does both and
fuses the two scores.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from shared.ai.embedding import Purpose
from shared.core.errors import PlatformFault, RateLimited, Unavailable
from shared.core.log import error_fields, log
from shared.index.bm25 import score
from shared.index.embedding_space import (
    EmbeddedLanguages,
    EmbeddingSpace,
    ReembeddingInProgress,
)
from shared.index.postings import NO_POSTINGS
from shared.index.query_purpose import choose_query_purpose
from shared.index.searchable import DocumentT
from shared.search.candidates import (
    DENSE_POOL,
    MAX_CHECKED,
    MAX_CHECKED_ANONYMOUS,
    CandidateSearch,
)
from shared.search.filter_plan import find_unknown_values, plan_filters
from shared.search.fusion import Scores, fuse
from shared.search.lifts import find_lifts, plan_lifts
from shared.search.phrases import score_pairs
from shared.search.query import Degradation, Mode, Ranking
from shared.search.relevance import (
    Evidence,
    compute_coverage,
    compute_information,
    find_answer_threshold,
    get_tuning,
    measure_evidence,
)
from shared.text.terms import find_occurrences, find_variants, terms

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractContextManager

    from shared.ai.vector_halves import WeightedVector
    from shared.index.postings import SearchPostings
    from shared.index.vector_index import Neighbour
    from shared.runtime.context import Context
    from shared.search.corpus import Corpus
    from shared.search.query import Candidate, SearchQuery
    from shared.search.relevance import Tuning

HalfT = TypeVar("HalfT")
"""The result of one half of a search."""

MAX_TERMS: Final = 48
"""The maximum number of different terms of a query. Each costs one read, of its postings."""


async def rank(query: SearchQuery, corpus: Corpus[DocumentT], ctx: Context) -> Ranking[DocumentT]:
    """Find and rank documents.

    Costs two round trips, or up to four if too few of the nearest documents pass the filters, and
    another for a phrase in quotation marks in a search by words alone. A hybrid search waits at
    most half of the remaining time for its semantic or its lexical half, and then continues with
    the other half alone. With filters, it always waits for the postings.

    Raises:
        Unavailable: The search is only semantic, and the embedding provider is down or the base is
            being embedded again.
        RateLimited, PlatformFault: The search is only semantic, and the embedding provider refuses.
        Conflict: The database is embedded with another model.
    """
    words = terms(query.words)
    query_terms = _limit_terms([*words, *find_variants(query.words)])
    lexical_terms = query_terms if query.is_lexical else []
    seconds = _get_time_limit(query, ctx)

    # First round trip: read the postings while the query is embedded. Without filters, also find
    # the documents nearest to the query's vector.
    postings, query_vector = await asyncio.gather(
        _await_in_time(_read_postings(lexical_terms, query, corpus, ctx), seconds),
        _await_in_time(_embed_query(query, lexical_terms, corpus, ctx), seconds),
    )
    query_vector = query_vector or QueryVector(degradation=Degradation.SEMANTIC_TIMED_OUT)
    degradation = query_vector.degradation
    if postings is None and query_vector.nearest:
        lexical_terms, postings = [], NO_POSTINGS
        degradation = Degradation.LEXICAL_TIMED_OUT
    elif postings is None:
        # There are no neighbours to rank instead, so the search has to wait for the postings.
        postings = await _read_postings(lexical_terms, query, corpus, ctx)
    # A word counts even if no document has it, but another way to write it does not.
    lexical_terms = [term for term in lexical_terms if term in words or term in postings.terms]
    plan = plan_filters(query.selection, postings.facets)
    with _time_bm25(lexical_terms, ctx):
        scores = score(lexical_terms, postings.terms, postings.totals)
        if plan.dates is not None:
            scores = {name: scores[name] for name in scores.keys() & plan.dates}
        elif plan.excluded_ids:
            scores = {name: scores[name] for name in scores.keys() - plan.excluded_ids}
    lift_plan = plan_lifts(query, postings, scores)
    with_all_words = _find_all(words, postings, scores)
    max_checked = MAX_CHECKED if ctx.caller.user_id else MAX_CHECKED_ANONYMOUS
    search = CandidateSearch(
        query.selection,
        plan,
        lexical_terms,
        postings,
        scores,
        corpus.documents,
        max_checked,
        lift_plan,
        with_all_words if query.mode is Mode.LEXICAL else frozenset(),
    )

    # Second round trip: fetch the candidates.
    fetched = await _fetch_candidates(search, query_vector, _get_time_limit(query, ctx))
    if fetched.timeout is Degradation.SEMANTIC_TIMED_OUT or degradation is None:
        degradation = fetched.timeout

    candidates = fetched.candidates
    if lift_plan.reads_hits:
        candidates = await _read_lexical_pool(candidates, search, corpus)
    lifts = find_lifts(query, lift_plan.phrases, candidates)
    subject_terms = {*terms(lifts.subject), *find_variants(lifts.subject)}
    information = compute_information(
        [term for term in lexical_terms if term in subject_terms], postings.terms, postings.totals
    )
    coverages = [
        compute_coverage(information, hit.terms) if lexical_terms else None for hit in candidates
    ]
    query_tuning = _tune(query, query_vector.purpose, ctx)
    calibration, can_read = query_tuning.calibration, query_tuning.can_read(query.text)
    subject_words = set(terms(lifts.subject))
    candidates = [
        replace(
            hit,
            has_all_words=bool(subject_words) and subject_words <= hit.terms,
            evidence=measure_evidence(
                Evidence(hit.similarity if can_read else None, coverage, hit.document),
                calibration,
                postings.totals.documents,
            ),
        )
        for hit, coverage in zip(candidates, coverages, strict=True)
    ]
    if query.dense_weight is None:
        query_tuning = query_tuning.trust_words(max(filter(None, coverages), default=0.0))
        if query.mode is Mode.HYBRID:
            candidates = _add_pairs(candidates, query.words)
    is_lexical_only = degradation is not None and degradation.is_lexical_only
    hits, absent_phrases = lifts.apply(
        _score_and_sort(candidates, Mode.LEXICAL if is_lexical_only else query.mode, query_tuning)
    )
    # Without a subject, nothing but what is lifted can answer.
    is_lift_alone = not lifts.subject and any(hit.is_lifted for hit in hits)
    threshold = math.inf if is_lift_alone else find_answer_threshold(hit.evidence for hit in hits)
    hits = tuple(
        replace(
            hit,
            answers=hit.has_all_words or hit.is_lifted or hit.evidence >= threshold,
        )
        for hit in hits
    )
    return Ranking(
        terms=frozenset(query_terms),
        documents=postings.totals.documents,
        unknown=tuple(find_unknown_values(query.selection, postings)),
        degradation=degradation,
        hits=hits,
        matches=any(lifts.authors.values())
        or len(absent_phrases) < len(lifts.phrases)
        or any(hit.evidence >= 0 for hit in candidates),
        truncated=fetched.truncated,
        is_exact=plan.is_exact,
        absent_phrases=absent_phrases,
        word_counts={
            lifts.subject[start:end]: postings.terms[term].df if term in postings.terms else 0
            for term, start, end in find_occurrences(lifts.subject)
            if term in lexical_terms
        },
        all_words_count=len(with_all_words) if plan.is_exact else None,
        is_semantic=query_vector.values is not None,
        is_multilingual=query_vector.purpose is not Purpose.ENGLISH_QUERY,
        authors=tuple(sorted(lifts.authors)),
        has_period=lifts.period is not None,
        hidden_count=postings.hidden_count,
    )


def _find_all(
    words: Iterable[str], postings: SearchPostings, scores: Mapping[str, float]
) -> AbstractSet[str]:
    """Return the ids of the scored documents that have all words, as far as postings show."""
    entries = [
        postings.terms[word].entries.keys() if word in postings.terms else frozenset[str]()
        for word in set(words)
    ]
    return scores.keys() & set.intersection(*map(set, entries)) if entries else frozenset()


async def _read_lexical_pool(
    candidates: Sequence[Candidate[DocumentT]],
    search: CandidateSearch[DocumentT],
    corpus: Corpus[DocumentT],
) -> list[Candidate[DocumentT]]:
    """Read the documents of the best lexical hits that have not been read yet.

    Costs one round trip, or none if all have been read.
    """
    read_ids = {hit.id for hit in candidates if hit.document}
    unread_ids = [name for name in search.pick_lexical_pool() if name not in read_ids]
    documents = {
        document.id: document
        for document in await corpus.documents.get_all(unread_ids)
        if search.selection.admits(document)
    }
    return [replace(hit, document=documents.get(hit.id, hit.document)) for hit in candidates]


def _add_pairs(
    candidates: Sequence[Candidate[DocumentT]], question: str
) -> list[Candidate[DocumentT]]:
    """Add the score of neighbouring words to the candidates that have words of the question."""
    texts = {hit.id: hit.document.indexed_text for hit in candidates if hit.bm25 and hit.document}
    scores = score_pairs(question, texts)
    return [replace(hit, bm25=hit.bm25 + scores.get(hit.id, 0.0)) for hit in candidates]


@dataclass(frozen=True, slots=True)
class _FetchedCandidates(Generic[DocumentT]):
    """The result of the second round trip.

    Attributes:
        truncated: Whether documents that pass the filters may be missing.
        timeout: What timed out, or None.
    """

    candidates: list[Candidate[DocumentT]]
    truncated: bool
    timeout: Degradation | None = None


async def _fetch_candidates(
    search: CandidateSearch[DocumentT], query_vector: QueryVector[DocumentT], seconds: float | None
) -> _FetchedCandidates[DocumentT]:
    """Run the vector search, and compare the lexical hits that it may miss.

    Without a vector, fetch the best documents by words alone.
    """
    if query_vector.values is None:
        return _FetchedCandidates(*await search.fetch_lexical_candidates())
    pool = search.pick_lexical_pool()
    nearest, compared, lifted = await asyncio.gather(
        _await_in_time(search.find_nearest(query_vector.values, query_vector.nearest), seconds),
        _await_in_time(search.compare(query_vector.values, pool, query_vector.nearest), seconds),
        _await_in_time(search.find_lifted(query_vector.values), seconds),
    )
    candidates, truncated = search.merge(nearest or [], pool, [*(lifted or []), *(compared or [])])
    if nearest is None:
        return _FetchedCandidates(candidates, truncated, Degradation.SEMANTIC_TIMED_OUT)
    timeout = Degradation.COMPARISON_TIMED_OUT if compared is None else None
    return _FetchedCandidates(candidates, truncated, timeout)


@dataclass(frozen=True, slots=True)
class QueryVector(Generic[DocumentT]):
    """A query's vector, or the reason why there is none.

    Attributes:
        values: The vector, or None if the search is by words alone.
        purpose: What it was embedded for.
        nearest: The nearest documents. Empty if the query has filters, because finding them then
            needs the postings.
        degradation: Why the vector is missing, or None if it exists or is not needed.
    """

    values: WeightedVector | None = None
    purpose: Purpose = Purpose.QUERY
    nearest: list[Neighbour[DocumentT]] = field(default_factory=list)
    degradation: Degradation | None = None


async def _embed_query(
    query: SearchQuery, lexical_terms: Sequence[str], corpus: Corpus[DocumentT], ctx: Context
) -> QueryVector[DocumentT]:
    """Embed the query, and check that the database is embedded with the same model.

    Costs one round trip, in which a search without filters also finds the nearest documents. If the
    query's vector depends on the check, the search waits for it; the check is cached.
    """
    if not query.is_semantic:
        return QueryVector()
    check = asyncio.ensure_future(EmbeddingSpace(ctx.database).expect(ctx.embedder))
    # The check runs at the same time as the search. If the database is embedded with another model,
    # both may fail. The check's error is raised, because it explains the cause.
    languages, vector = await asyncio.gather(
        check, _embed(query, lexical_terms, corpus, check, ctx), return_exceptions=True
    )
    if isinstance(languages, ReembeddingInProgress) and query.is_lexical:
        return QueryVector(degradation=Degradation.REEMBEDDING)
    if isinstance(languages, BaseException):
        raise languages
    if isinstance(vector, BaseException):
        raise vector
    if languages is EmbeddedLanguages.NONE and not vector.degradation:
        return QueryVector(degradation=Degradation.NOTHING_EMBEDDED)
    return vector


async def _embed(
    query: SearchQuery,
    lexical_terms: Sequence[str],
    corpus: Corpus[DocumentT],
    languages: Awaitable[EmbeddedLanguages],
    ctx: Context,
) -> QueryVector[DocumentT]:
    """Embed the query. Without filters, also find the nearest documents, in one round trip.

    If the provider fails, a hybrid search continues by words alone.
    """
    try:
        purpose = await choose_query_purpose(query.text, ctx.embedder.model, languages)
        vector = await ctx.embed_query(query.text, purpose)
    except (PlatformFault, RateLimited, Unavailable) as error:
        if not query.is_lexical:
            raise
        if isinstance(error, PlatformFault):
            log.error("question_not_embedded", **error_fields(error))
        return QueryVector(degradation=Degradation.EMBEDDING_UNAVAILABLE)
    if not query.selection.is_unrestricted:
        return QueryVector(vector, purpose)
    # It is not known yet whether postings are truncated, so the terms are counted in any case.
    nearest = await corpus.documents.find_nearest(vector, DENSE_POOL, (), lexical_terms)
    return QueryVector(vector, purpose, nearest)


async def _await_in_time(half: Awaitable[HalfT], seconds: float | None) -> HalfT | None:
    """Await one half of a search, or return None once `seconds` are over. None sets no limit."""
    try:
        async with asyncio.timeout(seconds) as time_limit:
            return await half
    except TimeoutError:
        if not time_limit.expired():
            raise  # The timeout occurred within the half. That is an error.
        return None


def _get_time_limit(query: SearchQuery, ctx: Context) -> float | None:
    """Return how many seconds each half of a search may take.

    None if the search has only one half, which is essential, or runs in a job without a deadline.
    """
    if query.mode is not Mode.HYBRID or ctx.seconds_left is None:
        return None
    return ctx.seconds_left / 2


async def _read_postings(
    lexical_terms: Sequence[str], query: SearchQuery, corpus: Corpus[DocumentT], ctx: Context
) -> SearchPostings:
    with _time_bm25(lexical_terms, ctx):
        facets = [*query.selection.facets, *query.period_months]
        return await corpus.index.read(lexical_terms, list(dict.fromkeys(facets)))


def _time_bm25(lexical_terms: Sequence[str], ctx: Context) -> AbstractContextManager[None]:
    """Add the duration of the `with` block to the receipt's `bm25_ms`, if words are searched."""
    return ctx.timed("bm25") if lexical_terms else nullcontext()


def _tune(query: SearchQuery, purpose: Purpose, ctx: Context) -> Tuning:
    """Return the embedding model's tuning, adapted to the query."""
    query_tuning = get_tuning(ctx.embedder.model, purpose)
    if query.dense_weight is not None:
        query_tuning = replace(query_tuning, dense_weight=query.dense_weight)
    is_noisy = query.may_be_far or not query_tuning.can_read(query.text)
    return query_tuning if is_noisy else replace(query_tuning, noise=0.0)


def _score_and_sort(
    candidates: Sequence[Candidate[DocumentT]], mode: Mode, query_tuning: Tuning
) -> tuple[Candidate[DocumentT], ...]:
    scores = _get_scores(candidates, mode, query_tuning)
    hits = [replace(candidate, score=scores[candidate.id]) for candidate in candidates]
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.id)))


def _get_scores(
    candidates: Sequence[Candidate[DocumentT]], mode: Mode, query_tuning: Tuning
) -> Mapping[str, float]:
    """Return the score by which the mode ranks each candidate."""
    match mode:
        case Mode.LEXICAL:
            # Those with all words come first: the best score of the others is added to theirs.
            step = max((hit.bm25 for hit in candidates), default=0.0)
            return {hit.id: hit.bm25 + step * hit.has_all_words for hit in candidates}
        case Mode.SEMANTIC:
            return {hit.id: hit.similarity or 0.0 for hit in candidates}
        case Mode.HYBRID:
            similarities = [hit.similarity for hit in candidates if hit.similarity is not None]
            # A candidate without a vector may be as near as any other, so it gets the mean.
            mean = sum(similarities) / len(similarities) if similarities else 0.0
            scores = {
                hit.id: Scores(mean if hit.similarity is None else hit.similarity, hit.bm25)
                for hit in candidates
            }
            return dict(fuse(scores, query_tuning.dense_weight, query_tuning.noise))


def _limit_terms(query_terms: Sequence[str]) -> list[str]:
    """Return the query's terms, repeats included, but at most MAX_TERMS different ones."""
    first_terms = set(list(dict.fromkeys(query_terms))[:MAX_TERMS])
    return [term for term in query_terms if term in first_terms]
