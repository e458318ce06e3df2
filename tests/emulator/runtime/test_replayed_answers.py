"""Stored answers are found by the data that they belong to, and so deleted with these data.

An answer is stored with an idempotency key, and replayed if the call is repeated.
"""

from __future__ import annotations

from dataclasses import replace

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.firestore.idempotency_records import IdempotencyRecords
from shared.firestore.values import DELETE_FIELD
from shared.firestore.writes import Update, delete_if_unchanged
from shared.runtime.context import App, Context
from shared.runtime.invocation import invoke
from shared.runtime.outcome import Outcome
from tests.support.notebook_tools import TOOLS, Note, Written
from tests.support.tool_calls import make_call_request

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
        assert snapshot.fields == {"about": WORKSPACE}
    assert len(await records.find_for(WORKSPACE, limit=1)) == 1


async def test_an_answer_is_deleted_by_its_update_time(app: App, ctx: Context) -> None:
    await store_answer(app, WORKSPACE, "one")
    records = IdempotencyRecords(ctx.database, "anna")
    [snapshot] = await records.find_for(WORKSPACE, limit=10)
    await ctx.database.commit([delete_if_unchanged(snapshot)])
    assert await records.find_for(WORKSPACE, limit=10) == []


async def test_an_old_answer_does_not_belong_to_any_data(app: App, ctx: Context) -> None:
    await store_answer(app, WORKSPACE, "one")
    records = IdempotencyRecords(ctx.database, "anna")
    [match] = await records.find_for(WORKSPACE, limit=1)
    await ctx.database.commit([Update(match.reference, {"about": DELETE_FIELD})])
    record = await records.get(match.id)
    assert record
    assert record.belongs_to is None
