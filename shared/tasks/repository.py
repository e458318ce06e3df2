"""Tasks of to-do lists in Firestore: `users/{user_id}/tasks/{number}`.

The path contains the user, so that no query can return the tasks of another user. The counter
`users/{user_id}/counters/tasks` stores the last number, and the digests of the tasks added last, by
which a repeated call is recognized.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from shared.firestore.codec import Codec
from shared.firestore.documents import Document, Reference
from shared.firestore.queries import Query
from shared.firestore.retention import PURGE_AT
from shared.firestore.writes import Create, Write, put_if_unchanged
from shared.tasks.model import Priority, Task, TaskStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shared.firestore.database import Database

TaskKey = tuple[int, str | None]
"""The number of a task, and its due date as YYYY-MM-DD."""
MAX_RECENT: Final = 25
"""So many of the tasks added last are compared with a new one. It is as many as one call adds."""
_CODEC: Final = Codec(Task, readers={"priority": Priority, "due_date": date.fromisoformat})


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as it was read.

    Attributes:
        snapshot: The task's document. A write fails if the document has changed since.
    """

    task: Task
    snapshot: Document


@dataclass(frozen=True, slots=True)
class TaskCounter:
    """The counter that numbers a user's tasks.

    Attributes:
        last: The number of the last added task, or 0 if there is none.
        recent: The numbers of the tasks added last, by the digest of what each said when added.
        snapshot: The counter's document. A write fails if the document has changed since.
    """

    last: int
    recent: dict[str, int]
    snapshot: Document


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks to list. A task must meet all conditions.

    Attributes:
        statuses: The accepted statuses, at least one.
        by_due_date: Whether the earliest due date comes first, and tasks without one last, instead
            of the newest task.
    """

    statuses: Sequence[TaskStatus]
    priority: Priority | None = None
    due_from: date | None = None
    due_to: date | None = None
    by_due_date: bool = False


class Tasks:
    """One user's tasks, and the writes that change them."""

    def __init__(self, database: Database, user_id: str) -> None:
        self._database = database
        self._collection = f"users/{user_id}/tasks"
        self._counters = f"users/{user_id}/counters"

    async def get_all(self, numbers: Iterable[int]) -> dict[int, StoredTask]:
        """Load those of these tasks that exist, including deleted ones, by number.

        Costs one Firestore round trip.
        """
        references = [Reference(self._collection, str(number)) for number in numbers]
        snapshots = await self._database.get_all(references)
        return {
            int(snapshot.id): StoredTask(_to_task(snapshot), snapshot) for snapshot in snapshots
        }

    async def get_counter(self) -> TaskCounter:
        """Load the counter. Costs one Firestore round trip."""
        snapshot = await self._database.get(Reference(self._counters, "tasks"))
        fields = snapshot.fields
        return TaskCounter(fields.get("last", 0), fields.get("recent", {}), snapshot)

    async def load_page(
        self, task_filter: TaskFilter, size: int, after: TaskKey | None
    ) -> list[Task]:
        """Load the first tasks, or those after a task.

        Costs one Firestore round trip, or two by due date, if the page reaches tasks without one.
        """
        last_undated = after if task_filter.by_due_date and after and after[1] is None else None
        query = filter_query(self._collection, task_filter)
        tasks = [] if last_undated else await self._find(query, size, after)
        has_range = task_filter.due_from or task_filter.due_to
        if task_filter.by_due_date and not has_range and len(tasks) < size:
            query = undated_query(self._collection, task_filter)
            tasks += await self._find(query, size - len(tasks), last_undated)
        return tasks

    async def _find(self, query: Query, size: int, after: TaskKey | None) -> list[Task]:
        if after:
            query = query.start_after({"number": after[0], "due_date": after[1]})
        return [_to_task(snapshot) for snapshot in await self._database.find(query.limit(size))]

    async def count(self, task_filter: TaskFilter) -> int:
        """Count the tasks that meet all conditions. Costs one Firestore round trip."""
        in_any_order = replace(task_filter, by_due_date=False)  # with those without a due date
        return await self._database.count(filter_query(self._collection, in_any_order))

    def build_creation_writes(self, counter: TaskCounter, tasks: Sequence[Task]) -> list[Write]:
        """Build the writes that store new tasks and advance the counter to the last number."""
        recent = counter.recent | {task.digest: task.number for task in tasks}
        numbers = sorted(recent.values())[-MAX_RECENT:]
        recent = {digest: number for digest, number in recent.items() if number in numbers}
        return [
            put_if_unchanged(
                counter.snapshot, {"last": counter.last + len(tasks), "recent": recent}
            ),
            *(self._build_creation(task) for task in tasks),
        ]

    def build_update_write(self, stored: StoredTask, task: Task) -> Write:
        """Build the write that replaces a task."""
        return put_if_unchanged(stored.snapshot, _to_fields(task))

    def _build_creation(self, task: Task) -> Write:
        reference = Reference(self._collection, str(task.number))
        return Create(reference, _to_fields(task))


def _to_fields(task: Task) -> dict[str, Any]:
    """Return the stored fields of a task.

    In addition to the task's own fields, these are `state`, by which queries filter, and
    `purge_at`, by which Firestore deletes tasks.
    """
    return _CODEC.write(task) | {"state": task.status.value, PURGE_AT: task.purge_at}


def _to_task(snapshot: Document) -> Task:
    return _CODEC.load(snapshot.fields)


def make_task_key(task: Task) -> TaskKey:
    """Return the key of a task, for the page that continues after it."""
    return task.number, task.due_date.isoformat() if task.due_date else None


def filter_query(collection: str, task_filter: TaskFilter) -> Query:
    """Build the query for tasks, in descending order of their numbers or by due date.

    An order by numbers includes the due date, too. That does not change it, because numbers are
    unique, but lets the same indexes serve queries with and without a range of dates.
    """
    by_due_date = task_filter.by_due_date
    due_from = task_filter.due_from or (date.min if by_due_date else None)
    query = _query_states(collection, task_filter)
    for path, comparison, operand in (
        ("due_date", ">=", due_from and due_from.isoformat()),
        ("due_date", "<=", task_filter.due_to and task_filter.due_to.isoformat()),
    ):
        if operand:
            query = query.where(path, comparison, operand)
    for path in ("due_date", "number") if by_due_date else ("number", "due_date"):
        query = query.order_by(path, descending=not by_due_date)
    return query


def undated_query(collection: str, task_filter: TaskFilter) -> Query:
    """Build the query for tasks without a due date, in the order of their numbers."""
    return _query_states(collection, task_filter).where("due_date", "==", None).order_by("number")


def _query_states(collection: str, task_filter: TaskFilter) -> Query:
    states = [status.value for status in task_filter.statuses]
    query = Query(collection).where("state", "in", states)
    priority = task_filter.priority
    return query.where("priority", "==", priority.value) if priority else query
