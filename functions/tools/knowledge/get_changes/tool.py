"""List what the caller changed through any program, with the calls that undo it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pydantic import Field, TypeAdapter

from shared.core.caller import Tier
from shared.firestore.idempotency_records import ANSWERS, IdempotencyRecords
from shared.links.repository import SavedLinks
from shared.runtime.idempotency import CHANGES
from shared.runtime.pagination import (
    CursorCount,
    CursorMoment,
    PagedArguments,
    decode_cursor,
    encode_cursor,
    fit_page,
)
from shared.runtime.schemas import Change, DocumentId, Result
from shared.runtime.tool import Effect, Tool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shared.firestore.idempotency_records import IdempotencyRecord
    from shared.runtime.context import Context

_TIME: Final = "%Y-%m-%d %H:%M"
_POSITION: Final = TypeAdapter(tuple[CursorMoment, DocumentId, CursorCount])
"""The shape of a cursor: when a page's last call changed something, its id, and how many of its
changes are on that page or before."""


class In(PagedArguments):
    """A page of calls."""

    limit: int = Field(default=20, ge=1, le=100, description="Number of calls.")


class DatedChange(Change):
    """A change, when it was made and by which program."""

    time: str = Field(description="When, in TIME_ZONE.")
    client: str | None = Field(description="The program or key, if known.")


class Out(Result):
    """A page of changes."""

    changes: list[DatedChange] = Field(
        description="The changes, newest first. Only the last change of a thing can be undone."
    )
    message: str | None = Field(description="That there are none.")
    next_cursor: str | None = Field(description="For earlier changes; missing on the last page.")


async def get_changes(args: In, ctx: Context) -> Out:
    """List the changes of the caller's last calls.

    Costs one round trip and limit + 1 documents, with a cursor also those of all pages before.
    Links cost another round trip, to leave out the undo of those whose page is stored.
    """
    stored = IdempotencyRecords(ctx.database, str(ctx.caller.user_id))
    position = decode_cursor(args, args.cursor, _POSITION)
    after, count = (position[:2], position[2]) if position else (None, 0)
    records, before = await asyncio.gather(
        stored.list_changes(args.limit + 1, after),
        stored.list_changes_until(after) if after else _nothing(),
    )
    left = _list_made(before[-1:])[count:]
    listed = _list_made(before)
    changed_ids = {change.id for change, *_ in listed[: len(listed) - len(left)]}
    made = [*left, *_list_made(records[: args.limit])]
    links = {change.id for change, *_ in made if _cancels_link(change)}
    cancellable = await SavedLinks(ctx.database).list_cancellable(links)
    changes: list[DatedChange] = []
    for change, record, _ in made:
        moment = record.changed_at.astimezone(ctx.zone) if record.changed_at else ctx.clock()
        is_final = _cancels_link(change) and change.id not in cancellable
        undo = None if is_final or change.id in changed_ids else change.undo
        changes.append(
            DatedChange.of(change, undo=undo, time=f"{moment:{_TIME}}", client=record.client)
        )
        changed_ids.add(change.id)
    page = fit_page(changes, args.max_tokens)
    next_cursor = None
    if len(page) < len(made) or len(records) > args.limit:
        _, record, number = made[len(page) - 1]
        next_cursor = encode_cursor(args, [*record.cursor, number])
    is_empty = not page and args.cursor is None
    return Out(
        changes=page,
        message=f"You changed nothing in the last {ANSWERS.period}." if is_empty else None,
        next_cursor=next_cursor,
    )


async def _nothing() -> list[IdempotencyRecord]:
    return []


def _list_made(records: Iterable[IdempotencyRecord]) -> list[tuple[Change, IdempotencyRecord, int]]:
    """Return the changes of calls, each with its number among those of its call."""
    return [
        (change, record, number)
        for record in records
        for number, change in enumerate(CHANGES.validate_json(record.changes or "[]"), start=1)
    ]


def _cancels_link(change: Change) -> bool:
    undo = change.undo
    return bool(undo and undo.tool == "save_link" and undo.arguments.get("cancel"))


def format_result(out: Out) -> str:
    """Return the changes as text, a line each."""
    lines = [_format_change(change) for change in out.changes]
    more = f"There are earlier changes: call again with cursor {out.next_cursor}"
    return "\n".join([*lines, *filter(None, [out.message, out.next_cursor and more])])


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
