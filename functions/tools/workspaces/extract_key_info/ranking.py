"""Ranks the passages of some documents by how well they answer a question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from shared.search.candidates import DENSE_POOL
from shared.search.filter_plan import Selection
from shared.search.hybrid import rank
from shared.search.query import Degradation, Mode, SearchQuery
from shared.workspaces.repository import DocumentErased

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.tools.workspaces.extract_key_info.corpus import PassageLocation, WorkspaceCorpus
    from shared.runtime.context import Context
    from shared.search.query import Candidate
    from shared.workspaces.model import WorkspacePassage

SEMANTIC_WEIGHT: Final = 0.65
"""The weight of similarity in meaning; words (BM25) have the rest."""
_UNREACHABLE: Final = "The embedding model cannot be reached"
_WITHOUT_MEANING: Final = {
    Degradation.EMBEDDING_UNAVAILABLE: _UNREACHABLE,
    Degradation.REEMBEDDING: _UNREACHABLE,
    Degradation.SEMANTIC_TIMED_OUT: "The search by meaning did not finish in time",
}
_RANKED_BY_WORDS: Final = (
    "{}, so the passages are ranked by words alone. Ask again later to find passages that use other"
    " words."
)


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """A passage of the answer.

    Attributes:
        text: The original text of the passage.
    """

    hit: Candidate[WorkspacePassage]
    location: PassageLocation
    text: str


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
    query: str, searched: WorkspaceCorpus, top_k: int, ctx: Context
) -> RankedPassages:
    """Rank passages. Costs two round trips, or none if the corpus is in memory.

    Passages with equal scores are ordered by document, the latest first, and then as in the text.

    Raises:
        DocumentErased: A document has since been erased.
        Unavailable: The database is down.
    """
    question = SearchQuery(query, Mode.HYBRID, Selection(), SEMANTIC_WEIGHT, may_be_far=True)
    ranking = await rank(question, searched.corpus, ctx)
    outage = _WITHOUT_MEANING.get(ranking.degradation) if ranking.degradation else None
    locations = searched.locate([hit.id for hit in ranking.hits])
    hits = [hit for hit in ranking.hits if hit.id in locations]
    best = sorted(hits, key=lambda hit: _sort_key(hit, locations[hit.id]))[:top_k]
    if outage and best:  # the scores are plain BM25, without an upper limit
        best = [replace(hit, score=hit.score / best[0].score) for hit in best]
    texts = await _load_texts(best, searched)
    # If there are fewer neighbours than passages, some were erased during the search.
    neighbours = DENSE_POOL if outage else sum(hit.is_neighbour for hit in hits)
    is_complete = searched.is_complete and all(hit.id in texts for hit in best)
    if not is_complete or neighbours < min(DENSE_POOL, ranking.documents):
        raise DocumentErased("The document was erased during the search. Upload it again.")
    return RankedPassages(
        passages=[
            RankedPassage(hit, locations[hit.id], locations[hit.id].span.text or texts[hit.id])
            for hit in best
        ],
        considered=ranking.documents or len(hits),  # unknown if the search by words timed out
        matches=ranking.matches,
        message=_RANKED_BY_WORDS.format(outage) if outage else ranking.timeout_message,
    )


async def _load_texts(
    hits: Sequence[Candidate[WorkspacePassage]], searched: WorkspaceCorpus
) -> dict[str, str]:
    """Load the cleaned texts of passages. Costs one round trip if only words found some of them."""
    texts = {hit.id: hit.document.text for hit in hits if hit.document}
    missing = [hit.id for hit in hits if hit.id not in texts]
    passages = await searched.corpus.documents.get_all(missing)
    return texts | {passage.id: passage.text for passage in passages}


def _sort_key(
    hit: Candidate[WorkspacePassage], location: PassageLocation
) -> tuple[float, float, int]:
    return -hit.score, -location.document.uploaded_at.timestamp(), location.span.position
