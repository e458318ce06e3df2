"""List tasks of the caller's to-do list."""

from __future__ import annotations

from datetime import date, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AliasChoices, BeforeValidator, Field, TypeAdapter, WithJsonSchema

from shared.core.caller import Tier
from shared.core.dates import load_time_zone
from shared.core.errors import InvalidInput
from shared.core.text_validation import make_validation_error
from shared.runtime.pagination import (
    CursorCount,
    PagedArguments,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import Result, ZoneName
from shared.runtime.tool import Effect, Tool
from shared.tasks.model import TaskStatus, fold
from shared.tasks.repository import TaskFilter, make_task_key
from shared.tasks.schemas import ENVELOPE, CalendarDate, PriorityName, TaskView, get_own_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.runtime.context import Context
    from shared.tasks.model import Task
    from shared.tasks.repository import TaskKey

BATCH_SIZE: Final = 100
"""The number of tasks in each read if some conditions can be checked only after it."""
MAX_READS: Final = 300
"""The maximum number of tasks that a call reads."""
NOTHING_YET: Final = "No task matches so far, but not all were checked: call again with the cursor."
_POSITION: Final = TypeAdapter(
    tuple[CursorCount, Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")] | None]
)
"""A cursor contains the key of the last task listed or checked."""


class StatusFilter(StrEnum):
    """Which tasks to list, by status."""

    ALL = "all"
    OPEN = "open"
    COMPLETED = "completed"
    DELETED = "deleted"


_STATUSES: Final = {
    StatusFilter.ALL: (TaskStatus.OPEN, TaskStatus.COMPLETED),
    StatusFilter.OPEN: (TaskStatus.OPEN,),
    StatusFilter.COMPLETED: (TaskStatus.COMPLETED,),
    StatusFilter.DELETED: (TaskStatus.DELETED,),
}


def _to_status_filter(value: Any) -> StatusFilter:
    name = value.strip().casefold() if isinstance(value, str) else ""
    if name not in set(StatusFilter):
        raise make_validation_error(f"must be one of {', '.join(StatusFilter)}")
    return StatusFilter(name)


_StatusName = Annotated[
    StatusFilter,
    BeforeValidator(_to_status_filter),
    WithJsonSchema({"type": "string", "maxLength": 40, "examples": list(StatusFilter)}),
]


class TaskOrder(StrEnum):
    """The order of the list."""

    NEWEST = "newest"
    DUE = "due"


class In(PagedArguments):
    """Which tasks to list. A task must meet all conditions."""

    status: _StatusName = Field(
        default=StatusFilter.ALL,
        description="open, completed, deleted, or all but deleted.",
    )
    priority: PriorityName | None = Field(default=None, description="Low, Medium or High.")
    due_from: CalendarDate | None = Field(default=None, description="The first day: YYYY-MM-DD.")
    due_to: CalendarDate | None = Field(default=None, description="The last day: YYYY-MM-DD.")
    overdue: bool | None = Field(
        default=None,
        description="Whether it was due before today.",
    )
    query: str | None = Field(
        default=None,
        max_length=200,
        description="Words the task must contain (all of them).",
    )
    order: TaskOrder = Field(
        default=TaskOrder.NEWEST,
        description="due: earliest due day first, tasks without one last.",
        validation_alias=AliasChoices("order", "sort"),
    )
    time_zone: ZoneName | None = Field(
        default=None,
        description="Such as Europe/Berlin.",
    )
    limit: int = Field(default=25, ge=1, le=100, description="Maximum number of tasks.")


class ListedTask(TaskView):
    """A task in a list."""

    overdue: bool | None = Field(description="true if it was due before today.")


class Out(Result):
    """A page of tasks."""

    total: int | None = Field(description="How many there are, if known; on the first page only.")
    tasks: list[ListedTask] = Field(description="The tasks, in the requested order.")
    next_cursor: str | None = Field(
        description="For the next page; missing on the last one. A short or empty page may not be"
        " the last: a call checks a limited number of tasks."
    )
    message: str | None = Field(description="What to do if no task matches so far.")
    today: date = Field(description="The day by which overdue was decided.")
    time_zone: str = Field(description="The time zone of that day.")


async def list_tasks(args: In, ctx: Context) -> Out:
    """List tasks.

    Costs one round trip, reading limit + 1 tasks. If there are more, the first page costs a second
    one to count them. By due date, a page with tasks that have none costs one more.

    A condition that the database cannot check (query, overdue false, status deleted) costs up to
    three round trips and 300 reads.
    """
    zone = args.time_zone or ctx.settings.time_zone
    today = ctx.clock().astimezone(load_time_zone(zone)).date()
    task_filter = _build_task_filter(args, today)
    tasks, resume_after = await _read_page(args, task_filter, today, ctx)
    page = fit_page(
        [ListedTask.of_task(task, overdue=task.is_overdue(today) or None) for task in tasks],
        args.max_tokens,
    )
    total = len(tasks) if resume_after is None else await _count_total(args, task_filter, ctx)
    if len(page) < len(tasks):
        resume_after = tasks[len(page) - 1]
    return Out(
        total=None if args.cursor else total,
        tasks=page,
        next_cursor=encode_cursor(args, make_task_key(resume_after)) if resume_after else None,
        message=NOTHING_YET if resume_after and not page else None,
        today=today,
        time_zone=zone,
    )


async def _count_total(args: In, task_filter: TaskFilter, ctx: Context) -> int | None:
    """Count all tasks for the first page, or return None if the database cannot check them."""
    if args.cursor or _checks_after_read(args):
        return None
    return await get_own_tasks(ctx).count(task_filter)


def _checks_after_read(args: In) -> bool:
    """Return whether some conditions can be checked only after reading the tasks."""
    has_words = bool(fold(args.query or "").split())
    return has_words or args.overdue is False or args.status is StatusFilter.DELETED


async def _read_page(
    args: In, task_filter: TaskFilter, today: date, ctx: Context
) -> tuple[Sequence[Task], Task | None]:
    """Read the tasks of a page.

    Returns:
        The tasks, and the last task listed or checked; None instead of it on the last page.
    """
    repository = get_own_tasks(ctx)
    after: TaskKey | None = decode_cursor(args, args.cursor, _POSITION)
    if not task_filter.statuses:
        return [], None
    words = fold(args.query or "").split()
    now = ctx.clock()
    not_overdue = args.overdue is False
    # More tasks are read than the page contains if some may not match.
    size = BATCH_SIZE if _checks_after_read(args) else args.limit + 1
    tasks: list[Task] = []
    last_checked = None
    for _ in range(0, MAX_READS, size):
        batch = await repository.load_page(task_filter, size, after)
        tasks += [
            task
            for task in batch
            if task.contains(words)
            and not task.is_expired(now)
            and not (not_overdue and task.is_overdue(today))
        ]
        if len(tasks) > args.limit:
            return tasks[: args.limit], tasks[args.limit - 1]
        if len(batch) < size:
            return tasks, None
        last_checked = batch[-1]
        after = make_task_key(last_checked)
    return tasks, last_checked


def _build_task_filter(args: In, today: date) -> TaskFilter:
    """Build the filter that the database applies.

    Raises:
        InvalidInput: `due_from` is later than `due_to`.
    """
    if args.due_from and args.due_to and args.due_from > args.due_to:
        raise InvalidInput(
            "list_tasks was not run: due_from is later than due_to. Swap them.",
            details={"due_from": "later than due_to"},
        )
    statuses = _STATUSES[args.status]
    due_to = args.due_to
    if args.overdue:
        statuses = tuple(status for status in statuses if status is TaskStatus.OPEN)
        due_to = min(due_to or date.max, today - timedelta(days=1))
    by_due_date = args.order is TaskOrder.DUE
    return TaskFilter(statuses, args.priority, args.due_from, due_to, by_due_date)


TOOL = Tool(
    name="list_tasks",
    title="List tasks",
    description=(
        "List the tasks on the user's to-do list that meet all conditions, to see what there is"
        " to do or to find a task_id."
    ),
    input=In,
    output=Out,
    run=list_tasks,
    effect=Effect.READ,
    tier=Tier.REGISTERED,
    envelope=ENVELOPE,
)
