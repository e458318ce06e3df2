"""Stored answers are found by the data that they belong to, and so deleted with these data.

An answer is stored with an idempotency key, and replayed if the call is repeated.
"""

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
WORKSPACE = "rag_tasks/notes"
"""The path of the data, below the user."""


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
    await store_answer(app, WORKSPACE, "one")
    await store_answer(app, WORKSPACE, "two")
    await store_answer(app, "rag_tasks/other", "three")
    await store_answer(app, None, "four")
    await store_answer(app, WORKSPACE, "of another user", user="ben")

    records = IdempotencyRecords(ctx.database, "anna")
    snapshots = await records.find_for(WORKSPACE, limit=10)
    assert len(snapshots) == 2
    assert meter.round_trips == 1
    for snapshot in snapshots:
        assert snapshot.reference.path.startswith("users/anna/")
        assert snapshot.to_dict() == {"about": WORKSPACE}
    assert len(await records.find_for(WORKSPACE, limit=1)) == 1


async def test_an_answer_is_deleted_by_its_update_time(app: App, ctx: Context) -> None:
    await store_answer(app, WORKSPACE, "one")
    records = IdempotencyRecords(ctx.database, "anna")
    [snapshot] = await records.find_for(WORKSPACE, limit=10)
    option = ctx.database.client.write_option(last_update_time=snapshot.update_time)
    await ctx.database.commit([lambda batch: batch.delete(snapshot.reference, option)])
    assert await records.find_for(WORKSPACE, limit=10) == []


async def test_an_old_answer_does_not_belong_to_any_data(app: App, ctx: Context) -> None:
    await store_answer(app, WORKSPACE, "one")
    records = IdempotencyRecords(ctx.database, "anna")
    [match] = await records.find_for(WORKSPACE, limit=1)
    snapshot = await match.reference.get()
    fields = snapshot.to_dict() or {}
    del fields["about"]
    await match.reference.set(fields)
    record = await records.get(match.id)
    assert record
    assert record.belongs_to is None
