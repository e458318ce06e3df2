"""Ranks the passages of some documents by how well they answer a question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from shared.search.corpus import Corpus
from shared.search.filter_plan import Selection
from shared.search.hybrid import rank
from shared.search.query import Mode, SearchQuery

if TYPE_CHECKING:
    from functions.tools.workspaces.extract_key_info.corpus import WorkspaceCorpus
    from shared.runtime.context import Context
    from shared.search.query import Candidate
    from shared.workspaces.model import WorkspaceDocument, WorkspacePassage

SEMANTIC_WEIGHT: Final = 0.65
"""The weight of similarity in meaning; words (BM25) have the rest."""
_RANKED_BY_WORDS: Final = (
    "The embedding model cannot be reached, so the passages are ranked by words alone. Ask again"
    " later to find passages that use other words."
)


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """A passage of the answer.

    Attributes:
        document: The document from which the passage is quoted.
    """

    hit: Candidate[WorkspacePassage]
    document: WorkspaceDocument
    passage: WorkspacePassage


@dataclass(frozen=True, slots=True)
class RankedPassages:
    """The answer to a question.

    Attributes:
        passages: The best passages, best first.
        considered: The number of passages that were searched.
        matches: Whether any passage is likely to answer the question.
        message: What the caller should know of the ranking, or None.
    """

    passages: list[RankedPassage]
    considered: int
    matches: bool
    message: str | None = None


async def rank_passages(
    query: str, corpus: WorkspaceCorpus, top_k: int, ctx: Context
) -> RankedPassages:
    """Rank passages. Costs one round trip, which checks the embedding model.

    Passages with equal scores are ordered by document, the latest first, and then as in the text.
    """
    question = SearchQuery(query, Mode.HYBRID, Selection(), SEMANTIC_WEIGHT, may_be_far=True)
    ranking = await rank(question, Corpus(corpus, corpus), ctx)
    ranked = [
        RankedPassage(hit, corpus.documents[hit.id], corpus.passages[hit.id])
        for hit in ranking.hits
    ]
    best = sorted(ranked, key=_make_sort_key)[:top_k]
    is_by_words = ranking.degradation is not None and ranking.degradation.is_lexical_only
    if is_by_words and best:  # the scores are plain BM25, without an upper limit
        top = best[0].hit.score
        best = [replace(item, hit=replace(item.hit, score=item.hit.score / top)) for item in best]
    return RankedPassages(
        passages=best,
        considered=len(corpus.passages),
        matches=ranking.matches,
        message=_RANKED_BY_WORDS if is_by_words else ranking.timeout_message,
    )


def _make_sort_key(item: RankedPassage) -> tuple[float, float, int]:
    return -item.hit.score, -item.document.uploaded_at.timestamp(), item.passage.position
