"""Delete a task from the caller's to-do list, where it can be restored for some time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.runtime.schemas import IdempotentArguments
from shared.runtime.tool import Effect, Tool
from shared.tasks.changes import TaskOperation, build_undo, change_task, require_active
from shared.tasks.model import DELETED_TASKS, Task
from shared.tasks.schemas import ENVELOPE, ChangedTask, TaskId

if TYPE_CHECKING:
    from shared.runtime.context import Context


class In(IdempotentArguments):
    """Which task to delete."""

    task_id: TaskId = Field(description="From list_tasks.")


async def delete_task(args: In, ctx: Context) -> ChangedTask:
    """Delete a task. Costs two round trips: the read of the task and the commit."""
    operation = TaskOperation(
        require=require_active,
        apply=Task.delete,
        undo=lambda before, _: build_undo("restore_task", before.number),
    )
    return await change_task(args.task_id, operation, ctx)


TOOL = Tool(
    name="delete_task",
    title="Delete a task",
    description=(
        "Delete a task of the user's to-do list that will not be done; for"
        f" {DELETED_TASKS.period} restore_task brings it back. For a task that is done use"
        " complete_task."
    ),
    input=In,
    output=ChangedTask,
    run=delete_task,
    effect=Effect.DESTROY,
    tier=Tier.REGISTERED,
    envelope=ENVELOPE,
)
