"""A user's tasks: what one is, and what can become of it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date, datetime

RESTORABLE: Final = timedelta(days=30)
"""How long a deleted task can be restored."""


class Priority(StrEnum):
    """How much a task matters."""

    LOW = "Low"
    MEDIUM = "Medium"
    HIGH = "High"


class Status(StrEnum):
    """What has become of a task."""

    OPEN = "open"
    COMPLETED = "completed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task. Whatever changes it returns another one, or itself where there is nothing to change.

    Attributes:
        number: Counts a user's tasks from 1; none is used twice.
        title: What is to be done, in one line.
        description: More about it.
        priority: How much it matters.
        due_date: The last day on which it is not late.
        created_at: When it was added.
        updated_at: When it last changed.
        completed_at: When it was completed; None while it is to be done.
        deleted_at: When it was deleted. It remembers whether it was completed.
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
    def status(self) -> Status:
        """What has become of it."""
        if self.deleted_at:
            return Status.DELETED
        return Status.COMPLETED if self.completed_at else Status.OPEN

    @property
    def purge_at(self) -> datetime | None:
        """When it is gone for good, if it was deleted."""
        return self.deleted_at and self.deleted_at + RESTORABLE

    def is_gone(self, now: datetime) -> bool:
        """Whether it was deleted too long ago, though the database may still hold it."""
        return self.purge_at is not None and self.purge_at <= now

    def is_overdue(self, today: date) -> bool:
        """Whether it should have been done before today."""
        is_late = self.due_date is not None and self.due_date < today
        return is_late and self.status is Status.OPEN

    def says(self, words: Iterable[str]) -> bool:
        """Whether all these folded words stand in its title or description, also within others."""
        text = folded(f"{self.title}\n{self.description or ''}")
        return all(word in text for word in words)

    def complete(self, now: datetime) -> Task:
        """Say that it is done."""
        return self if self.completed_at else replace(self, completed_at=now, updated_at=now)

    def reopen(self, now: datetime) -> Task:
        """Say that it is to be done after all."""
        return replace(self, completed_at=None, updated_at=now) if self.completed_at else self

    def delete(self, now: datetime) -> Task:
        """Put it away."""
        return self if self.deleted_at else replace(self, deleted_at=now, updated_at=now)

    def restore(self, now: datetime) -> Task:
        """Bring it back as it was."""
        return replace(self, deleted_at=None, updated_at=now) if self.deleted_at else self


def folded(text: str) -> str:
    """A text as it is compared: case and width do not matter."""
    return unicodedata.normalize("NFKC", text).casefold()
