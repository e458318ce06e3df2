"""Answers that are kept, found by what they belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from shared.core.caller import Caller
from shared.firestore.idempotency_records import IdempotencyRecords
from shared.runtime.invocation import invoke
from shared.runtime.outcome import Outcome
from tests.support.note_tools import TOOLS, Note, Written
from tests.support.tool_calls import request_of

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

WRITE, *_ = TOOLS
NOTES = "rag_tasks/notes"


async def answer(app: App, about: str | None, key: str, user: str = "anna") -> None:
    """Have an answer kept that belongs to this."""

    async def run(args: Note, ctx: Context) -> Outcome[Written]:
        outcome = Outcome(Written(number=len(args.text)), belongs_to=about)
        return await ctx.commit([], outcome)

    tool = replace(WRITE, run=run)
    arguments = {"text": key, "idempotency_key": key}
    answered = await invoke(tool, request_of(tool, Caller.of(user), arguments), app)
    assert answered.error is None


async def test_answers_are_found_by_what_they_belong_to(
    app: App, ctx: Context, meter: Meter
) -> None:
    for about, key in ((NOTES, "one"), ("rag_tasks/other", "two"), (None, "three"), (NOTES, "4")):
        await answer(app, about, key)
    await answer(app, NOTES, "of somebody else", user="ben")
    database = ctx.database
    found = await IdempotencyRecords(database, "anna").about(NOTES, limit=10)
    assert (2, 1) == (len(found), meter.round_trips)
    assert {"anna"} == {each.reference.path.split("/")[1] for each in found}
    assert [{"about": NOTES}] * 2 == [each.to_dict() for each in found]
    assert 1 == len(await IdempotencyRecords(database, "anna").about(NOTES, limit=1))


async def test_an_answer_is_found_with_what_deletes_it_unchanged(app: App, ctx: Context) -> None:
    await answer(app, NOTES, "one")
    replays, database = IdempotencyRecords(ctx.database, "anna"), ctx.database
    [found] = await replays.about(NOTES, limit=10)
    option = database.client.write_option(last_update_time=found.update_time)
    await database.commit([lambda batch: batch.delete(found.reference, option)])
    assert [] == await replays.about(NOTES, limit=10)


async def test_an_answer_of_before_belongs_to_nothing(app: App, ctx: Context) -> None:
    await answer(app, NOTES, "one")
    replays = IdempotencyRecords(ctx.database, "anna")
    [found] = await replays.about(NOTES, limit=1)
    stored = await found.reference.get()
    old = {name: value for name, value in (stored.to_dict() or {}).items() if name != "about"}
    await found.reference.set(old)
    replay = await replays.get(found.id)
    assert replay
    assert replay.about is None
