"""A knowledge card: the summary and the takeaways of a chunk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class KnowledgeCard:
    """A summary and a few takeaways of a chunk.

    Attributes:
        model: The model that made the card, or `BY_HAND` if a person wrote it. Set if it is stored.
        generated_at: When the card was made. Set if it is stored.
    """

    summary: str
    takeaways: tuple[str, ...] = ()
    model: str | None = field(default=None, compare=False)
    generated_at: datetime | None = field(default=None, compare=False)
