"""A task, a to-do of a user, can be completed, reopened, deleted and restored."""

from datetime import UTC, date, datetime, timedelta

from shared.tasks.model import DELETED_TASKS, Priority, Task, TaskStatus

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
ONE_O_CLOCK = NOON + timedelta(hours=1)
TASK = Task(
    number=1,
    title="Bake",
    description=None,
    priority=Priority.LOW,
    due_date=date(2026, 3, 10),
    created_at=NOON,
    updated_at=NOON,
)


def test_a_restored_task_equals_the_task_before_its_deletion() -> None:
    completed_task = TASK.complete(NOON)
    for task in (TASK, completed_task):
        deleted_task = task.delete(NOON)
        assert deleted_task.status == TaskStatus.DELETED
        assert deleted_task.purge_at == NOON + DELETED_TASKS.duration
        assert deleted_task.restore(NOON) == task


def test_a_transition_without_a_change_returns_the_same_task() -> None:
    assert TASK.reopen(ONE_O_CLOCK) is TASK
    assert TASK.restore(ONE_O_CLOCK) is TASK
    completed_task, deleted_task = TASK.complete(NOON), TASK.delete(NOON)
    assert completed_task is completed_task.complete(ONE_O_CLOCK)
    assert deleted_task is deleted_task.delete(ONE_O_CLOCK)


def test_an_open_task_is_overdue_after_its_due_date() -> None:
    days = [date(2026, 3, 9), date(2026, 3, 10), date(2026, 3, 11)]
    assert [TASK.is_overdue(day) for day in days] == [False, False, True]
    assert not TASK.complete(NOON).is_overdue(days[2])
    assert not TASK.delete(NOON).is_overdue(days[2])
