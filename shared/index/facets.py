"""Facets: the values by which documents are filtered, such as a tag, an author or a month."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

_MAX_ID_BYTES: Final = 400
"""The maximum length of an id that contains the key, in bytes. In longer ids, a hash replaces the
key. Firestore allows 1,500 bytes."""
_MAX_KEY_BYTES: Final = 1_200
"""The maximum length of a key, in bytes. The rest of the name is cut off. Folding can turn one
character into 18. Firestore indexes and compares 1,500 bytes, and a search by prefix appends a
few."""


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
    FOLDER = "folder"
    POSITION = "position"


POSTINGS_ONLY: Final = frozenset({Kind.CARD, Kind.POSITION})
"""The kinds that are not stored in a document's `facets`, so that the database cannot filter by
them.

The vector index repeats the whole vector for each facet stored there. A filter by card would leave
out almost nothing, since almost every chunk has one. The postings, and the chunks themselves, show
which chunks have a card. While a large import waits for cards, a search for chunks with cards may
miss some, and its answer says so."""


@dataclass(frozen=True, slots=True)
class Facet:
    """A value to filter by.

    Attributes:
        key: The value in the form used for comparison: names are folded, ids and months are not.
    """

    kind: Kind
    key: str

    @property
    def id(self) -> str:
        """The facet's id, under which its postings and a document's `facets` are stored."""
        plain = f"{self.kind}:{self.key.replace('%', '%25').replace('/', '%2F')}"
        if len(plain.encode()) <= _MAX_ID_BYTES:
            return plain
        return f"{self.kind}:%{hashlib.sha256(plain.encode()).hexdigest()}"


FIRST: Final = Facet(Kind.POSITION, "first")
"""The facet of a source's first chunk. A source whose first chunk was forgotten has none."""
LATER: Final = Facet(Kind.POSITION, "later")
"""The facet of all other chunks."""
HAS_CARD: Final = Facet(Kind.CARD, "yes")
"""The facet of documents that have a knowledge card."""

_UNSPACED: Final = r"[\u3040-\u30ff\u3400-\u9fff]"
_SPACE_IN_NAME: Final = re.compile(rf"(?<={_UNSPACED})\s+(?={_UNSPACED})")


def make_named_facet(kind: Kind, name: str) -> Facet:
    """Return the facet for a name.

    Names that differ only in case, character width or the amount of white space have the same
    facet, as do names that agree in the first 1,200 bytes, a tag with and without its number sign,
    and the authors `Helm, Ann` and `Ann Helm`, and `夏目 漱石` and `夏目漱石`.
    """
    words = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    key = words.encode()[:_MAX_KEY_BYTES].decode(errors="ignore").rstrip()
    if kind is Kind.TAG:
        key = key.lstrip("# ")
    elif kind is Kind.AUTHOR and key.count(",") == 1:
        key = " ".join(reversed(key.split(","))).strip()
    return Facet(kind, join_unspaced(key) if kind is Kind.AUTHOR else key)


def join_unspaced(name: str) -> str:
    """Remove the spaces between Chinese or Japanese characters, which a name may have or not."""
    return _SPACE_IN_NAME.sub("", name)


def make_path_facets(kind: Kind, path: str) -> dict[Facet, str]:
    """Return the facets of a tag or a folder and of its parents, each with its name.

    `project/beta/hull` is found as `project/beta` and as `project`, too.
    """
    parents = [name for name in accumulate(path.split("/"), "{}/{}".format) if name.strip("/# ")]
    return {make_named_facet(kind, name): name for name in [path, *reversed(parents[:-1])]}


def parse_facet_id(facet_id: str, name: str) -> Facet:
    """Return the facet for an id.

    Args:
        name: A name of the facet, from which the key is derived if the id contains only a hash.

    Raises:
        ValueError: The id does not begin with a kind of facet.
    """
    kind, _, rest = facet_id.partition(":")
    plain = Facet(Kind(kind), rest.replace("%2F", "/").replace("%25", "%"))
    return plain if plain.id == facet_id else make_named_facet(plain.kind, name)


def make_month_facet(moment: datetime) -> Facet:
    """Return the facet for a moment's month, in the moment's time zone."""
    return Facet(Kind.MONTH, f"{moment:%Y-%m}")


def is_month(facet_id: str) -> bool:
    """Return whether this is the id of a month's facet."""
    return facet_id.startswith(f"{Kind.MONTH}:")


def select_vector_index_facets(facet_ids: Iterable[str]) -> list[str]:
    """Return which of a document's facets to store in its field `facets`, for the vector index."""
    return [facet_id for facet_id in facet_ids if facet_id.partition(":")[0] not in POSTINGS_ONLY]
