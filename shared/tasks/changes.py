"""Changes tasks of a to-do list, and tells the caller how to undo each change.

A change is written only if no other call has changed the task since it was read. Some tools take
several tasks in one call. Each of them is called an item, and can fail without the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic_core import to_jsonable_python

from shared.core.errors import CarrelError, InvalidInput, NotFound
from shared.runtime.invocation import parse_arguments
from shared.runtime.messages import WireError
from shared.runtime.schemas import Undo
from shared.tasks.schemas import (
    ENVELOPE,
    ChangedTask,
    ItemError,
    TaskItemResult,
    TaskView,
    get_own_tasks,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.runtime.schemas import Arguments, Result
    from shared.tasks.model import Task
    from shared.tasks.repository import StoredTask

    Requirement = Callable[[StoredTask | None, int, datetime], StoredTask]
    """Given the stored task (or None), its number and the present time, returns the task or raises
    `NotFound`."""
    Transition = Callable[[Task, datetime], Task]
    """Given a task and the present time, returns the changed task."""
    MakeUndo = Callable[[Task, Task], Undo]
    """Given a task before and after a change, returns the call that undoes the change."""
    ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)
    ResultT = TypeVar("ResultT", bound=Result)

EDITABLE_FIELDS: Final = ("title", "description", "priority", "due_date")
"""The fields that a user writes."""
CHANGEABLE_FIELDS: Final = (*EDITABLE_FIELDS, "status")
"""The fields whose changes are reported to the caller: all except the number and the times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOperation:
    """The change that a tool makes to a task.

    Attributes:
        require: Checks that the task can be changed: `require_active` or `require_existing`.
        apply: Returns the changed task, or the same task if there is nothing to change.
        undo: Returns the call that restores the previous task.
    """

    require: Requirement
    apply: Transition
    undo: MakeUndo

    def run(
        self, stored: StoredTask | None, number: int, now: datetime
    ) -> tuple[ChangedTask, Task | None]:
        """Apply the change, and return the result and the task to store.

        The task to store is None if nothing changed.

        Raises:
            NotFound: The task does not meet the requirement.
        """
        before = self.require(stored, number, now).task
        after = self.apply(before, now)
        fields = list_changed_fields(before, after)
        undo = self.undo(before, after) if fields else None
        result = ChangedTask(task=TaskView.of_task(after), changed=fields, undo=undo)
        return result, after if fields else None


async def change_task(number: int, operation: TaskOperation, ctx: Context) -> ChangedTask:
    """Change one task, and return it with the call that undoes the change.

    See `change_task_as`.
    """
    return await change_task_as(lambda result: result, number, operation, ctx)


async def change_task_as(
    to_result: Callable[[ChangedTask], ResultT], number: int, operation: TaskOperation, ctx: Context
) -> ResultT:
    """Change one task, and return the tool's result.

    Costs two round trips: the read of the task and the commit. There is no commit if nothing
    changed.

    Args:
        to_result: Converts the changed task to the tool's result. The result is stored, so that a
            repeated call returns the same.

    Raises:
        NotFound: The task does not exist.
        Unavailable: Every attempt failed because another call changed the task.
    """
    tasks = get_own_tasks(ctx)

    async def attempt() -> ResultT:
        stored = (await tasks.get_all([number])).get(number)
        changed_task, after = operation.run(stored, number, ctx.clock())
        result = to_result(changed_task)
        if not stored or not after:
            return result
        return await ctx.commit([tasks.build_update_write(stored, after)], result)

    return await ctx.database.retry_on_conflict(attempt)


def list_changed_fields(before: Task, after: Task) -> list[str]:
    """List the names of the fields, except times, that differ before and after a change."""
    return [name for name in CHANGEABLE_FIELDS if getattr(before, name) != getattr(after, name)]


def build_undo(tool: str, number: int, **arguments: Any) -> Undo:
    """Build the description of the call that undoes a change."""
    json_arguments = {name: to_jsonable_python(value) for name, value in arguments.items()}
    return Undo(tool=tool, arguments={"task_id": str(number), **json_arguments})


def require_existing(stored: StoredTask | None, number: int, now: datetime) -> StoredTask:
    """Require that a task exists, even if it is deleted.

    Raises:
        NotFound: The task does not exist, or can no longer be restored.
    """
    if stored is None or stored.task.is_expired(now):
        raise NotFound(
            f"There is no task {number}. Find task ids with list_tasks.",
            details={"task_id": str(number)},
        )
    return stored


def require_active(stored: StoredTask | None, number: int, now: datetime) -> StoredTask:
    """Require that a task exists and is not deleted.

    Raises:
        NotFound: The task does not exist or is deleted. If it can be restored, the message says so.
    """
    existing = require_existing(stored, number, now)
    if existing.task.purge_at:
        raise NotFound(
            f"Task {number} is deleted. Until {existing.task.purge_at:%Y-%m-%d %H:%M} UTC"
            " restore_task can bring it back.",
            details={"task_id": str(number)},
        )
    return existing


def parse_item(schema: type[ArgumentsT], item: Any, tool: str) -> ArgumentsT | TaskItemResult:
    """Validate an item. Return its arguments, or a failed result if they are not valid."""
    if not isinstance(item, dict):
        fields = ", ".join(schema.model_fields)
        return make_failed_item(
            InvalidInput("", details={"item": f"must be an object with {fields}"})
        )
    try:
        return parse_arguments(schema, item, tool)
    except InvalidInput as error:
        return make_failed_item(error)


def make_completed_item(changed: ChangedTask) -> TaskItemResult:
    """Return the result of an item that succeeded."""
    return TaskItemResult(success=True, error=None, **dict(changed))


def make_failed_item(error: CarrelError) -> TaskItemResult:
    """Return the result of an item that failed. If fields are invalid, the message lists them."""
    fields = ENVELOPE.translate_error(WireError.model_validate(error.to_wire()))
    if isinstance(error, InvalidInput):
        fields["message"] = "; ".join(f"{name}: {reason}" for name, reason in error.details.items())
    return TaskItemResult(
        success=False, task=None, changed=None, undo=None, error=ItemError(**fields)
    )
