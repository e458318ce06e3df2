"""List what the caller changed through any program, with the calls that undo it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import Field

from shared.core.caller import Tier
from shared.firestore.idempotency_records import ANSWERS, IdempotencyRecords
from shared.links.repository import SavedLinks
from shared.runtime.idempotency import CHANGES
from shared.runtime.schemas import Arguments, Change, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from shared.runtime.context import Context

_TIME: Final = "%Y-%m-%d %H:%M"


class In(Arguments):
    """How many changes."""

    limit: int = Field(default=20, ge=1, le=100, description="Number of calls.")


class DatedChange(Change):
    """A change, when it was made and by which program."""

    time: str = Field(description="When, in TIME_ZONE.")
    client: str | None = Field(description="The program or key, if known.")


class Out(Result):
    """The last changes."""

    changes: list[DatedChange] = Field(
        description="The changes, newest first. Only the last change of a thing can be undone."
    )
    message: str | None = Field(description="Why there may be others, or none.")


async def get_changes(args: In, ctx: Context) -> Out:
    """List the changes of the caller's last calls.

    Costs one round trip and limit + 1 documents. Links cost another, to leave out the undo of those
    whose page is stored.
    """
    user_id = str(ctx.caller.user_id)
    records = await IdempotencyRecords(ctx.database, user_id).list_changes(args.limit + 1)
    made = [
        (change, record)
        for record in records[: args.limit]
        for change in CHANGES.validate_json(record.changes or "[]")
    ]
    links = {change.id for change, _ in made if _cancels_link(change)}
    cancellable = await SavedLinks(ctx.database).list_cancellable(links)
    changes: list[DatedChange] = []
    changed_ids: set[str] = set()
    for change, record in made:
        moment = record.changed_at.astimezone(ctx.zone) if record.changed_at else ctx.clock()
        is_final = _cancels_link(change) and change.id not in cancellable
        undo = None if is_final or change.id in changed_ids else change.undo
        changes.append(
            DatedChange.of(change, undo=undo, time=f"{moment:{_TIME}}", client=record.client)
        )
        changed_ids.add(change.id)
    return Out(changes=changes, message=_explain(len(records), args.limit))


def _cancels_link(change: Change) -> bool:
    undo = change.undo
    return bool(undo and undo.tool == "save_link" and undo.arguments.get("cancel"))


def _explain(count: int, limit: int) -> str | None:
    if count > limit:
        return "There are earlier changes: call again with a higher limit, at most 100."
    return None if count else f"You changed nothing in the last {ANSWERS.period}."


def format_result(out: Out) -> str:
    """Return the changes as text, a line each."""
    lines = [_format_change(change) for change in out.changes]
    return "\n".join([*lines, *([out.message] if out.message else [])])


def _format_change(change: DatedChange) -> str:
    name = f'"{change.title}" (ID: {change.id})' if change.title else change.id
    client = f" by {change.client}" if change.client else ""
    undo = f" {change.undo.in_words()}" if change.undo else ""
    return f"- {change.time} {change.action} {name}{client}.{undo}"


TOOL = Tool(
    name="get_changes",
    title="Get your changes",
    description=(
        "List what was changed for the user (saved, edited, corrected, forgotten, to-dos, traces),"
        " each with its undo."
    ),
    input=In,
    output=Out,
    run=get_changes,
    text=format_result,
    effect=Effect.READ,
    tier=Tier.REGISTERED,
)
