"""Reads how often a query's terms occur in a document.

The index job stores the counts of all terms in the field `indexed` of a document. A query loads the
counts of its own terms only, and not the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared.firestore.field_paths import join_path
from shared.text.term_counts import TermCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def list_term_count_fields(terms: Iterable[str]) -> list[str]:
    """Return the field paths to select for `read_term_counts`. Without terms, there are none."""
    paths = [join_path("indexed", "terms", term) for term in dict.fromkeys(terms)]
    return ["indexed.length", *paths] if paths else []


def read_term_counts(data: Mapping[str, Any]) -> TermCounts | None:
    """Read the counts of the selected terms.

    Returns:
        The counts, or None if the document is not indexed yet.
    """
    stored = data.get("indexed", {})
    if not stored.get("length"):
        return None
    return TermCounts(stored.get("terms", {}), stored["length"])
