"""A task of a user's to-do list, and its transitions."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date, datetime

RESTORE_PERIOD: Final = timedelta(days=30)
"""How long a deleted task can be restored."""


class Priority(StrEnum):
    """How important a task is."""

    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"


class TaskStatus(StrEnum):
    """Whether a task is open, completed or deleted."""

    OPEN = "open"
    COMPLETED = "completed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task. A method that changes it returns a new one, or itself if there is nothing to change.

    Attributes:
        number: The number of the task, from 1 for each user; never used again.
        title: What is to be done, in one line.
        description: Details.
        priority: How important it is.
        due_date: The last day on which it is not overdue.
        created_at: When it was added.
        updated_at: When it last changed.
        completed_at: When it was completed; None while it is open.
        deleted_at: When it was deleted. A deleted task keeps its `completed_at`.
    """

    number: int
    title: str
    description: str | None
    priority: Priority
    due_date: date | None
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None = None
    deleted_at: datetime | None = None

    @property
    def status(self) -> TaskStatus:
        """Whether it is open, completed or deleted."""
        if self.deleted_at:
            return TaskStatus.DELETED
        return TaskStatus.COMPLETED if self.completed_at else TaskStatus.OPEN

    @property
    def purge_at(self) -> datetime | None:
        """When a deleted task can no longer be restored."""
        return self.deleted_at and self.deleted_at + RESTORE_PERIOD

    def is_expired(self, now: datetime) -> bool:
        """Return whether it can no longer be restored, even if the database still contains it."""
        return self.purge_at is not None and self.purge_at <= now

    def is_overdue(self, today: date) -> bool:
        """Return whether it is open and was due before today."""
        is_late = self.due_date is not None and self.due_date < today
        return is_late and self.status is TaskStatus.OPEN

    def contains(self, words: Iterable[str]) -> bool:
        """Whether its title or description contains all these folded words, or parts of words."""
        text = fold(f"{self.title}\n{self.description or ''}")
        return all(word in text for word in words)

    def complete(self, now: datetime) -> Task:
        """Mark it as completed."""
        return self if self.completed_at else replace(self, completed_at=now, updated_at=now)

    def reopen(self, now: datetime) -> Task:
        """Mark it as open again."""
        return replace(self, completed_at=None, updated_at=now) if self.completed_at else self

    def delete(self, now: datetime) -> Task:
        """Mark it as deleted."""
        return self if self.deleted_at else replace(self, deleted_at=now, updated_at=now)

    def restore(self, now: datetime) -> Task:
        """Undo its deletion."""
        return replace(self, deleted_at=None, updated_at=now) if self.deleted_at else self


def fold(text: str) -> str:
    """Fold a text for comparison regardless of case and width."""
    return unicodedata.normalize("NFKC", text).casefold()
