"""Stored answers, found by the data that they belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from shared.core.caller import Caller
from shared.firestore.idempotency_records import IdempotencyRecords
from shared.runtime.invocation import invoke
from shared.runtime.outcome import Outcome
from tests.support.notebook_tools import TOOLS, Note, Written
from tests.support.tool_calls import make_call_request

if TYPE_CHECKING:
    from shared.core.meter import Meter
    from shared.runtime.context import App, Context

pytestmark = pytest.mark.anyio

WRITE, *_ = TOOLS
NOTES = "rag_tasks/notes"


async def store_answer(app: App, about: str | None, key: str, user: str = "anna") -> None:
    """Store an answer that belongs to the data at `about`."""

    async def run(args: Note, ctx: Context) -> Outcome[Written]:
        outcome = Outcome(Written(number=len(args.text)), belongs_to=about)
        return await ctx.commit([], outcome)

    tool = replace(WRITE, run=run)
    arguments = {"text": key, "idempotency_key": key}
    answer = await invoke(tool, make_call_request(tool, Caller.of(user), arguments), app)
    assert answer.error is None


async def test_answers_are_found_by_their_data(app: App, ctx: Context, meter: Meter) -> None:
    for about, key in ((NOTES, "one"), ("rag_tasks/other", "two"), (None, "three"), (NOTES, "4")):
        await store_answer(app, about, key)
    await store_answer(app, NOTES, "of somebody else", user="ben")
    database = ctx.database
    snapshots = await IdempotencyRecords(database, "anna").find_for(NOTES, limit=10)
    assert len(snapshots) == 2
    assert meter.round_trips == 1
    assert {snapshot.reference.path.split("/")[1] for snapshot in snapshots} == {"anna"}
    assert [snapshot.to_dict() for snapshot in snapshots] == [{"about": NOTES}] * 2
    assert len(await IdempotencyRecords(database, "anna").find_for(NOTES, limit=1)) == 1


async def test_an_answer_is_deleted_by_its_update_time(app: App, ctx: Context) -> None:
    await store_answer(app, NOTES, "one")
    records = IdempotencyRecords(ctx.database, "anna")
    database = ctx.database
    [snapshot] = await records.find_for(NOTES, limit=10)
    option = database.client.write_option(last_update_time=snapshot.update_time)
    await database.commit([lambda batch: batch.delete(snapshot.reference, option)])
    assert await records.find_for(NOTES, limit=10) == []


async def test_an_old_answer_belongs_to_no_data(app: App, ctx: Context) -> None:
    await store_answer(app, NOTES, "one")
    records = IdempotencyRecords(ctx.database, "anna")
    [match] = await records.find_for(NOTES, limit=1)
    snapshot = await match.reference.get()
    old_fields = {
        name: value for name, value in (snapshot.to_dict() or {}).items() if name != "about"
    }
    await match.reference.set(old_fields)
    record = await records.get(match.id)
    assert record
    assert record.belongs_to is None
