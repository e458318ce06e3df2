"""Facets: values that documents are filtered by, such as a tag, an author or a month."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

_MAX_ID_BYTES: Final = 400
"""Length of an id from which on a hash replaces the key; Firestore takes 1,500 bytes."""
_MAX_KEY_BYTES: Final = 1_200
"""Length to which a folded name is cut. Folding may make 18 characters of one. Firestore indexes
and compares 1,500 bytes, and a search for a prefix appends some."""


class Kind(StrEnum):
    """The kind of a facet."""

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
        kind: The kind of value.
        key: The value as it is compared: names folded, ids and months unchanged.
    """

    kind: Kind
    key: str

    @property
    def id(self) -> str:
        """The facet as a legal Firestore document id, and as an entry of a document's `facets`."""
        plain = f"{self.kind}:{self.key.replace('%', '%25').replace('/', '%2F')}"
        if len(plain.encode()) <= _MAX_ID_BYTES:
            return plain
        return f"{self.kind}:%{hashlib.sha256(plain.encode()).hexdigest()}"


HAS_CARD: Final = Facet(Kind.CARD, "yes")
"""The facet of documents that have a knowledge card."""


def named_facet(kind: Kind, name: str) -> Facet:
    """The facet of a name as people write it.

    Case, width, white space, and anything after the first 1,200 bytes do not matter.
    """
    key = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    return Facet(kind, key.encode()[:_MAX_KEY_BYTES].decode(errors="ignore").rstrip())


def parse_facet_id(facet_id: str, name: str) -> Facet:
    """The facet of an id. If the id is a hash, the key follows from a name of the facet."""
    kind, _, rest = facet_id.partition(":")
    plain = Facet(Kind(kind), rest.replace("%2F", "/").replace("%25", "%"))
    return plain if plain.id == facet_id else named_facet(plain.kind, name)


def month_facet(moment: datetime) -> Facet:
    """The month of a moment, in the moment's time zone."""
    return Facet(Kind.MONTH, f"{moment:%Y-%m}")


def id_facet(document_id: str) -> str:
    """An entry of a document's `facets` that no other document has."""
    return f"id:{document_id}"
