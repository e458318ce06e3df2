"""`users/{user_id}/tasks/{number}`: a user's tasks. `users/{user_id}/counters/tasks` numbers them.

Tasks of somebody else have other paths: nobody can ask for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from google.cloud.firestore_v1.base_query import BaseQuery, FieldFilter

from shared.firestore.codec import Codec
from shared.firestore.writes import put_if_unchanged
from shared.tasks.model import Priority, Status, Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from google.cloud.firestore import AsyncClient, AsyncQuery, DocumentSnapshot

    from shared.firestore.database import Database, Write

_DOWN: Final = BaseQuery.DESCENDING


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as it was read.

    Attributes:
        task: The task.
        seen: Its document, by which a change of it knows whether another came first.
    """

    task: Task
    seen: DocumentSnapshot[Any]


@dataclass(frozen=True, slots=True)
class Counter:
    """How many tasks a user ever had.

    Attributes:
        last: The number of the last one; 0 before the first.
        seen: Its document.
    """

    last: int
    seen: DocumentSnapshot[Any]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tasks to list.

    Attributes:
        statuses: One of these; at least one.
        priority: Of this priority; None: of any.
        due_from: Due on this day or later; None: no bound.
        due_to: Due on this day or earlier; None: no bound.
    """

    statuses: Sequence[Status]
    priority: Priority | None = None
    due_from: date | None = None
    due_to: date | None = None


class Tasks:
    """One user's tasks."""

    def __init__(self, database: Database, user_id: str) -> None:
        """Keep them under the path of their user."""
        self._database = database
        self._collection = f"users/{user_id}/tasks"
        self._counters = f"users/{user_id}/counters"

    async def get_all(self, numbers: Iterable[int]) -> dict[int, StoredTask]:
        """Those of these tasks that exist, deleted ones too. One round trip."""
        references = [self._database.document(self._collection, str(each)) for each in numbers]
        snapshots = await self._database.get_all(references)
        return {int(each.id): StoredTask(_to_task(each), each) for each in snapshots}

    async def counter(self) -> Counter:
        """The number of the last task that was ever added. One round trip."""
        seen = await self._database.get(self._database.document(self._counters, "tasks"))
        return Counter(seen.get("last") if seen.exists else 0, seen)

    async def page(self, selection: Selection, size: int, after: int | None) -> list[Task]:
        """The newest tasks of a selection, or those next older than a number. One round trip."""
        client = self._database.client
        query = page_query(client, self._collection, selection, size, after)
        return [_to_task(each) for each in await self._database.find(query)]

    def add(self, counter: Counter, tasks: Sequence[Task]) -> list[Write]:
        """The writes that add tasks, which the counter numbers from its next number on."""
        return [
            put_if_unchanged(counter.seen, {"last": counter.last + len(tasks)}),
            *(self._create(task) for task in tasks),
        ]

    def change(self, stored: StoredTask, task: Task) -> Write:
        """The write that puts a task in the place of what was read."""
        return put_if_unchanged(stored.seen, _fields(task))

    def _create(self, task: Task) -> Write:
        reference = self._database.document(self._collection, str(task.number))
        return lambda batch: batch.create(reference, _fields(task))


_CODEC: Final = Codec(Task, readers={"priority": Priority, "due_date": date.fromisoformat})


def _fields(task: Task) -> dict[str, Any]:
    """A task as it is stored, with what lists and expiry go by."""
    return _CODEC.write(task) | {"state": task.status.value, "purge_at": task.purge_at}


def _to_task(snapshot: DocumentSnapshot[Any]) -> Task:
    return _CODEC.load(snapshot.to_dict() or {})


def page_query(
    client: AsyncClient, collection: str, selection: Selection, size: int, after: int | None
) -> AsyncQuery:
    """Tasks, those with the highest number first.

    No number comes twice, so that the date decides nothing in the order: it stands there so that
    the same indexes serve with a range of dates and without.
    """
    states = [status.value for status in selection.statuses]
    query = client.collection(collection).where(filter=FieldFilter("state", "in", states))
    for path, comparison, value in (
        ("priority", "==", selection.priority and selection.priority.value),
        ("due_date", ">=", selection.due_from and selection.due_from.isoformat()),
        ("due_date", "<=", selection.due_to and selection.due_to.isoformat()),
    ):
        if value:
            query = query.where(filter=FieldFilter(path, comparison, value))
    query = query.order_by("number", direction=_DOWN).order_by("due_date", direction=_DOWN)
    if after is not None:
        query = query.start_after({"number": after})
    return query.limit(size)


def query_shapes(client: AsyncClient) -> Iterator[AsyncQuery]:
    """Every query this file can build, for the proof that each has its index."""
    day = date(2025, 1, 1)
    for statuses in ([Status.OPEN], [Status.OPEN, Status.COMPLETED]):
        for priority in (None, Priority.HIGH):
            for first, last in ((None, None), (day, None), (None, day), (day, day)):
                selection = Selection(statuses, priority, first, last)
                yield page_query(client, "users/a/tasks", selection, 1, None)
                yield page_query(client, "users/a/tasks", selection, 1, 1)
