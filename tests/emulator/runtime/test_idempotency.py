"""A call that is sent twice with an idempotency key takes effect once and is answered twice.

The tool `write_note` stores a note and returns the number of notes. For tests, its argument `then`
makes it fail after the commit (`break`) or before it (`refuse`).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from shared.core.caller import Caller
from shared.runtime.context import App, Context
from shared.runtime.invocation import invoke
from shared.runtime.messages import CallAnswer, CallRequest
from tests.support.commit_hooks import intercept_commits, send_commit_twice
from tests.support.notebook_tools import TOOLS, Note, Written
from tests.support.tool_calls import make_call_request

WRITE, READ, *_ = TOOLS


async def write(
    app: App, user: str = "anna", task: str | None = None, **arguments: Any
) -> CallAnswer:
    """Call `write_note` as the gateway does."""
    return await invoke(WRITE, make_call_request(WRITE, Caller.of(user, task=task), arguments), app)


async def read_notes(app: App, user: str = "anna") -> list[str]:
    """Return the texts of a user's notes."""
    request = CallRequest(
        call_id="r", arguments={}, caller=Caller.of(user), deadline=time.time() + 20
    )
    answer = await invoke(READ, request, app)
    assert answer.result
    texts: list[str] = answer.result["texts"]
    return texts


async def test_a_repeated_call_is_answered_as_the_first_time(app: App) -> None:
    first = await write(app, text="one", idempotency_key="k")
    await write(app, text="between")
    repeated = await write(app, text="one", idempotency_key="k")
    assert first.result == {"number": 1}
    assert repeated.result == {"number": 1}
    assert first.receipt.replayed is None
    assert repeated.receipt.replayed is True
    assert repeated.receipt.documents_written == 0
    assert await read_notes(app) == ["one", "between"]


async def test_a_replayed_answer_has_the_same_text(app: App) -> None:
    tool = replace(WRITE, text=lambda result: f"There are {result.number} notes.")
    request = make_call_request(WRITE, Caller.of("anna"), {"text": "one", "idempotency_key": "k"})
    first, repeated = [await invoke(tool, request, app) for _ in range(2)]
    assert first.text == "There are 1 notes."
    assert repeated.text == "There are 1 notes."


async def test_a_replayed_call_has_the_first_price(app: App) -> None:
    for _ in range(2):
        receipt = (await write(app, text="three", idempotency_key="k")).receipt
        assert receipt.price == len("three")  # as the tool charges


async def test_a_key_with_other_arguments_is_a_conflict(app: App) -> None:
    await write(app, text="one", idempotency_key="k")
    answer = await write(app, text="two", idempotency_key="k")
    assert answer.error
    assert answer.error.code == "CONFLICT"
    assert await read_notes(app) == ["one"]


async def test_the_same_key_in_another_task_is_a_conflict(app: App) -> None:
    await write(app, task="one", text="one", idempotency_key="k")
    answer = await write(app, task="two", text="one", idempotency_key="k")
    assert answer.error
    assert answer.error.code == "CONFLICT"


async def test_every_call_without_a_key_takes_effect(app: App) -> None:
    for _ in range(2):
        assert (await write(app, text="one")).receipt.replayed is None
    assert await read_notes(app) == ["one", "one"]


async def test_keys_of_different_users_are_different_keys(app: App) -> None:
    for user in ("anna", "ben"):
        answer = await write(app, user, text=user, idempotency_key="k")
        assert answer.receipt.replayed is None
    assert await read_notes(app) == ["anna"]
    assert await read_notes(app, "ben") == ["ben"]


async def test_concurrent_calls_with_one_key_write_once(app: App) -> None:
    repeated_calls = [write(app, text="one", idempotency_key="k") for _ in range(8)]
    other_calls = [write(app, text=f"other {number}") for number in range(4)]
    answers = await asyncio.gather(*repeated_calls, *other_calls)
    assert [answer.error for answer in answers] == [None] * 12
    assert (await read_notes(app)).count("one") == 1
    assert len(await read_notes(app)) == 5
    assert len({str(answer.result) for answer in answers[:8]}) == 1


async def test_a_lost_answer_is_replayed(app: App) -> None:
    arguments = {"text": "one", "then": "break", "idempotency_key": "k"}
    lost = await write(app, **arguments)
    assert lost.error
    repeated = await write(app, **arguments)
    assert repeated.result == {"number": 1}
    assert repeated.receipt.replayed is True
    assert await read_notes(app) == ["one"]


async def test_a_refused_call_may_be_repeated_with_its_key(app: App) -> None:
    refused = await write(app, text="one", then="refuse", idempotency_key="k")
    assert refused.error
    assert (await write(app, text="one", idempotency_key="k")).result == {"number": 1}


async def test_a_commit_with_a_lost_answer_is_recognized(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google's client then sends the commit again."""
    for arguments in ({"text": "one"}, {"text": "two", "idempotency_key": "k"}):
        with monkeypatch.context() as patch:
            intercept_commits(app.connection, patch, send_commit_twice(1))
            answer = await write(app, **arguments)
        assert answer.error is None
        assert answer.receipt.replayed is None
    assert await read_notes(app) == ["one", "two"]


async def test_twenty_concurrent_calls_all_take_effect(app: App) -> None:
    answers = await asyncio.gather(*(write(app, text=str(number)) for number in range(20)))
    assert [answer.error for answer in answers] == [None] * 20
    assert set(await read_notes(app)) == {str(number) for number in range(20)}


async def test_a_call_commits_once(app: App) -> None:
    async def write_twice(_args: Note, ctx: Context) -> Written:
        await ctx.commit([], Written(number=1))
        return await ctx.commit([], Written(number=2))

    request = CallRequest(
        call_id="c", arguments={"text": "x"}, caller=Caller.of("anna"), deadline=time.time() + 9
    )
    answer = await invoke(replace(WRITE, run=write_twice), request, app)
    assert answer.error
    assert answer.error.code == "INTERNAL_ERROR"
