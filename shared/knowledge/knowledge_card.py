"""A knowledge card: what a chunk says, in brief."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class KnowledgeCard:
    """A summary and a few takeaways of a chunk.

    Attributes:
        summary: The passage in a sentence or two.
        takeaways: Its main points.
        model: The model that made a stored card, or who wrote it.
        generated_at: When a stored card was made.
    """

    summary: str
    takeaways: tuple[str, ...] = ()
    model: str | None = field(default=None, compare=False)
    generated_at: datetime | None = field(default=None, compare=False)
