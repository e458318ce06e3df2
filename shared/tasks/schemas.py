"""The arguments, results and error codes that the task tools share."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from shared.core.errors import Unauthorized
from shared.core.text_validation import make_validation_error, validate_line, validate_prose
from shared.runtime.envelope import Envelope
from shared.runtime.schemas import EMPTY_IS_ABSENT, FOR_APPS, Change, Result, Undo
from shared.tasks.model import Priority, Task, TaskStatus
from shared.tasks.repository import Tasks

if TYPE_CHECKING:
    from shared.runtime.context import Context

MAX_TASKS: Final = 25
"""One call adds or completes at most this many tasks."""
MAX_TITLE_LENGTH: Final = 255
"""A title has at most this many characters."""
MAX_DESCRIPTION_LENGTH: Final = 1_000
"""A description has at most this many characters."""

ErrorCode = Literal[
    "invalid_date", "invalid_input", "invalid_priority", "not_found", "processing_error"
]
"""The error codes that the task tools publish, in place of Carrel's own."""

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
"""The shape of the task tools' answers, `{success, data, error}`, and the translation of Carrel's
errors to their codes."""

# Firestore's integers have 64 bits, and all numbers of 18 digits fit.
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PRIORITIES: Final = {priority.value.casefold(): priority for priority in Priority}


def _to_number(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        raise make_validation_error("must be a positive whole number in a string, such as '7'")
    return int(value)


def _to_priority(value: Any) -> Priority:
    priority = _PRIORITIES.get(value.strip().casefold()) if isinstance(value, str) else None
    if not priority:
        raise make_validation_error(f"must be one of {', '.join(Priority)}")
    return priority


def _to_date(value: Any) -> date:
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass  # the text has the right format, but the calendar has no such day
    raise make_validation_error("must be a calendar date as YYYY-MM-DD, such as 2026-03-31")


def _validate_title(text: str) -> str:
    title = validate_line(text)
    if len(title) > MAX_TITLE_LENGTH:
        raise make_validation_error(
            f"must have at most {MAX_TITLE_LENGTH} characters: use description for more"
        )
    return title


def _validate_description(text: str) -> str | None:
    if len(text) > MAX_DESCRIPTION_LENGTH:
        raise make_validation_error(f"must have at most {MAX_DESCRIPTION_LENGTH:,} characters")
    return None if not text.strip() else validate_prose(text)


def _make_string_schema(**keywords: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", **keywords})


TaskId = Annotated[
    int,
    BeforeValidator(_to_number),
    _make_string_schema(pattern=f"^{_NUMBER.pattern}$", maxLength=18, examples=["7"]),
]
"""The number of a task, which is a string in JSON."""
TaskTitle = Annotated[
    str,
    AfterValidator(_validate_title),
    _make_string_schema(minLength=1, maxLength=MAX_TITLE_LENGTH),
]
"""The title of a task, on one line."""
TaskDescription = Annotated[
    str,
    AfterValidator(_validate_description),
    _make_string_schema(maxLength=MAX_DESCRIPTION_LENGTH),
]
"""The description of a task. A blank text becomes None."""
PriorityName = Annotated[
    Priority,
    BeforeValidator(_to_priority),
    _make_string_schema(maxLength=40, examples=list(Priority), **EMPTY_IS_ABSENT),
]
"""A priority in upper or lower case. The schema does not enumerate the priorities, because clients
would then reject a wrong one before the tool can answer with its error code."""
CalendarDate = Annotated[
    date,
    BeforeValidator(_to_date),
    _make_string_schema(format="date", maxLength=40, examples=["2026-03-31"]),
]
"""A day as YYYY-MM-DD."""


class TaskView(Result):
    """A task as tools return it."""

    task_id: str = Field(description="Its id, a number, for the other tools.")
    title: str = Field(description="What is to be done.")
    description: str | None = Field(description="Details.")
    status: TaskStatus = Field(description="Whether it is open, completed or deleted.")
    priority: Priority = Field(description="How important it is.")
    due_date: date | None = Field(description="The last day on which it is not overdue.")
    created_at: datetime = Field(description="When it was added.", json_schema_extra=FOR_APPS)
    updated_at: datetime = Field(description="When it last changed.", json_schema_extra=FOR_APPS)
    completed_at: datetime | None = Field(description="When it was completed.")
    restorable_until: datetime | None = Field(
        description="Until when restore_task can restore it, if it is deleted."
    )

    @classmethod
    def of_task(cls, task: Task, **extra_fields: Any) -> Self:
        """Convert a task to the view."""
        return cls.of(
            task, task_id=str(task.number), restorable_until=task.purge_at, **extra_fields
        )


class TaskOutcome(Result):
    """What a call did to a task."""

    task: TaskView | None = Field(description="The task as it is stored now.")
    changed: list[str] | None = Field(
        description="The fields that this call changed; empty if there was nothing to change."
    )
    undo: Undo | None = Field(
        description="The call that undoes the change; missing if nothing changed."
    )

    def list_changes(self) -> list[Change]:
        """Return what the call changed, which `get_changes` lists."""
        task = self.task
        action = self._describe_action()
        return Change.list_undoable(action, task.task_id, task.title, self.undo) if task else []

    def _describe_action(self) -> str:
        """Return what was done, which follows from what undoes it."""
        is_completed = self.task is not None and self.task.status is TaskStatus.COMPLETED
        match self.undo and self.undo.tool:
            case "delete_task":
                return "added" if "title" in (self.changed or ()) else "restored"
            case "restore_task":
                return "deleted"
            case "complete_task":
                return "completed" if is_completed else "reopened"
        return "edited"


class ChangedTask(TaskOutcome):
    """A task after a call that may have changed it."""

    task: TaskView = Field(description="The task as it is stored now.")
    changed: list[str] = Field(
        description="The fields that this call changed; empty if there was nothing to change."
    )


class ItemError(Result):
    """Why one of several tasks in a call failed."""

    code: ErrorCode = Field(description="The kind of error.")
    message: str = Field(description="What is wrong, and what to do.")
    details: dict[str, Any] = Field(description="The reason, for each invalid field.")


class TaskItemResult(TaskOutcome):
    """The result of one of several tasks in a call."""

    success: bool = Field(description="Whether it was done.")
    error: ItemError | None = Field(description="Why it was not done.")


class TaskResults(TaskOutcome):
    """The result of a call with one task or several."""

    results: list[TaskItemResult] | None = Field(
        description="After a call with several tasks: the result of each, in order."
    )
    failed: int | None = Field(
        description="After a call with several tasks: how many failed. The call itself succeeds"
        " even if tasks fail; see the success of each result."
    )

    def list_changes(self) -> list[Change]:
        """Return what the call changed, which `get_changes` lists."""
        several = [change for result in self.results or () for change in result.list_changes()]
        return several or super().list_changes()

    @classmethod
    def one(cls, task: ChangedTask) -> Self:
        """Return the result of a call with one task."""
        return cls(**dict(task), results=None, failed=None)

    @classmethod
    def many(cls, results: list[TaskItemResult]) -> Self:
        """Return the result of a call with several tasks."""
        failed = sum(not result.success for result in results)
        return cls(task=None, changed=None, undo=None, results=results, failed=failed)


def get_own_tasks(ctx: Context) -> Tasks:
    """Return the repository of the caller's tasks.

    Raises:
        Unauthorized: The caller is not signed in.
    """
    if ctx.caller.user_id is None:
        raise Unauthorized("Sign in to use your to-do list.")
    return Tasks(ctx.database, ctx.caller.user_id)
