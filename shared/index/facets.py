"""Facets: what can be filtered by, such as a tag, an author or the month of a date."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

_LONGEST: Final = 400
"""Bytes of an id beyond which a hash stands for the key; Firestore takes 1,500."""
_LONGEST_KEY: Final = 1_200
"""Bytes of a folded name, which may have 18 characters for each that was written: Firestore indexes
and compares 1,500, and who looks for what begins so appends some."""


class Kind(StrEnum):
    """What a facet says of a document."""

    TAG = "tag"
    AUTHOR = "author"
    CATEGORY = "category"
    SOURCE = "source"
    TITLE = "title"
    CLUSTER = "cluster"
    MONTH = "month"
    CARD = "card"
    LANGUAGE = "language"


@dataclass(frozen=True, slots=True)
class Facet:
    """One value to filter by.

    Attributes:
        kind: What it says.
        key: The value as it is compared: names folded, ids and months as they are.
    """

    kind: Kind
    key: str

    @property
    def id(self) -> str:
        """A legal Firestore document id, and what a document's `facets` hold."""
        plain = f"{self.kind}:{self.key.replace('%', '%25').replace('/', '%2F')}"
        if len(plain.encode()) <= _LONGEST:
            return plain
        return f"{self.kind}:%{hashlib.sha256(plain.encode()).hexdigest()}"


HAS_CARD: Final = Facet(Kind.CARD, "yes")


def named_facet(kind: Kind, name: str) -> Facet:
    """The facet of a name that people write: case, width and white space do not matter.

    Nor does what comes after the first 1,200 bytes.
    """
    key = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    return Facet(kind, key.encode()[:_LONGEST_KEY].decode(errors="ignore").rstrip())


def parse_facet_id(facet_id: str, name: str) -> Facet:
    """The facet of an id: where that is a hash, one of its names tells the key."""
    kind, _, rest = facet_id.partition(":")
    plain = Facet(Kind(kind), rest.replace("%2F", "/").replace("%25", "%"))
    return plain if plain.id == facet_id else named_facet(plain.kind, name)


def month_facet(moment: datetime) -> Facet:
    """The month a moment lies in, in its own time zone."""
    return Facet(Kind.MONTH, f"{moment:%Y-%m}")


def id_facet(document_id: str) -> str:
    """The entry among a document's `facets` that no other document has."""
    return f"id:{document_id}"
