"""What the tools of the to-do list share: what they take, what they show, and how they fail."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from shared.core.errors import Unauthorized
from shared.core.text_validation import validate_line, validate_prose, validation_error
from shared.runtime.envelope import Envelope
from shared.runtime.schemas import Result, Undo
from shared.tasks.model import Priority, Status, Task
from shared.tasks.repository import Tasks

if TYPE_CHECKING:
    from shared.runtime.context import Context

MOST: Final = 25
"""How many tasks one call adds or completes."""
LONGEST_TITLE: Final = 255
LONGEST_DESCRIPTION: Final = 1_000

Code = Literal["invalid_date", "invalid_input", "invalid_priority", "not_found", "processing_error"]

ENVELOPE: Final = Envelope(
    codes={
        "VALIDATION_ERROR": "invalid_input",
        "CONFLICT": "invalid_input",
        "NOT_FOUND": "not_found",
    },
    fields={
        "priority": "invalid_priority",
        "due_date": "invalid_date",
        "due_from": "invalid_date",
        "due_to": "invalid_date",
    },
    other="processing_error",
)

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PRIORITIES: Final = {each.value.casefold(): each for each in Priority}


def _to_number(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        raise validation_error("must be a positive whole number in a string, such as '7'")
    return int(value)


def _to_priority(value: Any) -> Priority:
    found = _PRIORITIES.get(value.strip().casefold()) if isinstance(value, str) else None
    if not found:
        raise validation_error(f"must be one of {', '.join(Priority)}")
    return found


def _to_day(value: Any) -> date:
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass  # it has the form, but there is no such day
    raise validation_error("must be a day of the calendar as YYYY-MM-DD, such as 2026-03-31")


def _checked_title(text: str) -> str:
    title = validate_line(text)
    if len(title) > LONGEST_TITLE:
        raise validation_error(
            f"must have at most {LONGEST_TITLE} characters: put more into the description"
        )
    return title


def _checked_description(text: str) -> str | None:
    if len(text) > LONGEST_DESCRIPTION:
        raise validation_error(f"must have at most {LONGEST_DESCRIPTION:,} characters")
    return None if not text.strip() else validate_prose(text)


def _text(**more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", **more})


TaskId = Annotated[
    int,
    BeforeValidator(_to_number),
    _text(pattern=f"^{_NUMBER.pattern}$", maxLength=18, examples=["7"]),
]
"""A task's number, which stands in answers as a text."""
Title = Annotated[str, AfterValidator(_checked_title), _text(minLength=1, maxLength=LONGEST_TITLE)]
Description = Annotated[
    str, AfterValidator(_checked_description), _text(maxLength=LONGEST_DESCRIPTION)
]
"""Longer texts about a task; one that is blank is none."""
PriorityName = Annotated[
    Priority, BeforeValidator(_to_priority), _text(maxLength=40, examples=list(Priority))
]
"""A priority in any case: what is wrong has a code of its own, so it is no enumeration."""
Day = Annotated[
    date, BeforeValidator(_to_day), _text(format="date", maxLength=40, examples=["2026-03-31"])
]


class TaskView(Result):
    """A task as it is stored."""

    task_id: str = Field(description="Its id: a number, for the other tools.")
    title: str = Field(description="What is to be done.")
    description: str | None = Field(description="More about it.")
    status: Status = Field(description="What has become of it.")
    priority: Priority = Field(description="How much it matters.")
    due_date: date | None = Field(description="The last day on which it is not late.")
    created_at: datetime = Field(description="When it was added.")
    updated_at: datetime = Field(description="When it last changed.")
    completed_at: datetime | None = Field(description="When it was completed.")
    restorable_until: datetime | None = Field(
        description="Of a deleted task: until when restore_task brings it back."
    )

    @classmethod
    def of_task(cls, task: Task, **given: Any) -> Self:
        """Show a task."""
        return cls.of(task, task_id=str(task.number), restorable_until=task.purge_at, **given)


class Outcome(Result):
    """What a call, or one item of it, did to a task."""

    task: TaskView | None = Field(description="The task as it is stored now.")
    changed: list[str] | None = Field(
        description="The fields that this call changed; empty if the task was like this before."
    )
    undo: Undo | None = Field(
        description="The call that takes it back; missing if nothing changed."
    )


class Changed(Outcome):
    """A task after a call that was to change it."""

    task: TaskView = Field(description="The task as it is stored now.")
    changed: list[str] = Field(
        description="The fields that this call changed; empty if the task was like this before."
    )


class Problem(Result):
    """What is wrong with one item of several."""

    code: Code = Field(description="What is wrong.")
    message: str = Field(description="The same in words: what to do next.")
    details: dict[str, Any] = Field(description="One entry per offending field.")


class ItemResult(Outcome):
    """What became of one item of several."""

    success: bool = Field(description="Whether it was done.")
    error: Problem | None = Field(description="What went wrong, if anything.")


class OneOrMany(Outcome):
    """What became of one task, or of each of several."""

    results: list[ItemResult] | None = Field(
        description="Of several tasks, what became of each, in their order."
    )
    failed: int | None = Field(
        description="Of several tasks, how many were not done: the success of the call says that it"
        " was read, that of each result whether the task was done."
    )

    @classmethod
    def one(cls, outcome: Changed) -> Self:
        """One task."""
        return cls(**dict(outcome), results=None, failed=None)

    @classmethod
    def many(cls, results: list[ItemResult]) -> Self:
        """Several."""
        failed = sum(not each.success for each in results)
        return cls(task=None, changed=None, undo=None, results=results, failed=failed)


def own_tasks(ctx: Context) -> Tasks:
    """The caller's tasks.

    Raises:
        Unauthorized: Nobody knows who is calling.
    """
    if ctx.caller.user_id is None:
        raise Unauthorized("Tasks belong to somebody: sign in.")
    return Tasks(ctx.database, ctx.caller.user_id)
