"""A task on a user's to-do list, and how its status changes."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from shared.firestore.retention import Retention
from shared.text.folding import hash_texts

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date, datetime

DELETED_TASKS: Final = Retention(
    title="deleted to-dos", collection="tasks", duration=timedelta(days=30)
)


class Priority(StrEnum):
    """The importance of a task."""

    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"


class TaskStatus(StrEnum):
    """The status of a task."""

    OPEN = "open"
    COMPLETED = "completed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task on a to-do list.

    Methods that change a task return a new task, or the same task if there is nothing to change.

    Attributes:
        number: The number of the task, counted from 1 for each user and never reused.
        title: What is to be done, in one line.
        due_date: The last day on which the task is not overdue, or None if it never is.
        completed_at: When the task was completed, or None while it is open.
        deleted_at: When the task was deleted, or None. A deleted task keeps its `completed_at`.
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
        """The status that follows from the times of completion and deletion."""
        if self.deleted_at:
            return TaskStatus.DELETED
        return TaskStatus.COMPLETED if self.completed_at else TaskStatus.OPEN

    @property
    def digest(self) -> str:
        """A hash of what the task says, which equal tasks share."""
        due_date = self.due_date.isoformat() if self.due_date else None
        return hash_texts("task", self.title, self.description, self.priority, due_date)

    @property
    def purge_at(self) -> datetime | None:
        """When a deleted task can no longer be restored, or None if the task is not deleted."""
        return self.deleted_at and DELETED_TASKS.compute_purge_at(self.deleted_at)

    def is_expired(self, now: datetime) -> bool:
        """Return whether the task can no longer be restored, even if it is still stored."""
        return self.purge_at is not None and self.purge_at <= now

    def is_overdue(self, today: date) -> bool:
        """Return whether the task is open and was due before today."""
        is_late = self.due_date is not None and self.due_date < today
        return is_late and self.status is TaskStatus.OPEN

    def contains(self, words: Iterable[str]) -> bool:
        """Return whether the title and description together contain all these words.

        Args:
            words: Words or parts of words, folded by `fold`.
        """
        text = fold(f"{self.title}\n{self.description or ''}")
        return all(word in text for word in words)

    def complete(self, now: datetime) -> Task:
        """Return the task, completed at `now` unless it is already completed."""
        return self if self.completed_at else replace(self, completed_at=now, updated_at=now)

    def reopen(self, now: datetime) -> Task:
        """Return the task, open again if it was completed."""
        return replace(self, completed_at=None, updated_at=now) if self.completed_at else self

    def delete(self, now: datetime) -> Task:
        """Return the task, deleted at `now` unless it is already deleted."""
        return self if self.deleted_at else replace(self, deleted_at=now, updated_at=now)

    def restore(self, now: datetime) -> Task:
        """Return the task, no longer deleted. It is completed if it was before the deletion."""
        return replace(self, deleted_at=None, updated_at=now) if self.deleted_at else self


def fold(text: str) -> str:
    """Return a text without differences of case and width, to compare it."""
    return unicodedata.normalize("NFKC", text).casefold()
