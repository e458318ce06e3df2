"""Change fields of a task on the caller's to-do list."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from shared.core.caller import Tier
from shared.core.errors import InvalidInput
from shared.runtime.schemas import IdempotentArguments
from shared.runtime.tool import Effect, Tool
from shared.tasks.changes import (
    EDITABLE_FIELDS,
    TaskOperation,
    build_undo,
    change_task,
    list_changed_fields,
    require_active,
)
from shared.tasks.schemas import (
    ENVELOPE,
    CalendarDate,
    ChangedTask,
    PriorityName,
    TaskDescription,
    TaskId,
    TaskTitle,
)

if TYPE_CHECKING:
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.runtime.schemas import Undo
    from shared.tasks.model import Task


def _default_to_none() -> Any:
    """Return a placeholder for a field that is not given. `In.changes` leaves such fields out.

    A default factory, unlike `default=None`, adds no `"default": null` to the JSON schema, where
    null would be invalid or remove the field.
    """
    return None


class In(IdempotentArguments):
    """Which task to change, and its new fields. Fields that are left out do not change."""

    task_id: TaskId = Field(description="From list_tasks.")
    title: TaskTitle = Field(
        default_factory=_default_to_none,
        description="What to do, in one line.",
    )
    description: TaskDescription | None = Field(
        default_factory=_default_to_none,
        description="null removes it.",
    )
    priority: PriorityName = Field(
        default_factory=_default_to_none, description="Low, Medium or High."
    )
    due_date: CalendarDate | None = Field(
        default_factory=_default_to_none,
        description="YYYY-MM-DD; null removes it.",
    )

    @property
    def changes(self) -> dict[str, Any]:
        """The new values of the fields that are given, by name."""
        given_fields = self.model_fields_set
        return {name: getattr(self, name) for name in EDITABLE_FIELDS if name in given_fields}


async def update_task(args: In, ctx: Context) -> ChangedTask:
    """Change a task. Costs two round trips: the read of the task and the commit."""
    if not args.changes:
        raise InvalidInput(
            "update_task was not run: there is nothing to change. Give one or more of"
            f" {', '.join(EDITABLE_FIELDS)}.",
            details={"task_id": "given without a field to change"},
        )

    def edit(task: Task, now: datetime) -> Task:
        edited = replace(task, **args.changes)
        return edited if edited == task else replace(edited, updated_at=now)

    operation = TaskOperation(require=require_active, apply=edit, undo=_build_restoring_undo)
    return await change_task(args.task_id, operation, ctx)


def _build_restoring_undo(before: Task, after: Task) -> Undo:
    """Build the undo that restores the previous values of the changed fields."""
    previous_values = {name: getattr(before, name) for name in list_changed_fields(before, after)}
    return build_undo("update_task", before.number, **previous_values)


TOOL = Tool(
    name="update_task",
    title="Change a task",
    description=(
        "Change the title, description, priority or due date of a task on the user's to-do list."
        " To mark it as done, use complete_task."
    ),
    input=In,
    output=ChangedTask,
    run=update_task,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    envelope=ENVELOPE,
)
