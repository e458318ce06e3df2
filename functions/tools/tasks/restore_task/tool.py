"""Restore a deleted task of the caller's to-do list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.runtime.schemas import IdempotentArguments
from shared.runtime.tool import Effect, Tool
from shared.tasks.changes import TaskOperation, build_undo, change_task, require_existing
from shared.tasks.model import DELETED_TASKS, Task
from shared.tasks.schemas import ENVELOPE, ChangedTask, TaskId

if TYPE_CHECKING:
    from shared.runtime.context import Context


class In(IdempotentArguments):
    """Which task to restore."""

    task_id: TaskId = Field(description="From list_tasks, with status deleted.")


async def restore_task(args: In, ctx: Context) -> ChangedTask:
    """Restore a task. Costs two round trips: the read of the task and the commit."""
    operation = TaskOperation(
        require=require_existing,
        apply=Task.restore,
        undo=lambda before, _: build_undo("delete_task", before.number),
    )
    return await change_task(args.task_id, operation, ctx)


TOOL = Tool(
    name="restore_task",
    title="Restore a task",
    description=(
        f"Restore a task that delete_task deleted in the last {DELETED_TASKS.period}. To reopen a"
        " completed task use complete_task with completed false."
    ),
    input=In,
    output=ChangedTask,
    run=restore_task,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    envelope=ENVELOPE,
)
