"""List the tasks of the caller's to-do list."""

from __future__ import annotations

from datetime import date, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, WithJsonSchema

from shared.core.caller import Tier
from shared.core.dates import time_zone
from shared.core.errors import InvalidInput
from shared.core.text_validation import validation_error
from shared.runtime.pagination import (
    CursorCount,
    CursorText,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import Arguments, Result
from shared.runtime.tool import Effect, Tool
from shared.tasks.contract import ENVELOPE, Day, PriorityName, TaskView, own_tasks
from shared.tasks.model import Status, folded
from shared.tasks.repository import Selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.runtime.context import Context
    from shared.tasks.model import Task

BLOCK: Final = 100
"""How many tasks are read at once where not all that are read are shown."""
MOST_READ: Final = 300
"""How many are read in one call, at most."""
_POSITION: Final = TypeAdapter(tuple[CursorCount])
"""The number of the last task that was shown or looked at."""


class Listed(StrEnum):
    """Which tasks, by what has become of them."""

    ALL = "all"
    OPEN = "open"
    COMPLETED = "completed"
    DELETED = "deleted"


_STATUSES: Final = {
    Listed.ALL: (Status.OPEN, Status.COMPLETED),
    Listed.OPEN: (Status.OPEN,),
    Listed.COMPLETED: (Status.COMPLETED,),
    Listed.DELETED: (Status.DELETED,),
}


def _to_listed(value: Any) -> Listed:
    name = value.strip().casefold() if isinstance(value, str) else ""
    if name not in set(Listed):
        raise validation_error(f"must be one of {', '.join(Listed)}")
    return Listed(name)


def _checked_zone(name: str) -> str:
    try:
        time_zone(name)
    except ValueError as error:
        raise validation_error(f"is {error}") from None
    return name


_Listed = Annotated[
    Listed,
    BeforeValidator(_to_listed),
    WithJsonSchema({"type": "string", "maxLength": 40, "examples": list(Listed)}),
]
_Zone = Annotated[
    str,
    AfterValidator(_checked_zone),
    WithJsonSchema({"type": "string", "maxLength": 64, "examples": ["Europe/Berlin"]}),
]


class In(Arguments):
    """Which tasks. All that is given must hold."""

    status: _Listed = Field(
        default=Listed.ALL,
        description="open, completed, all (both, the default), or deleted: those that restore_task"
        " can bring back.",
    )
    priority: PriorityName | None = Field(
        default=None, description="Only those of this priority: Low, Medium or High."
    )
    due_from: Day | None = Field(
        default=None, description="Only those due on this day or later: YYYY-MM-DD."
    )
    due_to: Day | None = Field(
        default=None, description="Only those due on this day or earlier: YYYY-MM-DD."
    )
    overdue: bool | None = Field(
        default=None,
        description="true: only open tasks that were due before today; false: only those that"
        " are not overdue, among them all without a date.",
    )
    query: str | None = Field(
        default=None,
        max_length=200,
        description="Only those in whose title or description all these words stand, in any case;"
        " a part of a word will do.",
    )
    time_zone: _Zone | None = Field(
        default=None,
        description="The user's time zone, which decides what day is today: an IANA name such as"
        " Europe/Berlin. By default the server's setting.",
    )
    limit: int = Field(default=25, ge=1, le=100, description="How many tasks at most.")
    cursor: CursorText | None = Field(
        default=None, description="next_cursor of the page before, with the same other arguments."
    )


SO_FAR: Final = (
    "Nothing was found so far, but not all tasks were looked through: go on with the cursor."
)


class ListedTask(TaskView):
    """A task in a list."""

    overdue: bool = Field(description="Whether it is open and was due before today.")


class Out(Result):
    """A page of tasks."""

    tasks: list[ListedTask] = Field(description="The tasks, the newest first.")
    next_cursor: str | None = Field(
        description="Where the list goes on; missing at its end. A short or empty page may not be"
        " the last: only so many tasks are looked through at a time."
    )
    message: str | None = Field(description="What to do where nothing was found so far.")
    today: date = Field(description="The day that decided what is overdue.")
    time_zone: str = Field(description="The time zone in which it is that day.")


async def list_tasks(args: In, ctx: Context) -> Out:
    """List tasks: one round trip and limit + 1 documents.

    Words, what is not overdue and what is deleted are looked for in up to 300 documents, in up to
    three round trips.
    """
    zone = args.time_zone or ctx.settings.time_zone
    today = ctx.clock().astimezone(time_zone(zone)).date()
    found, end = await _walk(args, today, ctx)
    page = fit_page([ListedTask.of_task(task, overdue=task.is_overdue(today)) for task in found])
    if len(page) < len(found):
        end = found[len(page) - 1].number
    return Out(
        tasks=page,
        next_cursor=encode_cursor(args, [end]) if end else None,
        message=SO_FAR if end and not page else None,
        today=today,
        time_zone=zone,
    )


async def _walk(args: In, today: date, ctx: Context) -> tuple[Sequence[Task], int | None]:
    """The tasks of a page, and after which number the next begins, if there may be more."""
    tasks, selection = own_tasks(ctx), _selection(args, today)
    [after] = decode_cursor(args, args.cursor, _POSITION) or [None]
    if not selection.statuses:
        return [], None
    words, now = folded(args.query or "").split(), ctx.clock()
    sieved = bool(words) or args.overdue is False or args.status is Listed.DELETED
    size = BLOCK if sieved else args.limit + 1
    found: list[Task] = []
    for _ in range(0, MOST_READ, size):
        block = await tasks.page(selection, size, after)
        found += [
            each
            for each in block
            if each.says(words)
            and not each.is_gone(now)
            and not (args.overdue is False and each.is_overdue(today))
        ]
        if len(found) > args.limit:
            return found[: args.limit], found[args.limit - 1].number
        if len(block) < size:
            return found, None
        after = block[-1].number
    return found, after


def _selection(args: In, today: date) -> Selection:
    """What the database is asked for."""
    if args.due_from and args.due_to and args.due_from > args.due_to:
        raise InvalidInput(
            "list_tasks was not run: no day lies between due_from and due_to. Swap them.",
            details={"due_from": "later than due_to"},
        )
    statuses, last = _STATUSES[args.status], args.due_to
    if args.overdue:
        statuses = tuple(each for each in statuses if each is Status.OPEN)
        last = min(last or date.max, today - timedelta(days=1))
    return Selection(statuses, args.priority, args.due_from, last)


TOOL = Tool(
    name="list_tasks",
    title="List tasks",
    description=(
        "List the tasks of the user's to-do list, the newest first: all, or those that are open,"
        " completed or deleted, of a priority, due between two days, overdue, or with certain words"
        " in them. Use it to see what there is to do, and to find the task_id that the other tools"
        " take. What is overdue depends on the day it is for the user: name their time_zone if you"
        " know it."
    ),
    input=In,
    output=Out,
    run=list_tasks,
    effect=Effect.READ,
    tier=Tier.REGISTERED,
    envelope=ENVELOPE,
    settings=("time_zone",),
)
