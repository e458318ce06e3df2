"""What can become of a task."""

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


def test_a_task_is_open_until_it_is_completed() -> None:
    completed = TASK.complete(LATER)
    assert (TaskStatus.OPEN, TaskStatus.COMPLETED) == (TASK.status, completed.status)
    assert (LATER, LATER) == (completed.completed_at, completed.updated_at)
    assert TaskStatus.OPEN is completed.reopen(LATER).status


def test_a_deleted_task_remembers_what_it_was() -> None:
    completed = TASK.complete(NOON)
    for task in (TASK, completed):
        deleted = task.delete(NOON)
        assert (TaskStatus.DELETED, NOON + RESTORE_PERIOD) == (deleted.status, deleted.purge_at)
        assert task == deleted.restore(NOON)


def test_what_changes_nothing_is_the_same_task() -> None:
    assert TASK is TASK.reopen(LATER)
    assert TASK is TASK.restore(LATER)
    completed, deleted = TASK.complete(NOON), TASK.delete(NOON)
    assert completed is completed.complete(LATER)
    assert deleted is deleted.delete(LATER)


def test_a_deleted_task_is_expired_at_the_moment_and_not_before() -> None:
    deleted, end = TASK.delete(NOON), NOON + RESTORE_PERIOD
    moment = timedelta(microseconds=1)
    assert (False, True) == (deleted.is_expired(end - moment), deleted.is_expired(end))
    assert not TASK.is_expired(end)


@pytest.mark.parametrize(
    ("today", "expected"),
    [(date(2026, 3, 9), False), (date(2026, 3, 10), False), (date(2026, 3, 11), True)],
)
def test_a_task_is_late_when_its_day_is_over(today: date, *, expected: bool) -> None:
    assert expected == TASK.is_overdue(today)


def test_only_what_is_to_be_done_is_late() -> None:
    today = date(2027, 1, 1)
    assert not TASK.complete(NOON).is_overdue(today)
    assert not TASK.delete(NOON).is_overdue(today)


def test_texts_are_compared_without_case_and_width() -> None:
    assert fold("straße") == fold("\uff33TRASSE")
    assert TASK.contains([])
    assert TASK.contains(["bak"])
    assert not TASK.contains(["bake", "none"])
