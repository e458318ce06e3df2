"""Hybrid search: the documents that fit a question, best first.

Two legs. By meaning: the documents whose vectors are nearest to the question's. By words: BM25 over
the lists of the question's terms. A search lives in two round trips:

1. the lists are read, beside it the question is embedded, and where there is no filter its nearest
   documents are found (`meaning`);
2. from the lists follow what passes the filters (`plan`) and what the words find (`words`); both
   legs bring their documents, each with both scores (`pool`).

Then the scores are fused, and the evidence tells whether anything matches.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Generic

from shared.index.postings import NO_POSTINGS
from shared.index.searchable import DocumentT
from shared.search.candidates import (
    MAX_CHECKED,
    MAX_CHECKED_ANONYMOUS,
    Meaning,
    Mode,
    NoMeaning,
    PreparedQuery,
    Words,
    in_time,
    meaning_of,
    retrieve_candidates,
)
from shared.search.filter_plan import plan_filters, unknown_values
from shared.search.fusion import Scores, fuse
from shared.search.relevance import Evidence, anything_matches, coverage, term_information, tuning
from shared.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from shared.index.postings import SearchPostings
    from shared.runtime.context import Context
    from shared.search.candidates import Candidate, SearchQuery
    from shared.search.corpus import Corpus
    from shared.search.filter_plan import FacetFilter, Selection
    from shared.search.relevance import Tuning

MAX_TERMS: Final = 48
"""Different terms of a question whose lists are read; each costs a document."""


class Late(StrEnum):
    """A part of a hybrid search, other than meaning as a whole, that took too long: what to say."""

    WORDS = "The search by words did not finish in time: meaning alone was searched."
    COMPARISON = (
        "What only words found could not be compared by meaning in time: its order is less certain."
    )


@dataclass(frozen=True, slots=True)
class Ranking(Generic[DocumentT]):
    """What was found.

    Attributes:
        terms: The question's terms.
        documents: How many are indexed in all.
        unknown: The filters of which no document bears a value, each with that value.
        without_meaning: Why it went without meaning, though that was asked for; None if it did not.
        late: What else was left out since it took too long; None if nothing was.
        hits: Best first, each with its score.
        matches: Whether any hit can answer the question, as far as the scores can tell.
        truncated: Whether documents that pass the filters may be missing.
    """

    terms: frozenset[str]
    documents: int
    unknown: tuple[tuple[FacetFilter, str], ...]
    without_meaning: NoMeaning | None
    late: Late | None
    hits: tuple[Candidate[DocumentT], ...]
    matches: bool
    truncated: bool


async def rank(
    question: SearchQuery, corpus: Corpus[DocumentT], ctx: Context
) -> Ranking[DocumentT]:
    """Find and rank documents: two round trips deep at most.

    A hybrid search does not wait for ever for either half: after half of the time that is left, it
    goes on with the other. Only filters need the postings in any case.

    Raises:
        Unavailable: The embedding provider is down, and only meaning was asked for.
        Conflict: The database is embedded with another model.
    """
    selection = question.selection
    asked = _bounded(terms(question.text))
    read = asked if question.by_words else []
    seconds = _time_limit(question, ctx)
    by_words, by_meaning = await asyncio.gather(
        in_time(_lists(read, selection, corpus, ctx), seconds),
        in_time(meaning_of(question, corpus, ctx), seconds),
    )
    meaning = by_meaning or Meaning(missing=NoMeaning.OUT_OF_TIME)
    without_words = by_words is None and bool(meaning.nearest)
    if without_words:
        read = []
    elif by_words is None:
        by_words = await _lists(read, selection, corpus, ctx)
    lists = by_words or NO_POSTINGS
    planned = plan_filters(selection, lists.facets)
    with _timed(read, ctx):
        words = Words(read, lists, planned.dates)
    max_checked = MAX_CHECKED if ctx.caller.user_id else MAX_CHECKED_ANONYMOUS
    seconds = _time_limit(question, ctx)
    query = PreparedQuery(selection, planned, words, meaning, max_checked, seconds)
    pool = await retrieve_candidates(query, corpus.documents)
    tuned = tuning(ctx.embedder.model)
    if question.dense_weight is not None:
        tuned = replace(tuned, dense_weight=question.dense_weight)
    if not question.may_be_far:
        tuned = replace(tuned, noise=0.0)
    without_meaning = NoMeaning.OUT_OF_TIME if pool.vector_search_timed_out else meaning.missing
    mode = Mode.LEXICAL if without_meaning else question.mode
    return Ranking(
        terms=frozenset(asked),
        documents=lists.totals.documents,
        unknown=tuple(unknown_values(selection, lists)),
        without_meaning=without_meaning,
        late=Late.WORDS
        if without_words
        else Late.COMPARISON
        if pool.comparison_timed_out
        else None,
        hits=_in_order(pool.candidates, mode, tuned),
        matches=_matches(pool.candidates, words, tuned),
        truncated=pool.truncated,
    )


def _time_limit(question: SearchQuery, ctx: Context) -> float | None:
    """Seconds after which words have to do; None where nobody waits, or only meaning counts."""
    if question.mode is not Mode.HYBRID or ctx.seconds_left is None:
        return None
    return ctx.seconds_left / 2


async def _lists(
    read: Sequence[str], selection: Selection, corpus: Corpus[DocumentT], ctx: Context
) -> SearchPostings:
    with _timed(read, ctx):
        return await corpus.lists.read(read, selection.facets)


def _timed(read: Sequence[str], ctx: Context) -> AbstractContextManager[None]:
    """Count the time to BM25, where words count."""
    return ctx.timed("bm25") if read else nullcontext()


def _in_order(
    candidates: Sequence[Candidate[DocumentT]], mode: Mode, tuned: Tuning
) -> tuple[Candidate[DocumentT], ...]:
    """Order them by what was asked for."""
    scores = _scores(candidates, mode, tuned)
    scored = [replace(each, score=scores[each.id]) for each in candidates]
    return tuple(sorted(scored, key=lambda each: (-each.score, each.id)))


def _scores(
    candidates: Sequence[Candidate[DocumentT]], mode: Mode, tuned: Tuning
) -> Mapping[str, float]:
    match mode:
        case Mode.LEXICAL:
            return {each.id: each.bm25 for each in candidates}
        case Mode.SEMANTIC:
            return {each.id: each.similarity or 0.0 for each in candidates}
        case Mode.HYBRID:
            similarities = [hit.similarity for hit in candidates if hit.similarity is not None]
            # A candidate without a vector may be as near as any: it gets the mean.
            mean = sum(similarities) / len(similarities) if similarities else 0.0
            scores = {
                hit.id: Scores(mean if hit.similarity is None else hit.similarity, hit.bm25)
                for hit in candidates
            }
            return dict(fuse(scores, tuned.dense_weight, tuned.noise))


def _matches(candidates: Sequence[Candidate[DocumentT]], words: Words, tuned: Tuning) -> bool:
    """Whether any of them can answer, by the evidence for it."""
    totals = words.lists.totals
    says = term_information(words.terms, words.lists.terms, totals)
    evidence = [
        Evidence(each.similarity, coverage(says, each.held) if words.terms else None)
        for each in candidates
    ]
    return anything_matches(evidence, tuned.calibration, totals.documents)


def _bounded(words: Sequence[str]) -> list[str]:
    """A question's terms, repeats included, but no more different ones than may be read."""
    read = set(list(dict.fromkeys(words))[:MAX_TERMS])
    return [word for word in words if word in read]
