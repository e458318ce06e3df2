"""The transitions of a task."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from shared.tasks.model import RESTORE_PERIOD, Priority, Task, TaskStatus, fold

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
TASK = Task(
    number=1,
    title="Bake",
    description=None,
    priority=Priority.LOW,
    due_date=date(2026, 3, 10),
    created_at=NOON,
    updated_at=NOON,
)


def test_task_is_open_until_completed() -> None:
    completed = TASK.complete(LATER)
    assert TASK.status == TaskStatus.OPEN
    assert completed.status == TaskStatus.COMPLETED
    assert completed.completed_at == LATER
    assert completed.updated_at == LATER
    assert completed.reopen(LATER).status is TaskStatus.OPEN


def test_restored_task_is_as_before() -> None:
    completed = TASK.complete(NOON)
    for task in (TASK, completed):
        deleted = task.delete(NOON)
        assert deleted.status == TaskStatus.DELETED
        assert deleted.purge_at == NOON + RESTORE_PERIOD
        assert deleted.restore(NOON) == task


def test_transition_without_change_returns_itself() -> None:
    assert TASK.reopen(LATER) is TASK
    assert TASK.restore(LATER) is TASK
    completed, deleted = TASK.complete(NOON), TASK.delete(NOON)
    assert completed is completed.complete(LATER)
    assert deleted is deleted.delete(LATER)


def test_deleted_task_expires_after_the_period() -> None:
    deleted, end = TASK.delete(NOON), NOON + RESTORE_PERIOD
    moment = timedelta(microseconds=1)
    assert not deleted.is_expired(end - moment)
    assert deleted.is_expired(end)
    assert not TASK.is_expired(end)


@pytest.mark.parametrize(
    ("today", "expected"),
    [(date(2026, 3, 9), False), (date(2026, 3, 10), False), (date(2026, 3, 11), True)],
)
def test_task_is_overdue_after_its_due_date(today: date, *, expected: bool) -> None:
    assert TASK.is_overdue(today) == expected


def test_only_open_tasks_are_overdue() -> None:
    today = date(2027, 1, 1)
    assert not TASK.complete(NOON).is_overdue(today)
    assert not TASK.delete(NOON).is_overdue(today)


def test_words_match_regardless_of_case_and_width() -> None:
    assert fold("\uff33TRASSE") == fold("straße")
    assert TASK.contains([])
    assert TASK.contains(["bak"])
    assert not TASK.contains(["bake", "none"])
