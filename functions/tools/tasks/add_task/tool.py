"""Add tasks to the caller's to-do list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, WithJsonSchema

from shared.core.caller import Tier
from shared.core.errors import InvalidInput
from shared.runtime.schemas import Arguments, IdempotentArguments
from shared.runtime.tool import Effect, Tool
from shared.tasks.changes import CHANGEABLE, checked, done, undo_by
from shared.tasks.contract import (
    ENVELOPE,
    MOST,
    Changed,
    Day,
    Description,
    ItemResult,
    OneOrMany,
    PriorityName,
    TaskView,
    Title,
    own_tasks,
)
from shared.tasks.model import Priority, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from shared.runtime.context import Context

    Wanted = tuple[str, "Fields"]
    """A title, and what its task has beside it."""


class Fields(Arguments):
    """What a task may be given."""

    title: Title | None = Field(
        default=None,
        description="What is to be done, in one line of 1 to 255 characters; it is trimmed."
        " Required, unless tasks are given.",
    )
    description: Description | None = Field(
        default=None, description="More about the task, up to 1,000 characters."
    )
    priority: PriorityName | None = Field(
        default=Priority.MEDIUM, description="Low, Medium or High; by default Medium."
    )
    due_date: Day | None = Field(
        default=None,
        description="The last day on which it is not late, as YYYY-MM-DD; it may be past.",
    )


class NewTask(Fields):
    """A task to add."""

    title: Title = Field(
        description="What is to be done, in one line of 1 to 255 characters; it is trimmed."
    )


_Item = Annotated[Any, WithJsonSchema(NewTask.model_json_schema())]
"""Each is checked by itself, so that one that is wrong does not keep the others out."""


class In(Fields, IdempotentArguments):
    """One task, or several."""

    tasks: list[_Item] | None = Field(
        default=None,
        min_length=1,
        max_length=MOST,
        description="Up to 25 tasks at once, in place of title, description, priority and"
        " due_date. One that is wrong keeps no other out.",
    )

    @property
    def says_something(self) -> bool:
        """Whether any field of one task is given; some clients send nulls and defaults."""
        fields = Fields.model_fields.items()
        return any(getattr(self, name) not in (None, field.default) for name, field in fields)


async def add_task(args: In, ctx: Context) -> OneOrMany:
    """Add tasks: two round trips, the counter, and one commit of it and of all that are right."""
    if args.tasks is None:
        return await _add([_only(args)], ctx, lambda added: OneOrMany.one(added[0]))
    if args.says_something:
        raise InvalidInput(
            "add_task was not run: it takes tasks, or the title and the other fields of one task,"
            " but not both. Move everything into tasks.",
            details={"tasks": "given beside the fields of one task"},
        )
    items = [checked(NewTask, each, TOOL.name) for each in args.tasks]
    wanted = [(each.title, each) for each in items if isinstance(each, NewTask)]
    return await _add(wanted, ctx, lambda added: OneOrMany.many(_in_order(items, added)))


def _only(args: In) -> Wanted:
    if args.title is None:
        raise InvalidInput(
            "add_task was not run: it takes a title, or several tasks in tasks.",
            details={"title": "required, but missing"},
        )
    return args.title, args


async def _add(
    wanted: Sequence[Wanted], ctx: Context, answer: Callable[[list[Changed]], OneOrMany]
) -> OneOrMany:
    tasks = own_tasks(ctx)
    if not wanted:
        return answer([])

    async def attempt() -> OneOrMany:
        counter, now = await tasks.counter(), ctx.clock()
        numbered = enumerate(wanted, counter.last + 1)
        new = [_task(each, number, now) for number, each in numbered]
        return await ctx.commit(tasks.add(counter, new), answer([_added(each) for each in new]))

    return await ctx.database.retry_on_conflict(attempt)


def _task(wanted: Wanted, number: int, now: datetime) -> Task:
    title, fields = wanted
    return Task(
        number=number,
        title=title,
        description=fields.description,
        priority=fields.priority or Priority.MEDIUM,
        due_date=fields.due_date,
        created_at=now,
        updated_at=now,
    )


def _added(task: Task) -> Changed:
    fields = [name for name in CHANGEABLE if getattr(task, name) is not None]
    return Changed(
        task=TaskView.of_task(task), changed=fields, undo=undo_by("delete_task", task.number)
    )


def _in_order(items: Sequence[NewTask | ItemResult], added: Iterable[Changed]) -> list[ItemResult]:
    """What became of each item, where those that were right were added in their order."""
    rest = iter(added)
    return [each if isinstance(each, ItemResult) else done(next(rest)) for each in items]


TOOL = Tool(
    name="add_task",
    title="Add a task",
    description=(
        "Add a task to the user's own to-do list, or up to 25 at once with tasks. A task is"
        " something to do, with or without a due date. Do not use it to keep facts, quotes or"
        " notes: no tool stores these yet; the owner adds them to the knowledge base with carrel"
        " ingest. Each call adds anew: look with list_tasks first if the task may be there already,"
        " and change one with update_task. Returns the task with its task_id; of several, what"
        " became of each."
    ),
    input=In,
    output=OneOrMany,
    run=add_task,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    envelope=ENVELOPE,
)
