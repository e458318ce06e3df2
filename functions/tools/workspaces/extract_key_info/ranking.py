"""The passages of some materials that fit a question, best first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from functions.tools.workspaces.extract_key_info.results import Ranked
from shared.search.candidates import DENSE_POOL, Mode, NoMeaning, SearchQuery
from shared.search.filter_plan import Selection
from shared.search.hybrid import rank
from shared.workspaces.repository import Erased

if TYPE_CHECKING:
    from collections.abc import Sequence

    from functions.tools.workspaces.extract_key_info.corpus import Location, SearchedMaterials
    from shared.runtime.context import Context
    from shared.search.candidates import Candidate
    from shared.workspaces.model import Passage

_UNREACHABLE: Final = "The embedding model cannot be reached"
_WITHOUT_MEANING: Final = {
    NoMeaning.PROVIDER_UNAVAILABLE: _UNREACHABLE,
    NoMeaning.EMBEDDED_ANEW: _UNREACHABLE,
    NoMeaning.OUT_OF_TIME: "The search by meaning did not finish in time",
}
_RANKED_BY_WORDS: Final = (
    "{}: these are ranked by their words alone. Ask again later for passages that say it in other"
    " words."
)


async def rank_passages(
    query: str, searched: SearchedMaterials, top_k: int, ctx: Context
) -> Ranked:
    """Rank passages: two round trips deep, and none where they are in memory.

    Of equal scores, those of the latest materials come first, and there those that stand first.

    Raises:
        Erased: The materials were, meanwhile.
        Unavailable: The database is down.
    """
    weight = ctx.settings.extract_semantic_weight
    question = SearchQuery(query, Mode.HYBRID, Selection(), weight, may_be_far=True)
    ranking = await rank(question, searched.corpus, ctx)
    missing = ranking.without_meaning
    outage = _WITHOUT_MEANING.get(missing) if missing else None
    locations = searched.locations([hit.id for hit in ranking.hits])
    hits = [hit for hit in ranking.hits if hit.id in locations]
    best = sorted(hits, key=lambda hit: _order(hit, locations[hit.id]))[:top_k]
    if outage and best:  # then a score is BM25 itself
        best = [replace(hit, score=hit.score / best[0].score) for hit in best]
    texts = await _texts(best, searched)
    near = DENSE_POOL if outage else sum(hit.near for hit in hits)
    whole = searched.is_whole and all(hit.id in texts for hit in best)
    if not whole or near < min(DENSE_POOL, ranking.documents):
        raise Erased("These materials were erased while they were searched. Bring them again.")
    return Ranked(
        hits=[
            (hit, locations[hit.id], locations[hit.id].place.text or texts[hit.id]) for hit in best
        ],
        considered=ranking.documents or len(hits),  # unknown where words were late
        matches=ranking.matches,
        message=_RANKED_BY_WORDS.format(outage) if outage else ranking.late,
    )


async def _texts(hits: Sequence[Candidate[Passage]], searched: SearchedMaterials) -> dict[str, str]:
    """The passages' own texts. One round trip for those that only words found."""
    texts = {hit.id: hit.document.text for hit in hits if hit.document}
    missing = [hit.id for hit in hits if hit.id not in texts]
    read = await searched.corpus.documents.get_all(missing)
    return texts | {passage.id: passage.text for passage in read}


def _order(hit: Candidate[Passage], location: Location) -> tuple[float, float, int]:
    return -hit.score, -location.material.brought_at.timestamp(), location.place.position
