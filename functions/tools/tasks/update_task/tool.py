"""Change what a task of the caller's to-do list says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from shared.core.caller import Tier
from shared.core.errors import InvalidInput
from shared.runtime.schemas import IdempotentArguments
from shared.runtime.tool import Effect, Tool
from shared.tasks.changes import EDITABLE, Step, active, as_it_is, change, changed_fields, undo_by
from shared.tasks.contract import ENVELOPE, Changed, Day, Description, PriorityName, TaskId, Title

if TYPE_CHECKING:
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.runtime.schemas import Undo
    from shared.tasks.model import Task


def _absent() -> Any:
    """What stands for a field that is not given: nobody looks at it."""
    return None


class In(IdempotentArguments):
    """Which task, and what is to change. A field that is not given stays as it is."""

    task_id: TaskId = Field(description="The task's id, as list_tasks and add_task return it.")
    title: Title = Field(
        default_factory=_absent,
        description="What is to be done, in one line of 1 to 255 characters; it is trimmed.",
    )
    description: Description | None = Field(
        default_factory=_absent,
        description="More about the task, up to 1,000 characters; null takes it away.",
    )
    priority: PriorityName = Field(default_factory=_absent, description="Low, Medium or High.")
    due_date: Day | None = Field(
        default_factory=_absent,
        description="The last day on which it is not late, as YYYY-MM-DD; null takes it away.",
    )

    @property
    def changes(self) -> dict[str, Any]:
        """The fields that were given."""
        return {name: getattr(self, name) for name in EDITABLE if name in self.model_fields_set}


async def update_task(args: In, ctx: Context) -> Changed:
    """Change a task: two round trips, the task and the commit."""
    if not args.changes:
        raise InvalidInput(
            f"update_task was not run: there is nothing to change. Give {', '.join(EDITABLE)},"
            " or some of them.",
            details={"task_id": "given without anything to change"},
        )

    def edit(task: Task, now: datetime) -> Task:
        edited = replace(task, **args.changes)
        return edited if edited == task else replace(edited, updated_at=now)

    step = Step(find=active, decide=edit, reverse=_reverse)
    return await change(args.task_id, step, ctx, as_it_is)


def _reverse(before: Task, after: Task) -> Undo:
    former = {name: getattr(before, name) for name in changed_fields(before, after)}
    return undo_by("update_task", before.number, **former)


TOOL = Tool(
    name="update_task",
    title="Change a task",
    description=(
        "Change the title, description, priority or due date of a task of the user's to-do list."
        " Give only what is to change; null takes a description or a due date away. To say that it"
        " is done, use complete_task; find its id with list_tasks."
    ),
    input=In,
    output=Changed,
    run=update_task,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    envelope=ENVELOPE,
)
