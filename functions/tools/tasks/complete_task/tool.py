"""Complete or reopen tasks on the caller's to-do list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, WithJsonSchema

from shared.core.caller import Tier
from shared.core.errors import InvalidInput, NotFound
from shared.runtime.schemas import Arguments, IdempotentArguments
from shared.runtime.tool import Effect, Tool
from shared.tasks.changes import (
    TaskOperation,
    build_undo,
    change_task_as,
    make_completed_item,
    make_failed_item,
    parse_item,
    require_active,
)
from shared.tasks.model import Task, TaskStatus
from shared.tasks.schemas import (
    ENVELOPE,
    MAX_TASKS,
    TaskId,
    TaskItemResult,
    TaskResults,
    get_own_tasks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.runtime.schemas import Undo
    from shared.tasks.repository import StoredTask


class TaskRef(Arguments):
    """The id of one of several tasks."""

    task_id: TaskId = Field(description="The task's id.")


_UncheckedTaskId = Annotated[
    Any, WithJsonSchema(TaskRef.model_json_schema()["properties"]["task_id"])
]
"""An id that the handler validates by itself, so an invalid one does not fail the others."""


class In(IdempotentArguments):
    """Which tasks, and whether to complete or to reopen them."""

    task_id: TaskId | None = Field(default=None, description="From list_tasks.")
    task_ids: list[_UncheckedTaskId] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_TASKS,
        description=f"Up to {MAX_TASKS}, instead of task_id.",
    )
    completed: bool = Field(default=True, description="false reopens a completed task.")


async def complete_task(args: In, ctx: Context) -> TaskResults:
    """Complete or reopen tasks. Costs two round trips: the read of all tasks and the commit."""
    transition = Task.complete if args.completed else Task.reopen
    operation = TaskOperation(require=require_active, apply=transition, undo=_build_undo)
    match args.task_id, args.task_ids:
        case int(task_id), None:
            return await change_task_as(TaskResults.one, task_id, operation, ctx)
        case None, [*task_ids]:
            return await _change_many(task_ids, operation, ctx)
    raise InvalidInput(
        "complete_task was not run: give either task_id for one task, or task_ids for several.",
        details={"task_id": "give either this or task_ids"},
    )


async def _change_many(
    task_ids: Sequence[Any], operation: TaskOperation, ctx: Context
) -> TaskResults:
    """Change several tasks in one commit. An invalid or unknown id fails alone."""
    repository = get_own_tasks(ctx)
    refs = [parse_item(TaskRef, {"task_id": task_id}, TOOL.name) for task_id in task_ids]
    valid_ids = {ref.task_id for ref in refs if isinstance(ref, TaskRef)}

    async def attempt() -> TaskResults:
        now = ctx.clock()
        stored_tasks = await repository.get_all(valid_ids)
        outcomes = {
            task_id: _change(operation, stored_tasks.get(task_id), task_id, now)
            for task_id in valid_ids
        }
        item_results = {task_id: item_result for task_id, (item_result, _) in outcomes.items()}
        result = TaskResults.many(
            [item_results[ref.task_id] if isinstance(ref, TaskRef) else ref for ref in refs]
        )
        writes = [
            repository.build_update_write(stored_tasks[task_id], task)
            for task_id, (_, task) in outcomes.items()
            if task
        ]
        return await ctx.commit(writes, result) if writes else result

    return await ctx.database.retry_on_conflict(attempt)


def _change(
    operation: TaskOperation, stored_task: StoredTask | None, task_id: int, now: datetime
) -> tuple[TaskItemResult, Task | None]:
    """Change one of several tasks. Return its result, and the task to store if the task changed.

    A task that does not exist or was deleted fails alone. Any other error fails the whole call.
    """
    try:
        change, changed_task = operation.run(stored_task, task_id, now)
    except NotFound as error:
        return make_failed_item(error), None
    return make_completed_item(change), changed_task


def _build_undo(before: Task, _after: Task) -> Undo:
    was_completed = before.status is TaskStatus.COMPLETED
    return build_undo("complete_task", before.number, completed=was_completed)


TOOL = Tool(
    name="complete_task",
    title="Complete a task",
    description=(
        f"Mark a task as completed, or up to {MAX_TASKS} with task_ids; completed false reopens it."
        " For a task that will not be done use delete_task."
    ),
    input=In,
    output=TaskResults,
    run=complete_task,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    idempotent=True,
    envelope=ENVELOPE,
)
