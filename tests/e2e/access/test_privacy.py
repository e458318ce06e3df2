"""Users never read or change each other's notes. Users, tasks and calls are random."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.mcp_wire import make_call, post

if TYPE_CHECKING:
    from tests.e2e.access.conftest import MakeKey
    from tests.support.gateway_process import RunningGateway

USERS = ["a.b", "a", "b", "a@b.example", "a+b@b.example"]
TASKS = [None, "notes", "a.b", "b", "../b", "users", "a/notes", "notes-"]
_ROUNDS = itertools.count()


@pytest.fixture(scope="module")
def keys(make_key: MakeKey) -> dict[str, str]:
    """The key of each user."""
    return {user: make_key(f"{user}.privacy") for user in USERS}


step = st.tuples(st.sampled_from(USERS), st.sampled_from(TASKS), st.booleans())


@settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(step, min_size=3, max_size=8))
def test_users_read_only_their_own_notes(
    gateway: RunningGateway, keys: dict[str, str], steps: list[tuple[str, str | None, bool]]
) -> None:
    run = next(_ROUNDS)
    texts_by_notebook: dict[tuple[str, str], list[str]] = {}
    for number, (user, task, writes) in enumerate(steps):
        expected = texts_by_notebook.setdefault((user, task or "notes"), [])
        if writes:
            text = f"{user} {run} {number}"
            answer = ask(gateway, keys[user], task, "write_note", text=text, idempotency_key=text)
            assert not answer.get("isError"), answer
            expected.append(text)
        texts = ask(gateway, keys[user], task, "read_notes")["structuredContent"]["texts"]
        assert [text for text in texts if text.split()[1] == str(run)] == expected
        assert all(text.split()[0] == user for text in texts)


def ask(
    gateway: RunningGateway, key: str, task: str | None, tool: str, /, **arguments: Any
) -> dict[str, Any]:
    credential = f"{task}@{key}" if task else key
    headers: dict[str, str | None] = {"authorization": f"Bearer {credential}"}
    response = post(gateway.endpoint, make_call(tool, arguments), headers)
    assert response.status_code == 200, response.text
    result: dict[str, Any] = response.json()["result"]
    return result
