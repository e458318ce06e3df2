"""Bring back a deleted task of the caller's to-do list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.runtime.schemas import IdempotentArguments
from shared.runtime.tool import Effect, Tool
from shared.tasks.changes import Step, as_it_is, change, existing, undo_by
from shared.tasks.contract import ENVELOPE, Changed, TaskId
from shared.tasks.model import Task

if TYPE_CHECKING:
    from shared.runtime.context import Context


class In(IdempotentArguments):
    """Which task."""

    task_id: TaskId = Field(
        description="The task's id, as delete_task and list_tasks with status deleted return it."
    )


async def restore_task(args: In, ctx: Context) -> Changed:
    """Restore a task: two round trips, the task and the commit."""
    step = Step(
        find=existing,
        decide=Task.restore,
        reverse=lambda before, _: undo_by("delete_task", before.number),
    )
    return await change(args.task_id, step, ctx, as_it_is)


TOOL = Tool(
    name="restore_task",
    title="Restore a task",
    description=(
        "Bring back a task that delete_task deleted less than 30 days ago, open or completed as it"
        " was. Find deleted tasks with list_tasks and status deleted. A task that is not deleted"
        " stays as it is, and that is no error; after 30 days it is not_found."
    ),
    input=In,
    output=Changed,
    run=restore_task,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    envelope=ENVELOPE,
)
