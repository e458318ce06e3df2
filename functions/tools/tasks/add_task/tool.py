"""Add tasks to the caller's to-do list."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, WithJsonSchema

from shared.core.caller import Tier
from shared.core.errors import InvalidInput
from shared.runtime.schemas import EMPTY_IS_ABSENT, Arguments, IdempotentArguments
from shared.runtime.tool import Effect, Tool
from shared.tasks.changes import CHANGEABLE_FIELDS, build_undo, make_completed_item, parse_item
from shared.tasks.model import Priority, Task, TaskStatus
from shared.tasks.schemas import (
    ENVELOPE,
    MAX_TASKS,
    CalendarDate,
    ChangedTask,
    PriorityName,
    TaskDescription,
    TaskItemResult,
    TaskResults,
    TaskTitle,
    TaskView,
    get_own_tasks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.tasks.repository import TaskCounter, Tasks


class TaskFields(Arguments):
    """The fields of a task to add."""

    title: TaskTitle | None = Field(
        default=None,
        json_schema_extra=EMPTY_IS_ABSENT,
        description="What to do, in one line.",
    )
    description: TaskDescription | None = Field(default=None, description="Details.")
    priority: PriorityName | None = Field(default=Priority.MEDIUM, description="Low, Medium, High.")
    due_date: CalendarDate | None = Field(
        default=None,
        description="YYYY-MM-DD.",
    )


class NewTask(TaskFields):
    """A task to add."""

    title: TaskTitle = Field(description="What to do, in one line.")


_Item = Annotated[Any, WithJsonSchema(NewTask.model_json_schema())]
"""A task that the handler validates by itself, so an invalid one does not fail the others."""


class In(TaskFields, IdempotentArguments):
    """The fields of one task, or several tasks."""

    tasks: list[_Item] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_TASKS,
        description=f"Up to {MAX_TASKS} tasks, instead of one.",
    )

    @property
    def has_task_fields(self) -> bool:
        """Whether a field of a single task is given. Some clients send nulls and defaults."""
        fields = TaskFields.model_fields.items()
        return any(getattr(self, name) not in (None, field.default) for name, field in fields)


async def add_task(args: In, ctx: Context) -> TaskResults:
    """Add tasks, except those that the list has already because the call was repeated.

    Costs two round trips: the read of the counter and the commit of all tasks. A third one reads
    tasks that were added lately and said the same.
    """
    if args.tasks is None:
        return await _add([_to_new_task(args)], ctx, lambda results: TaskResults.one(results[0]))
    if args.has_task_fields:
        raise InvalidInput(
            "add_task was not run: give either tasks, or the title and other fields of one task."
            " Move everything into tasks.",
            details={"tasks": "given beside the fields of one task"},
        )
    items = [parse_item(NewTask, item, TOOL.name) for item in args.tasks]
    new_tasks = [item for item in items if isinstance(item, NewTask)]
    return await _add(
        new_tasks, ctx, lambda results: TaskResults.many(_merge_in_order(items, results))
    )


def _to_new_task(args: In) -> NewTask:
    if args.title is None:
        raise InvalidInput(
            "add_task was not run: give a title, or several tasks in tasks.",
            details={"title": "required, but missing"},
        )
    return NewTask.model_construct(**{name: getattr(args, name) for name in NewTask.model_fields})


async def _add(
    new_tasks: Sequence[NewTask],
    ctx: Context,
    to_result: Callable[[list[ChangedTask]], TaskResults],
) -> TaskResults:
    """Add tasks in one commit, and return what `to_result` makes of the added tasks."""
    repository = get_own_tasks(ctx)
    if not new_tasks:
        return to_result([])

    async def attempt() -> TaskResults:
        counter = await repository.get_counter()
        now = ctx.clock()
        drafts = [_build_task(new_task, 0, now) for new_task in new_tasks]
        open_tasks = await _load_open_tasks(repository, counter, drafts)
        numbers = itertools.count(counter.last + 1)
        tasks = [
            open_tasks.get(draft.digest) or replace(draft, number=next(numbers)) for draft in drafts
        ]
        added = [task for task in tasks if task.number > counter.last]
        result = to_result([_to_changed_task(task, is_new=task in added) for task in tasks])
        if not added:
            return result
        return await ctx.commit(repository.build_creation_writes(counter, added), result)

    return await ctx.database.retry_on_conflict(attempt)


async def _load_open_tasks(
    repository: Tasks, counter: TaskCounter, drafts: Iterable[Task]
) -> dict[str, Task]:
    """Load the tasks that were added lately, still are open, and say the same, by their digest.

    Costs one round trip, or none if no recent task said the same.
    """
    numbers = {counter.recent[draft.digest] for draft in drafts if draft.digest in counter.recent}
    stored = await repository.get_all(numbers) if numbers else {}
    tasks = [item.task for item in stored.values()]
    return {task.digest: task for task in tasks if task.status is TaskStatus.OPEN}


def _build_task(new_task: NewTask, number: int, now: datetime) -> Task:
    return Task(
        number=number,
        title=new_task.title,
        description=new_task.description,
        priority=new_task.priority or Priority.MEDIUM,
        due_date=new_task.due_date,
        created_at=now,
        updated_at=now,
    )


def _to_changed_task(task: Task, *, is_new: bool) -> ChangedTask:
    if not is_new:
        return ChangedTask(task=TaskView.of_task(task), changed=[], undo=None)
    fields = [name for name in CHANGEABLE_FIELDS if getattr(task, name) is not None]
    return ChangedTask(
        task=TaskView.of_task(task), changed=fields, undo=build_undo("delete_task", task.number)
    )


def _merge_in_order(
    items: Sequence[NewTask | TaskItemResult], added_tasks: Iterable[ChangedTask]
) -> list[TaskItemResult]:
    """Merge the failures of invalid tasks with the results of added tasks, in the call's order."""
    remaining = iter(added_tasks)
    return [
        item if isinstance(item, TaskItemResult) else make_completed_item(next(remaining))
        for item in items
    ]


TOOL = Tool(
    name="add_task",
    title="Add a task",
    description=(
        f"Add something to do to the user's to-do list, or up to {MAX_TASKS} with tasks. Do not use"
        " it to keep facts, quotes or notes: use save_note. To change a task use update_task."
    ),
    input=In,
    output=TaskResults,
    run=add_task,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    envelope=ENVELOPE,
)
