"""Stored traces, and the postings by which search finds them.

Postings list the traces with a word or a tag. They must be exact after any sequence of calls.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

import pytest

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.firestore.database import Database, WriteConflict
from shared.index.indexed_state import read_indexed_state
from shared.runtime.context import App, Context
from shared.traces.corpus import MAX_TERMS, build_indexed_state
from shared.traces.repository import Traces, to_trace
from tests.support.stored_documents import read_app_documents
from tests.support.stored_traces import assert_trace_postings_are_exact
from tests.support.tool_calls import call, call_result
from tests.support.traces import DOWN, contribute, read_sample_traces, vote

WORDS: Final = (
    "rye",
    "wheat",
    "oven",
    "sail",
    "anchor",
    "storm",
    "Ångström",
    "a_name",
    "熟成",
    "x",
)
TAGS: Final = ("food", "sea", "a.b", "..", "-", "0", "__x__", "x" * 60)
"""Tags, some of which Firestore would refuse as ids of documents."""


def get_database(app: App) -> Database:
    """Return the app's database."""
    return app.context(Caller.of("reader"), Meter()).database


class History:
    """Random calls on the traces of one contributor."""

    def __init__(self, app: App, seed: int) -> None:
        """Start with no traces."""
        self.app = app
        self.rng = random.Random(seed)  # noqa: S311 - no secret
        self.trace_ids: list[str] = []

    async def make_event(self) -> None:
        """Make one to three random calls concurrently."""
        count = self.rng.choice((1, 1, 1, 2, 3))
        await asyncio.gather(*(self._make_call() for _ in range(count)))

    async def _make_call(self) -> None:
        if not self.trace_ids:
            await self.contribute()
            return
        actions = (
            self.contribute,
            self.amend,
            self.amend,
            self.restore_revision,
            self.withdraw,
            self.restore,
            self.vote,
        )
        await self.rng.choice(actions)()

    async def contribute(self) -> None:
        """Contribute a trace that may supersede another."""
        arguments = self._make_texts()
        if self.trace_ids and self.rng.random() < 0.3:
            arguments["supersedes"] = self.rng.choice(self.trace_ids)
        result = await self._call("contribute_trace", **arguments)
        if result and not result["duplicate"]:
            self.trace_ids.append(result["trace_id"])

    async def amend(self) -> None:
        """Amend some fields."""
        texts = self._make_texts()
        names = self.rng.sample(sorted(texts), self.rng.randint(1, len(texts)))
        await self._change("amend_trace", **{name: texts[name] for name in names})

    async def restore_revision(self) -> None:
        """Restore an earlier revision, if there is one."""
        await self._change("amend_trace", revision=self.rng.randint(1, 3))

    async def withdraw(self) -> None:
        """Withdraw a trace."""
        await self._change("withdraw_trace")

    async def restore(self) -> None:
        """Restore a trace."""
        await self._change("withdraw_trace", withdrawn=False)

    async def vote(self) -> None:
        """Vote, which changes no postings."""
        trace_id = self.rng.choice(self.trace_ids)
        await call(self.app, "vote_trace", "ben", trace_id=trace_id, **DOWN)

    async def _change(self, name: str, **arguments: Any) -> None:
        await self._call(name, trace_id=self.rng.choice(self.trace_ids), **arguments)

    async def _call(self, name: str, **arguments: Any) -> dict[str, Any] | None:
        answer = await call(self.app, name, **arguments)
        assert answer.error is None or answer.error.code in {"NOT_FOUND", "CONFLICT"}
        return answer.result

    def _make_texts(self) -> dict[str, Any]:
        rng = self.rng
        return {
            "title": " ".join(rng.choices(WORDS, k=3)),
            "context_text": " ".join(rng.choices(WORDS, k=rng.randint(1, 12))),
            "solution_text": f"{rng.getrandbits(64):x} {' '.join(rng.choices(WORDS, k=4))}",
            "tags": rng.sample(TAGS, rng.randint(0, 4)),
        }


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))]
)
async def test_postings_are_exact_after_any_history(app: App, seed: int) -> None:
    history = History(app, seed)
    for _ in range(6):
        for _ in range(6):
            await history.make_event()
        await assert_trace_postings_are_exact(app)


async def test_trace_of_stop_words_is_not_counted(app: App) -> None:
    trace_id = await contribute(
        app, title="the", context_text="and", solution_text="of it", tags=[]
    )
    await assert_trace_postings_are_exact(app)
    await call_result(app, "amend_trace", trace_id=trace_id, title="anchors")
    await assert_trace_postings_are_exact(app)


async def test_most_frequent_terms_of_a_long_text_are_indexed(app: App) -> None:
    words = [f"w{number}" for number in range(MAX_TERMS + 300)]
    trace_id = await contribute(app, solution_text=" ".join([*words, "anchor anchor"]))
    data = (await read_app_documents(app, "traces"))[trace_id]
    terms = data["indexed"]["terms"]
    assert len(terms) == MAX_TERMS
    assert terms["anchor"] == 2
    assert build_indexed_state(to_trace(trace_id, data)) == read_indexed_state(data)
    await call_result(app, "withdraw_trace", trace_id=trace_id)
    await assert_trace_postings_are_exact(app)


async def test_trace_is_read_as_written(app: App) -> None:
    trace_id = await contribute(app, 7)
    traces = Traces(get_database(app))
    stored_trace = await traces.get(trace_id)
    assert stored_trace
    assert stored_trace.trace.content.title == read_sample_traces()[7]["title"]
    assert stored_trace.trace.content.tags == tuple(read_sample_traces()[7]["tags"])
    assert await traces.get("missing") is None
    assert await traces.get_revision(trace_id, 1) is None


async def test_write_based_on_a_stale_read_is_refused(app: App) -> None:
    trace_id = await contribute(app)
    database = get_database(app)
    stored_trace = await Traces(database).get(trace_id)
    assert stored_trace
    await vote(app, trace_id, "ben")
    for write in (
        Traces(database).build_tally_write(stored_trace, stored_trace.trace.tally),
        Traces(database).build_update_writes(stored_trace, stored_trace.trace, None)[0],
    ):
        with pytest.raises(WriteConflict):
            await database.commit([write])


async def test_concurrent_vote_is_not_overwritten(app: App) -> None:
    trace_id = await contribute(app)
    database = get_database(app)
    stored_vote = await Traces(database).get_vote(trace_id, "ben")
    assert stored_vote.vote is None
    assert stored_vote.text is None
    assert stored_vote.revision == 0
    await vote(app, trace_id, "ben")
    later_vote = await Traces(database).get_vote(trace_id, "ben")
    assert later_vote.vote
    stale_write = Traces(database).build_vote_write(
        stored_vote, later_vote.vote, None, 1, app.clock()
    )
    with pytest.raises(WriteConflict):
        await database.commit([stale_write])


async def test_record_of_a_newer_version_is_read(app: App, ctx: Context) -> None:
    """After a rollback, documents have fields that this version does not know."""
    client = app.connection.client
    await client.document("contributors/ben").set({"up": 3, "down": 1, "since": "2027"})
    record = await Traces(ctx.database).get_record("ben")
    assert record.up == 3
    assert record.down == 1


async def test_record_with_one_count_is_read(app: App, ctx: Context) -> None:
    await app.connection.client.document("contributors/ben").set({"down": 1})
    record = await Traces(ctx.database).get_record("ben")
    assert record.up == 0
    assert record.down == 1
