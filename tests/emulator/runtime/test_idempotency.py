"""A call that is sent twice with an idempotency key takes effect once and is answered twice.

The tool `write_note` stores a note and returns the number of notes. For tests, its argument `then`
makes it fail after the commit (`break`) or before it (`refuse`).

Stored answers are found by the data that they belong to, and so deleted with these data.
"""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from shared.core.caller import Caller, Role
from shared.firestore.idempotency_records import about_query
from shared.runtime.context import App, Context
from shared.runtime.invocation import invoke
from shared.runtime.messages import CallAnswer, CallRequest
from shared.runtime.outcome import Outcome
from tests.support.commit_hooks import intercept_commits, send_commit_twice
from tests.support.notebook_tools import TOOLS, Note, Written
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import call_result, make_call_request
from tests.support.traces import make_sample_trace

WRITE, READ, *_ = TOOLS
EDITOR = Caller.of("anna", role=Role.EDITOR)
TASK: dict[str, Any] = {"title": "Buy flour", "due_date": "2026-03-12"}
WRITES: list[Any] = [
    pytest.param("save_note", {"text": "Rye bread keeps for a week."}, "sources", id="save_note"),
    pytest.param("contribute_trace", make_sample_trace(0), "traces", id="contribute_trace"),
    pytest.param("add_task", TASK, "users/anna/tasks", id="add_task"),
    pytest.param("add_task", {"tasks": [TASK, {"title": "x"}]}, "users/anna/tasks", id="tasks"),
]
"""Calls that a client may repeat without a key, and the collections in which they store."""
WORKSPACE = "rag_tasks/notes"
"""The path of the data that an answer belongs to, below the user."""


async def write(
    app: App, user: str = "anna", task: str | None = None, **arguments: Any
) -> CallAnswer:
    """Call `write_note` as the gateway does."""
    return await invoke(WRITE, make_call_request(WRITE, Caller.of(user, task=task), arguments), app)


async def read_notes(app: App, user: str = "anna") -> list[str]:
    request = CallRequest(
        call_id="r", arguments={}, caller=Caller.of(user), deadline=time.time() + 20
    )
    answer = await invoke(READ, request, app)
    assert answer.result
    texts: list[str] = answer.result["texts"]
    return texts


async def test_a_repeated_call_is_answered_as_the_first_time(app: App) -> None:
    """Its price is the same, too. A call without a key always takes effect."""
    answers = [
        await write(app, text="one", **({"idempotency_key": "k"} if has_key else {}))
        for has_key in (True, False, True, False)
    ]
    assert [answer.result for answer in answers] == [{"number": n} for n in (1, 2, 1, 3)]
    assert [answer.receipt.replayed for answer in answers] == [None, None, True, None]
    assert [answer.receipt.price for answer in answers] == [len("one")] * 4
    assert answers[2].receipt.documents_written == 0
    assert await read_notes(app) == ["one"] * 3


async def test_the_same_key_in_another_task_is_a_conflict(app: App) -> None:
    await write(app, task="one", text="one", idempotency_key="k")
    answer = await write(app, task="two", text="one", idempotency_key="k")
    assert answer.error
    assert answer.error.code == "CONFLICT"


async def test_keys_of_different_users_are_different_keys(app: App) -> None:
    for user in ("anna", "ben"):
        answer = await write(app, user, text=user, idempotency_key="k")
        assert answer.receipt.replayed is None
    assert await read_notes(app) == ["anna"]
    assert await read_notes(app, "ben") == ["ben"]


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


async def store_answer(app: App, about: str | None, key: str, user: str = "anna") -> None:
    async def run(args: Note, ctx: Context) -> Outcome[Written]:
        outcome = Outcome(Written(number=len(args.text)), belongs_to=about)
        return await ctx.commit([], outcome)

    tool = replace(WRITE, run=run)
    arguments = {"text": key, "idempotency_key": key}
    answer = await invoke(tool, make_call_request(tool, Caller.of(user), arguments), app)
    assert answer.error is None


async def test_answers_are_found_by_their_data(app: App, ctx: Context) -> None:
    await store_answer(app, WORKSPACE, "one")
    await store_answer(app, WORKSPACE, "two")
    await store_answer(app, "rag_tasks/other", "three")
    await store_answer(app, None, "four")
    await store_answer(app, WORKSPACE, "of another user", user="ben")

    answers = await ctx.database.find(about_query("users/anna", WORKSPACE))
    assert len(answers) == 2
    for answer in answers:
        assert answer.reference.path.startswith("users/anna/")
        assert answer.get("about") == WORKSPACE


@pytest.mark.parametrize(("tool", "arguments", "collection"), WRITES)
async def test_a_repeated_call_stores_once(
    app: App, tool: str, arguments: dict[str, Any], collection: str
) -> None:
    """So do calls at the same moment."""
    await asyncio.gather(*(call_result(app, tool, EDITOR, **arguments) for _ in range(3)))
    await call_result(app, tool, EDITOR, **arguments)
    assert len(await read_app_documents(app, collection)) == len(arguments.get("tasks", "x"))
