"""Materials: a text that somebody brings to a task, and the passages that it is made of."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shared.index.facets import Facet

_ID_DIGITS: Final = 32
"""Hexadecimal digits of an id: 128 bits, which nobody meets twice by chance."""


class Status(StrEnum):
    """How far the taking in of materials has come."""

    ARRIVING = "arriving"
    """A call is storing them, or died while it did: bringing them again goes on from there."""
    WAITING = "waiting"
    """All their text is stored, and a job makes the vectors that are missing."""
    READY = "ready"
    """They can be searched."""
    FAILED = "failed"
    """A job could not embed them. Bringing them again tries anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What passages are made with: materials that were made otherwise cannot be searched.

    Attributes:
        model: The embedding model.
        dimension: The length of its vectors.
        analysis: The version of the terms, `shared.text.terms.ANALYSIS`.
    """

    model: str
    dimension: int
    analysis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """One text that was brought to a task.

    Attributes:
        document_id: A hash of the text.
        arrival: Names this time that they came: erased and brought again, they are others.
        status: How far it has come.
        making: What its passages are made with.
        passage_characters: What a passage of it may hold.
        cutting: The version of the cutting, `shared.text.passages.CUTTING`.
        characters: How long it is.
        passages: How many different passages it has.
        parts: In how many documents its contents are kept.
        brought_at: When it came.
        prepaid: Names a call that was paid for and not answered yet; None if there is none.
        reason: Why it failed.
        worked_until: Until when a call embeds what waits, at most: others need not too.
        next_at: When a job may go on with it; None before it waits.
        tries: How often a job failed at it since it last went well.
    """

    document_id: str
    arrival: str
    status: Status
    making: Making
    passage_characters: int
    cutting: int
    characters: int
    passages: int
    parts: int
    brought_at: datetime
    prepaid: str | None = None
    reason: str | None = None
    worked_until: datetime | None = None
    next_at: datetime | None = None
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage, whichever materials hold it: the same text is kept once.

    Attributes:
        passage_id: A hash of its text.
        text: Cleaned: white space is one space, and control characters are gone.
        dated_at: When the latest materials that hold it were brought; None while that is unknown.
    """

    passage_id: str
    text: str
    dated_at: datetime | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.passage_id

    @property
    def indexed_text(self) -> str:
        """What is indexed by its words."""
        return self.text

    @property
    def facets(self) -> Mapping[Facet, str]:
        """None: where to look is said by materials, not by filters."""
        return {}


def id_of(text: str) -> str:
    """The id of materials, by their text, or of a passage, by its cleaned text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_ID_DIGITS]


def materials_facet(material: Material) -> str:
    """The entry among a passage's `facets` that says which materials hold it, since they came."""
    return f"document:{material.document_id}.{material.arrival}"
