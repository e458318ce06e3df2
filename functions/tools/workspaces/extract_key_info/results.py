"""The result of `extract_key_info`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import Field

from shared.runtime.schemas import FOR_APPS, Result
from shared.text.snippets import make_snippet

if TYPE_CHECKING:
    from functions.tools.workspaces.extract_key_info.ranking import RankedPassage


class AnswerStatus(StrEnum):
    """Whether there is an answer yet."""

    READY = "ready"
    PENDING = "pending"


class PassagePlace(Result):
    """Where a passage is."""

    document: str | None = Field(
        description="The id of the text that contains it, unless it is the answer's document."
    )
    start: int = Field(description="Where it starts in that text, in Unicode code points.")
    end: int = Field(description="Where it ends: contexts contains exactly materials[start:end].")


class NearPassage(PassagePlace):
    """A passage that is merely near, not likely to answer."""

    text: str = Field(description="Its beginning.")


class PassageResult(PassagePlace):
    """Where a passage in the answer is, and how well it fits."""

    position: int = Field(
        description="Its number among the passages of the text, from 1.", json_schema_extra=FOR_APPS
    )
    score: float = Field(
        description="What the passages are ranked by, 0 to 1: the weighted sum of similarity and"
        " bm25, each scaled to 0 to 1 among the candidates of this question. Do not compare it"
        " between answers."
    )
    similarity: float | None = Field(
        description="Cosine similarity with the query: 1 the same, 0 unrelated. Missing if the"
        " embedding model could not be reached.",
        json_schema_extra=FOR_APPS,
    )
    bm25: float = Field(
        description="BM25 score; 0 if it contains no word of the query.",
        json_schema_extra=FOR_APPS,
    )


class Out(Result):
    """The passages that answer the question."""

    status: AnswerStatus = Field(
        description="ready, or pending while the text is being embedded: there is no answer yet."
        " Call again after ask_again_after seconds, with document instead of materials."
    )
    contexts: list[str] = Field(
        description="The passages that are likely to answer, word for word, best first."
    )
    passages: list[PassageResult] = Field(
        description="Where each of contexts is in its text, in the same order."
    )
    near: list[NearPassage] | None = Field(
        description="The nearest other passages. They are not likely to answer."
    )
    matches: bool | None = Field(
        description="A hint. false: nothing here seems related to the question. true does not mean"
        " that it is answered: read the passages, and say so if they do not answer it."
    )
    task_id: str = Field(description="The workspace that was searched.")
    document: str | None = Field(
        description="The id of this text: send it as document instead of materials to ask about the"
        " text again."
    )
    considered: int = Field(description="How many different passages were searched.")
    known: bool | None = Field(
        description="Whether the text was in the workspace before this call."
    )
    ask_again_after: int | None = Field(description="If pending: how many seconds to wait.")
    message: str | None = Field(description="A note on this answer, if any.")


def to_passage_result(item: RankedPassage, document_id: str | None) -> PassageResult:
    """Convert a passage that answers.

    Args:
        document_id: The answer's document, whose id is not repeated in the result.
    """
    hit, passage = item.hit, item.passage
    return PassageResult(
        document=_name_other_document(item, document_id),
        start=passage.start,
        end=passage.end,
        position=passage.position,
        score=round(hit.score, 2),
        similarity=None if hit.similarity is None else round(hit.similarity, 3),
        bm25=round(hit.bm25, 3),
    )


def to_near_passage(item: RankedPassage, document_id: str | None, length: int) -> NearPassage:
    """Convert a passage that does not answer. See `to_passage_result`."""
    passage = item.passage
    return NearPassage(
        document=_name_other_document(item, document_id),
        start=passage.start,
        end=passage.end,
        text=make_snippet(passage.text, length),
    )


def _name_other_document(item: RankedPassage, document_id: str | None) -> str | None:
    other_id = item.document.document_id
    return None if other_id == document_id else other_id
