"""How often terms occur in a text. The analysis that finds them is in `shared.text.terms`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TermCounts:
    """How often terms occur in a document.

    Attributes:
        by_term: The number of occurrences by term; terms that do not occur are missing.
        length: The number of terms in the document, repeats included, without variants.
    """

    by_term: Mapping[str, int]
    length: int
