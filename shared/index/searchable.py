"""What can be searched: chunks of the knowledge base, and whatever else has a text and facets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shared.index.facets import Facet


class Searchable(Protocol):
    """A document that is found by its words, by its meaning and by its facets."""

    @property
    def id(self) -> str:
        """Its id, which no other of its corpus has."""

    @property
    def indexed_text(self) -> str:
        """What is indexed by its words."""

    @property
    def dated_at(self) -> datetime | None:
        """The date that people mean; None before it is stored."""

    @property
    def facets(self) -> Mapping[Facet, str]:
        """What it can be filtered by, each with the name that people know it by."""


DocumentT = TypeVar("DocumentT", bound=Searchable)
"""The documents of one corpus."""
