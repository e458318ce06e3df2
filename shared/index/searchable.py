"""The protocol that searchable documents implement, such as the chunks of the knowledge base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from shared.index.facets import Facet


class Searchable(Protocol):
    """A document that is found by its words, meaning and facets."""

    @property
    def id(self) -> str:
        """The document's id, unique in its corpus."""

    @property
    def indexed_text(self) -> str:
        """The text whose words are indexed."""

    @property
    def title(self) -> str:
        """The part of that text that is its title, or an empty text."""

    @property
    def author(self) -> str | None:
        """The document's author as written, or None."""

    @property
    def dated_at(self) -> datetime | None:
        """The document's date, or None before the document is stored."""

    @property
    def facets(self) -> Mapping[Facet, str]:
        """The document's facets, by which it is filtered, each with its name as written."""


DocumentT = TypeVar("DocumentT", bound=Searchable)
"""The type of the documents of one corpus."""
