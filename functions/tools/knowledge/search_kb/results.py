"""What search_kb says of a passage that it found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import Field

from shared.knowledge.cluster_repository import Clusters
from shared.knowledge.views import Passage, passage
from shared.runtime.schemas import Result
from shared.search.candidates import Mode
from shared.text.excerpts import excerpt

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from shared.knowledge.chunk import Chunk
    from shared.runtime.context import Context
    from shared.search.candidates import Candidate


class Detail(StrEnum):
    """How much is said of a passage."""

    LEAN = "lean"
    FULL = "full"


class Topic(Result):
    """The topic that a passage belongs to."""

    cluster_id: str = Field(description="Its id, for get_cluster.")
    name: str | None = Field(description="Its name.")


class Hit(Passage):
    """A passage that was found."""

    rank: int = Field(description="1 for the best; it goes on from page to page.")
    similarity: float | None = Field(
        description="Cosine similarity of query and passage: 1 the same, 0 unrelated; missing where"
        " meaning was not compared."
    )
    matched_terms: list[str] = Field(
        description="The query's words as the passage has them, else as its title or author has."
    )
    found_by: list[Mode] = Field(description="What found it: semantic, lexical or both.")
    cluster: Topic | None = Field(description="Its main topic, if it belongs to any.")
    takeaways: list[str] | None = Field(
        description="What to remember of it: with full detail, or when only cards are searched."
    )
    content: str | None = Field(description="The whole text, with full detail.")


@dataclass(frozen=True, slots=True)
class View:
    """How much of the results is wanted.

    Attributes:
        limit: How many hits at most.
        full: Whether to give the whole content.
        cards: Whether to give the takeaways.
    """

    limit: int
    full: bool = False
    cards: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A page of results.

    Attributes:
        hits: The passages.
        position: Where the next page begins; None after the last.
        matches: Whether anything is likely to answer.
        message: What to know of the results.
    """

    hits: list[Hit]
    position: Sequence[str | int] | None
    matches: bool
    message: str | None


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes hits.

    Attributes:
        view: How much is wanted.
        topics: The names of clusters, by id.
        terms: The query's terms, to show passages where they speak of them.
    """

    view: View
    topics: Mapping[str, str]
    terms: Collection[str] = ()

    def hit(self, rank: int, chunk: Chunk, found: Candidate[Chunk] | None = None) -> Hit:
        """A passage in its place; without a query nothing is known of how it fits."""
        shown = excerpt(chunk.content, self.terms)
        named = excerpt(f"{chunk.title} {chunk.author or ''}", self.terms)
        return passage(
            Hit,
            chunk,
            snippet=shown.text,
            rank=rank,
            similarity=_rounded(found.similarity) if found else None,
            matched_terms=shown.matched or named.matched,
            found_by=_found_by(found) if found else [],
            cluster=self._topic(chunk),
            takeaways=self._takeaways(chunk),
            content=chunk.content if self.view.full else None,
        )

    def _topic(self, chunk: Chunk) -> Topic | None:
        main = main_cluster(chunk)
        return Topic(cluster_id=main, name=self.topics.get(main)) if main else None

    def _takeaways(self, chunk: Chunk) -> list[str] | None:
        wanted = chunk.knowledge_card and (self.view.full or self.view.cards)
        return list(chunk.knowledge_card.takeaways) if wanted and chunk.knowledge_card else None


def main_cluster(chunk: Chunk) -> str | None:
    """The topic that a chunk belongs to most; None if it belongs to none."""
    return next(iter(chunk.cluster_id), None)


async def topics(chunks: Iterable[Chunk], ctx: Context) -> dict[str, str]:
    """The names of the chunks' main topics, by id. One round trip."""
    wanted = {main for chunk in chunks if (main := main_cluster(chunk))}
    clusters = await Clusters(ctx.database).get_all(sorted(wanted))
    return {each.cluster_id: each.name for each in clusters}


def _found_by(candidate: Candidate[Chunk]) -> list[Mode]:
    legs = {Mode.SEMANTIC: candidate.near, Mode.LEXICAL: candidate.bm25 > 0}
    return [mode for mode, found in legs.items() if found]


def _rounded(similarity: float | None) -> float | None:
    return None if similarity is None else round(similarity, 4)
