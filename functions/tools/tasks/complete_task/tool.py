"""Complete tasks of the caller's to-do list, or reopen them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, WithJsonSchema

from shared.core.caller import Tier
from shared.core.errors import InvalidInput, NotFound
from shared.runtime.schemas import Arguments, IdempotentArguments
from shared.runtime.tool import Effect, Tool
from shared.tasks.changes import (
    Step,
    active,
    change,
    checked,
    done,
    failed,
    undo_by,
)
from shared.tasks.contract import ENVELOPE, MOST, ItemResult, OneOrMany, TaskId, own_tasks
from shared.tasks.model import Status, Task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.runtime.schemas import Undo
    from shared.tasks.repository import StoredTask


class Which(Arguments):
    """One of several tasks."""

    task_id: TaskId = Field(description="Its id.")


_Item = Annotated[Any, WithJsonSchema(Which.model_json_schema()["properties"]["task_id"])]
"""Each is checked by itself, so that one that is wrong does not keep the others from being done."""


class In(IdempotentArguments):
    """Which tasks, and whether they are done."""

    task_id: TaskId | None = Field(
        default=None, description="The task's id, as list_tasks and add_task return it."
    )
    task_ids: list[_Item] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST,
        description="Up to 25 ids at once, in place of task_id. One that is wrong keeps no other"
        " from being done.",
    )
    completed: bool = Field(default=True, description="False reopens what was completed.")


async def complete_task(args: In, ctx: Context) -> OneOrMany:
    """Complete or reopen tasks: two round trips, all of them at once and one commit."""
    decide = Task.complete if args.completed else Task.reopen
    step = Step(find=active, decide=decide, reverse=_reverse)
    match args.task_id, args.task_ids:
        case int(number), None:
            return await change(number, step, ctx, OneOrMany.one)
        case None, [*items]:
            return await _complete(items, step, ctx)
    raise InvalidInput(
        "complete_task was not run: it takes task_id for one task or task_ids for several, and"
        " not both.",
        details={"task_id": "give either this or task_ids"},
    )


async def _complete(items: Sequence[Any], step: Step, ctx: Context) -> OneOrMany:
    tasks = own_tasks(ctx)
    wanted = [checked(Which, {"task_id": each}, TOOL.name) for each in items]
    numbers = {each.task_id for each in wanted if isinstance(each, Which)}

    async def attempt() -> OneOrMany:
        now, found = ctx.clock(), await tasks.get_all(numbers)
        took = {number: _take(step, found.get(number), number, now) for number in numbers}
        result = OneOrMany.many(
            [took[each.task_id][0] if isinstance(each, Which) else each for each in wanted]
        )
        writes = [tasks.change(found[number], task) for number, (_, task) in took.items() if task]
        return await ctx.commit(writes, result) if writes else result

    return await ctx.database.retry_on_conflict(attempt)


def _take(
    step: Step, found: StoredTask | None, number: int, now: datetime
) -> tuple[ItemResult, Task | None]:
    """What becomes of one of several tasks, and what to store if it changes."""
    try:
        changed, after = step.take(found, number, now)
    except NotFound as error:
        return failed(error), None
    return done(changed), after


def _reverse(before: Task, _after: Task) -> Undo:
    return undo_by("complete_task", before.number, completed=before.status is Status.COMPLETED)


TOOL = Tool(
    name="complete_task",
    title="Complete a task",
    description=(
        "Mark a task of the user's to-do list as done, or up to 25 at once with task_ids. With"
        " completed false it is to be done again. A task that is like this already stays as it is,"
        " and that is no error. Find the ids with list_tasks. To put a task away that will not be"
        " done, use delete_task."
    ),
    input=In,
    output=OneOrMany,
    run=complete_task,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    envelope=ENVELOPE,
)
