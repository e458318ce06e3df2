"""Delete a task of the caller's to-do list, so that it can be restored for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from shared.core.caller import Tier
from shared.runtime.schemas import IdempotentArguments
from shared.runtime.tool import Effect, Tool
from shared.tasks.changes import Step, active, as_it_is, change, undo_by
from shared.tasks.contract import ENVELOPE, Changed, TaskId
from shared.tasks.model import Task

if TYPE_CHECKING:
    from shared.runtime.context import Context


class In(IdempotentArguments):
    """Which task."""

    task_id: TaskId = Field(description="The task's id, as list_tasks and add_task return it.")


async def delete_task(args: In, ctx: Context) -> Changed:
    """Delete a task: two round trips, the task and the commit."""
    step = Step(
        find=active,
        decide=Task.delete,
        reverse=lambda before, _: undo_by("restore_task", before.number),
    )
    return await change(args.task_id, step, ctx, as_it_is)


TOOL = Tool(
    name="delete_task",
    title="Delete a task",
    description=(
        "Delete a task of the user's to-do list: one that will not be done, or was a mistake. What"
        " was done is completed with complete_task instead, and stays in the list. For 30 days"
        " restore_task brings a deleted task back. One that is deleted already is not_found."
    ),
    input=In,
    output=Changed,
    run=delete_task,
    effect=Effect.DESTROY,
    tier=Tier.REGISTERED,
    envelope=ENVELOPE,
)
