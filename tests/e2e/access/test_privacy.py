"""Users never read each other's notes, even if the names of users and notebooks resemble.

The tools under test write to a notebook and read it. A user has several notebooks: the text before
the `@` in the credential names one. Hypothesis chooses the users, the notebooks and the calls.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.access.conftest import MakeKey
from tests.support.gateway_process import RunningGateway
from tests.support.mcp_wire import make_call, post

USERS = ["a.b", "a", "b", "a@b.example", "a+b@b.example"]
NOTEBOOKS = [None, "notes", "a.b", "b", "../b", "users", "a/notes", "notes-"]
"""The texts before the `@` in a credential. Some are also user ids or resemble paths."""
DEFAULT_NOTEBOOK = "notes"
"""The notebook of a credential that names none."""

example_numbers = itertools.count()
"""The number of the Hypothesis example. All examples share one server, so texts start with it."""


class Step(NamedTuple):
    """A user reads a notebook, and may write a note there before."""

    user: str
    notebook: str | None
    writes: bool


random_steps = st.builds(
    Step, st.sampled_from(USERS), st.sampled_from(NOTEBOOKS), writes=st.booleans()
)


@pytest.fixture(scope="module")
def keys(make_key: MakeKey) -> dict[str, str]:
    """The key of each user."""
    return {user: make_key(f"{user}.privacy") for user in USERS}


@pytest.mark.requirement("003-P4")
@settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(random_steps, min_size=3, max_size=8))
def test_users_read_only_their_own_notes(
    gateway: RunningGateway, keys: dict[str, str], steps: list[Step]
) -> None:
    example = str(next(example_numbers))
    texts_by_notebook: dict[tuple[str, str], list[str]] = defaultdict(list)
    for number, step in enumerate(steps):
        expected_texts = texts_by_notebook[step.user, step.notebook or DEFAULT_NOTEBOOK]
        key = keys[step.user]
        if step.writes:
            text = f"{example} {step.user} {number}"
            call_tool(gateway, key, step.notebook, "write_note", text=text, idempotency_key=text)
            expected_texts.append(text)

        notes = call_tool(gateway, key, step.notebook, "read_notes")["texts"]
        assert {note.split()[1] for note in notes} <= {step.user}
        assert [note for note in notes if note.split()[0] == example] == expected_texts


def call_tool(
    gateway: RunningGateway, key: str, notebook: str | None, tool: str, /, **arguments: Any
) -> dict[str, Any]:
    """Call a tool for a notebook; return its structured content."""
    credential = f"{notebook}@{key}" if notebook else key
    headers: dict[str, str | None] = {"authorization": f"Bearer {credential}"}
    response = post(gateway.endpoint, make_call(tool, arguments), headers)
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    assert not result.get("isError"), result
    content: dict[str, Any] = result["structuredContent"]
    return content
