"""A write that a client repeats after a time-out, without a key, is stored once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared.core.caller import Caller, Role
from shared.runtime.context import App
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import call_result
from tests.support.traces import make_sample_trace

ANNA = Caller.of("anna", role=Role.EDITOR)
TASK: dict[str, Any] = {"title": "Buy flour", "due_date": "2026-03-12"}
WRITES: list[Any] = [
    pytest.param("save_note", {"text": "Rye bread keeps for a week."}, "sources", id="save_note"),
    pytest.param("contribute_trace", make_sample_trace(0), "traces", id="contribute_trace"),
    pytest.param("add_task", TASK, "users/anna/tasks", id="add_task"),
    pytest.param("add_task", {"tasks": [TASK, {"title": "x"}]}, "users/anna/tasks", id="tasks"),
]


@pytest.mark.parametrize(("tool", "arguments", "collection"), WRITES)
async def test_a_repeated_call_stores_once(
    app: App, tool: str, arguments: dict[str, Any], collection: str
) -> None:
    await call_result(app, tool, ANNA, **arguments)
    stored = await read_app_documents(app, collection)
    await call_result(app, tool, ANNA, **arguments)
    assert list(await read_app_documents(app, collection)) == list(stored)


@pytest.mark.parametrize(("tool", "arguments", "collection"), WRITES)
async def test_calls_at_the_same_moment_store_once(
    app: App, tool: str, arguments: dict[str, Any], collection: str
) -> None:
    await asyncio.gather(*(call_result(app, tool, ANNA, **arguments) for _ in range(3)))
    assert len(await read_app_documents(app, collection)) == len(arguments.get("tasks", "x"))
