"""Facets: values that documents are filtered by, such as a tag, an author or a month."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

_MAX_ID_BYTES: Final = 400
"""Maximum length of an id in plain form. In a longer id, a hash replaces the key. Firestore allows
1,500 bytes."""
_MAX_KEY_BYTES: Final = 1_200
"""Maximum length of a folded name; the rest is cut off. Folding can turn one character into 18.
Firestore indexes and compares 1,500 bytes, and a search by prefix appends a few."""


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
    POSITION = "position"


POSTINGS_ONLY: Final = frozenset({Kind.CARD, Kind.POSITION})
"""Kinds that the database cannot filter by. Each entry in a document's `facets` is an entry of the
vector index with the whole vector. Almost every chunk has a card, so filtering by it leaves out
almost nothing; its postings and the chunks themselves show which have none. While a large import
waits for cards, a search for chunks with cards may miss some, and its answer says so."""


@dataclass(frozen=True, slots=True)
class Facet:
    """One value to filter by.

    Attributes:
        kind: The kind of value.
        key: The value in the form used for comparison: names folded, ids and months unchanged.
    """

    kind: Kind
    key: str

    @property
    def id(self) -> str:
        """The id of the facet's postings in Firestore, and its entry in a document's `facets`."""
        plain = f"{self.kind}:{self.key.replace('%', '%25').replace('/', '%2F')}"
        if len(plain.encode()) <= _MAX_ID_BYTES:
            return plain
        return f"{self.kind}:%{hashlib.sha256(plain.encode()).hexdigest()}"


FIRST: Final = Facet(Kind.POSITION, "first")
"""The facet of chunks with which their source begins, unless that was forgotten."""
LATER: Final = Facet(Kind.POSITION, "later")
"""The facet of all other chunks."""
HAS_CARD: Final = Facet(Kind.CARD, "yes")
"""The facet of documents that have a knowledge card."""


def named_facet(kind: Kind, name: str) -> Facet:
    """Return the facet for a name.

    Case, character width, and the amount of white space do not matter. Only the first 1,200
    bytes count.
    """
    key = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    return Facet(kind, key.encode()[:_MAX_KEY_BYTES].decode(errors="ignore").rstrip())


def parse_facet_id(facet_id: str, name: str) -> Facet:
    """Return the facet for an id.

    Args:
        facet_id: The id.
        name: A name of the facet, from which the key follows if the id is a hash.

    Raises:
        ValueError: The id does not begin with the kind of a facet.
    """
    kind, _, rest = facet_id.partition(":")
    plain = Facet(Kind(kind), rest.replace("%2F", "/").replace("%25", "%"))
    return plain if plain.id == facet_id else named_facet(plain.kind, name)


def month_facet(moment: datetime) -> Facet:
    """Return the facet for a moment's month, in the moment's time zone."""
    return Facet(Kind.MONTH, f"{moment:%Y-%m}")


def is_month(facet_id: str) -> bool:
    """Return whether the facet of this id is a month."""
    return facet_id.startswith(f"{Kind.MONTH}:")


def vector_index_entries(facet_ids: Iterable[str]) -> list[str]:
    """Return the facets to store in a document's `facets`, given the ids of all its facets."""
    return [name for name in facet_ids if name.partition(":")[0] not in POSTINGS_ONLY]
