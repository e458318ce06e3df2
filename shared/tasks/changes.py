"""How tools change tasks: read, decide, write if nobody was faster, and say how to undo it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic_core import to_jsonable_python

from shared.core.errors import CarrelError, InvalidInput, NotFound
from shared.runtime.invocation import parse_arguments
from shared.runtime.messages import WireError
from shared.runtime.schemas import Undo
from shared.tasks.contract import ENVELOPE, Changed, ItemResult, Problem, TaskView, own_tasks

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from shared.runtime.context import Context
    from shared.runtime.schemas import Arguments, Result
    from shared.tasks.model import Task
    from shared.tasks.repository import StoredTask

    Find = Callable[[StoredTask | None, int, datetime], StoredTask]
    Decide = Callable[[Task, datetime], Task]
    Reverse = Callable[[Task, Task], Undo]
    ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)
    ResultT = TypeVar("ResultT", bound=Result)

EDITABLE: Final = ("title", "description", "priority", "due_date")
CHANGEABLE: Final = (*EDITABLE, "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How a tool changes a task.

    Attributes:
        find: Takes the task that was read, or refuses it: `active` or `existing`.
        decide: The task as it should be; the same one where it is like that already.
        reverse: The call that makes the later task the former one again.
    """

    find: Find
    decide: Decide
    reverse: Reverse

    def take(
        self, found: StoredTask | None, number: int, now: datetime
    ) -> tuple[Changed, Task | None]:
        """What becomes of a task, and what to store if it changes.

        Raises:
            NotFound: There is no such task.
        """
        before = self.find(found, number, now).task
        after = self.decide(before, now)
        fields = changed_fields(before, after)
        undo = self.reverse(before, after) if fields else None
        changed = Changed(task=TaskView.of_task(after), changed=fields, undo=undo)
        return changed, after if fields else None


async def change(
    number: int, step: Step, ctx: Context, answer: Callable[[Changed], ResultT]
) -> ResultT:
    """Change a task: two round trips, the task and the commit.

    Args:
        number: Which.
        step: How.
        ctx: To do it with.
        answer: How to tell of it: what is kept with the change is that answer.

    Raises:
        NotFound: There is no such task.
        Unavailable: Others were always faster.
    """
    tasks = own_tasks(ctx)

    async def attempt() -> ResultT:
        found = (await tasks.get_all([number])).get(number)
        changed, after = step.take(found, number, ctx.clock())
        result = answer(changed)
        if not found or not after:
            return result
        return await ctx.commit([tasks.change(found, after)], result)

    return await ctx.database.retry_on_conflict(attempt)


def as_it_is(changed: Changed) -> Changed:
    """The answer of a tool that tells of one change and of nothing else."""
    return changed


def changed_fields(before: Task, after: Task) -> list[str]:
    """The fields in which two states of a task differ, but for times."""
    return [name for name in CHANGEABLE if getattr(before, name) != getattr(after, name)]


def undo_by(tool: str, number: int, **arguments: Any) -> Undo:
    """A call that takes something back."""
    plain = {name: to_jsonable_python(value) for name, value in arguments.items()}
    return Undo(tool=tool, arguments={"task_id": str(number), **plain})


def existing(found: StoredTask | None, number: int, now: datetime) -> StoredTask:
    """A task, deleted or not.

    Raises:
        NotFound: There is none, or it was deleted too long ago.
    """
    if found is None or found.task.is_gone(now):
        raise NotFound(
            f"There is no task {number}. Find those that there are with list_tasks.",
            details={"task_id": str(number)},
        )
    return found


def active(found: StoredTask | None, number: int, now: datetime) -> StoredTask:
    """A task that is not deleted.

    Raises:
        NotFound: There is none; the message says if it can be restored.
    """
    stored = existing(found, number, now)
    if stored.task.purge_at:
        raise NotFound(
            f"Task {number} is deleted. Until {stored.task.purge_at:%Y-%m-%d %H:%M} UTC"
            " restore_task can bring it back.",
            details={"task_id": str(number)},
        )
    return stored


def checked(kind: type[ArgumentsT], item: Any, tool: str) -> ArgumentsT | ItemResult:
    """One item of several; if it is wrong, what became of it."""
    if not isinstance(item, dict):
        fields = ", ".join(kind.model_fields)
        return failed(InvalidInput("", details={"item": f"must be an object with {fields}"}))
    try:
        return parse_arguments(kind, item, tool)
    except InvalidInput as error:
        return failed(error)


def done(outcome: Changed) -> ItemResult:
    """An item that was done."""
    return ItemResult(success=True, error=None, **dict(outcome))


def failed(error: CarrelError) -> ItemResult:
    """An item that was not done. What its error says of the whole call is left out."""
    told = ENVELOPE.error(WireError.model_validate(error.to_wire()))
    if isinstance(error, InvalidInput):
        told["message"] = "; ".join(f"{name}: {wrong}" for name, wrong in error.details.items())
    return ItemResult(success=False, task=None, changed=None, undo=None, error=Problem(**told))
