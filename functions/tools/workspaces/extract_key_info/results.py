"""What `extract_key_info` answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import Field

from shared.runtime.schemas import Result

if TYPE_CHECKING:
    from functions.tools.workspaces.extract_key_info.corpus import Location
    from shared.search.candidates import Candidate
    from shared.workspaces.model import Passage


class State(StrEnum):
    """Whether there is an answer."""

    READY = "ready"
    PENDING = "pending"


class Found(Result):
    """Where a passage stands, and how well it fits."""

    document: str = Field(description="The materials that it stands in.")
    start: int = Field(description="Where it starts in them, in Unicode code points.")
    end: int = Field(description="Where it ends: contexts holds exactly materials[start:end].")
    position: int = Field(description="Its place among the passages of its materials, from 1.")
    score: float = Field(
        description="What it is ranked by, 0 to 1: its two parts, each brought to 0 to 1 among the"
        " candidates of this question, and added by weight. It says nothing beyond this answer."
    )
    similarity: float | None = Field(
        description="The semantic part: cosine similarity with the query, 1 the same, 0 unrelated;"
        " missing where the embedding model could not be reached."
    )
    bm25: float = Field(
        description="The lexical part: BM25; 0 where it holds no word of the query."
    )


class Out(Result):
    """The passages that answer."""

    status: State = Field(
        description="ready; or pending: the materials are being taken in, and nothing is answered"
        " yet. Call again with document in place of materials after ask_again_after seconds."
    )
    contexts: list[str] = Field(description="The passages word for word, the best first.")
    passages: list[Found] = Field(description="Where each of contexts stands, in the same order.")
    matches: bool | None = Field(
        description="A hint. false: nothing here seems to have to do with the question. true does"
        " not mean that it is answered: read the passages, and say so if they do not answer."
    )
    task_id: str = Field(description="The task that the materials belong to.")
    document: str | None = Field(
        description="The id of these materials: to ask about them again, send it as document in"
        " place of materials."
    )
    considered: int = Field(description="How many different passages were searched.")
    known: bool | None = Field(
        description="Whether these materials had been brought to the task before."
    )
    ask_again_after: int | None = Field(description="Where pending: seconds to wait.")
    message: str | None = Field(description="What else to know of this answer.")


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a question found.

    Attributes:
        hits: The best, each with where it stands and its words.
        considered: How many passages were searched.
        matches: Whether any is likely to answer.
        message: What to know of the ranking.
    """

    hits: list[tuple[Candidate[Passage], Location, str]]
    considered: int
    matches: bool
    message: str | None = None


def found(hit: Candidate[Passage], location: Location) -> Found:
    """A passage in the answer."""
    return Found(
        document=location.material.document_id,
        start=location.place.start,
        end=location.place.end,
        position=location.place.position,
        score=round(hit.score, 4),
        similarity=None if hit.similarity is None else round(hit.similarity, 4),
        bm25=round(hit.bm25, 4),
    )
