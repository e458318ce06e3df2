"""Ranks the passages of some documents by how well they answer a question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from shared.search.corpus import Corpus
from shared.search.filter_plan import Selection
from shared.search.hybrid import rank
from shared.search.query import Mode, SearchQuery
from shared.search.relevance import find_answer_threshold
from shared.text.entries import is_event

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from functions.tools.workspaces.extract_key_info.corpus import WorkspaceCorpus
    from shared.runtime.context import Context
    from shared.search.query import Candidate
    from shared.workspaces.model import WorkspaceDocument, WorkspacePassage

    _Place = tuple[str, int]
    """The id of a document, and the position of a passage in it."""

SEMANTIC_WEIGHT: Final = 0.65
"""The weight of similarity in meaning; words (BM25) have the rest."""
MIN_EVIDENCE: Final = -0.15
"""A passage with at least this much evidence answers. The knowledge base demands more, because a
text that somebody sends along with a question is likely to contain the answer. In texts made of
eight passages of `benchmarks.everyday`, 14 per cent of the right ones fall below this limit; at
-0.09, 24 per cent would."""
MAX_NEAR: Final = 3
"""The maximum number of passages that are shown though they do not answer: the nearest ones."""
LINES_AROUND: Final = 2
"""The maximum number of log events that are shown before an event, and after it."""
MAX_LINE: Final = 240
"""Longer events are not shown around another, because they may be stack traces."""
_RANKED_BY_WORDS: Final = (
    "The embedding model cannot be reached, so the passages are ranked by words alone. Ask again"
    " later to find passages that use other words."
)


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """A passage of the answer.

    Attributes:
        document: The document from which the passage is quoted.
        passage: The passage. A log event includes the events around it.
    """

    hit: Candidate[WorkspacePassage]
    document: WorkspaceDocument
    passage: WorkspacePassage

    @property
    def place(self) -> _Place:
        """The document and the position of the passage."""
        return self.document.document_id, self.passage.position

    def is_within(self, other: RankedPassage) -> bool:
        """Return whether another passage contains this one."""
        is_same = self.document.document_id == other.document.document_id
        return is_same and other.passage.start <= self.passage.start < other.passage.end


@dataclass(frozen=True, slots=True)
class RankedPassages:
    """The answer to a question.

    Attributes:
        passages: The passages that are likely to answer, best first.
        near: The nearest of the others.
        considered: The number of passages that were searched.
        message: What the caller should know of the ranking, or None.
    """

    passages: list[RankedPassage]
    near: list[RankedPassage]
    considered: int
    message: str | None = None


async def rank_passages(
    query: str, corpus: WorkspaceCorpus, top_k: int, ctx: Context
) -> RankedPassages:
    """Find the passages that answer. Costs one round trip, to check the embedding model.

    Passages with equal scores are ordered by document, the latest first, and then as in the text.
    """
    question = SearchQuery(query, Mode.HYBRID, Selection(), SEMANTIC_WEIGHT, may_be_far=True)
    ranking = await rank(question, Corpus(corpus, corpus), ctx)
    threshold = find_answer_threshold((hit.evidence for hit in ranking.hits), MIN_EVIDENCE)
    answers = [
        _to_ranked_passage(hit, corpus)
        for hit in ranking.hits
        if hit.answers or hit.evidence >= threshold
    ]
    best = list(_add_lines_around(sorted(answers, key=_make_sort_key), corpus))[:top_k]
    is_by_words = ranking.is_lexical_only
    if is_by_words and best:  # the scores are plain BM25, without an upper limit
        top = best[0].hit.score
        best = [replace(item, hit=replace(item.hit, score=item.hit.score / top)) for item in best]
    nearest = [_to_ranked_passage(hit, corpus) for hit in ranking.nearest]
    near = [item for item in nearest if not any(map(item.is_within, best))]
    return RankedPassages(
        passages=best,
        near=near[: min(MAX_NEAR, top_k - len(best))],
        considered=len(corpus.passages),
        message=_RANKED_BY_WORDS if is_by_words else ranking.timeout_message,
    )


def _to_ranked_passage(hit: Candidate[WorkspacePassage], corpus: WorkspaceCorpus) -> RankedPassage:
    return RankedPassage(hit, corpus.documents[hit.id], corpus.passages[hit.id])


def _add_lines_around(
    ranked: Iterable[RankedPassage], corpus: WorkspaceCorpus
) -> Iterator[RankedPassage]:
    """Yield the passages, with the events around each log event. No event is shown twice."""
    events = {
        (corpus.documents[passage.id].document_id, passage.position): passage
        for passage in corpus.passages.values()
        if is_event(passage.text) and len(passage.text) <= MAX_LINE
    }
    shown: set[_Place] = set()
    for item in ranked:
        if item.place in shown:
            continue
        lines = [item.passage]
        if item.place in events:
            before = _list_adjacent(item.place, -1, events, shown)
            lines = [*reversed(before), *lines, *_list_adjacent(item.place, 1, events, shown)]
        shown.update((item.document.document_id, line.position) for line in lines)
        text = "\n".join(line.text for line in lines)
        passage = replace(item.passage, start=lines[0].start, end=lines[-1].end, text=text)
        yield replace(item, passage=passage)


def _list_adjacent(
    place: _Place, step: int, events: Mapping[_Place, WorkspacePassage], shown: Container[_Place]
) -> list[WorkspacePassage]:
    """Return the adjacent events after a place, or before it if `step` is -1.

    They end at an event that is already shown.
    """
    adjacent: list[WorkspacePassage] = []
    last = events[place]
    document_id, position = place
    for number in range(1, LINES_AROUND + 1):
        place = document_id, position + step * number
        line = events.get(place)
        # The text between two events is not stored, so it must be a single line break.
        if line is None or place in shown or max(line.start - last.end, last.start - line.end) > 1:
            break
        adjacent.append(line)
        last = line
    return adjacent


def _make_sort_key(item: RankedPassage) -> tuple[float, float, int]:
    return -item.hit.score, -item.document.uploaded_at.timestamp(), item.passage.position
