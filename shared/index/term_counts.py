"""The stored counts of some terms of a document, by which search scores it without its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.cloud.firestore_v1.field_path import FieldPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class TermCounts:
    """How often an indexed document has the terms of a query.

    Attributes:
        terms: The terms that it has, with how often it has them.
        length: The number of all its terms, repeats included.
    """

    terms: Mapping[str, int]
    length: int


def term_count_fields(terms: Iterable[str]) -> list[str]:
    """Return the fields that `read_term_counts` needs for these terms; none without terms."""
    paths = [FieldPath("indexed", "terms", term).to_api_repr() for term in dict.fromkeys(terms)]
    return ["indexed.length", *paths] if paths else []


def read_term_counts(data: Mapping[str, Any]) -> TermCounts | None:
    """Read the counts of the terms that were asked for, or None if the document has none stored.

    It has none if it is not indexed yet, or was indexed by an earlier release.
    """
    stored = data.get("indexed", {})
    if not stored.get("length"):
        return None
    return TermCounts(stored.get("terms", {}), stored["length"])
