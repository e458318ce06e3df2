"""Everybody reads traces, but nobody learns who contributed or withdrew them.

A trace is a solved coding problem that a user shares. Others read it and vote on it. Its owner can
amend it, or withdraw it, which hides it from others. Hypothesis chooses who does what.
"""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from functions.gateway.calls.call_log import EVENT
from infra.build.discovery import tools
from shared.core.caller import Role, Scope, Tier
from shared.runtime.tool import Effect
from tests.e2e.access.all_tools_gateway import Carrel
from tests.e2e.access.conftest import MakeKey
from tests.support.log_metrics import parse_log_entry

USER_IDS = ["zelda.quux@b.example", "zelda.quux@b.example.com", "zelda", "quux+zelda@b.example"]
USER_ID_PARTS = ("zelda", "quux", "b.example")
"""The parts of all user ids. No text that a user writes contains one."""
ANONYMOUS = len(USER_IDS)
"""The number of the anonymous caller, after those of the users."""
OWNER = ANONYMOUS + 1
"""The caller's number in a step that the owner of its trace takes."""
SYLLABLES = ("ba", "ke", "ri", "lo", "mu", "sa", "to", "ni")
"""The syllables of random words, which differ from all parts of user ids."""
VISIBLE_TOOLS = [tool for tool in tools() if not tool.internal]
WRITE_TOOLS = {tool.name for tool in VISIBLE_TOOLS if tool.effect is not Effect.READ}
CURATING_TOOLS = {tool.name for tool in VISIBLE_TOOLS if tool.role is not Role.READER}
PUBLIC_TOOLS = {tool.name for tool in VISIBLE_TOOLS if tool.tier is Tier.PUBLIC}

seeds = itertools.count()
"""The seeds of random words."""


class Step(NamedTuple):
    """A caller acts on a trace.

    Attributes:
        caller: The number of a user, `ANONYMOUS` or `OWNER`.
        action: What the caller does.
        trace: A number that chooses the trace, modulo the number of traces.
    """

    caller: int
    action: str
    trace: int


random_steps = st.builds(
    Step,
    st.sampled_from([*range(len(USER_IDS)), ANONYMOUS, OWNER, OWNER, OWNER]),
    st.sampled_from(
        ["contribute", "supersede", "vote", "amend", "withdraw", "withdraw", "restore", "read"]
    ),
    st.integers(0, 50),
)


@dataclass
class Trace:
    """The expected state of a trace.

    Attributes:
        trace_id: Its id.
        owner: The number of the user who contributed it.
        title_word: A word of its title, for searches.
        tag: Its tag, for searches.
        words: Words that are only in this trace and in the votes on it.
        revision: The number of its revision.
        withdrawn: Whether it is withdrawn.
    """

    trace_id: str
    owner: int
    title_word: str
    tag: str
    words: list[str]
    revision: int = 1
    withdrawn: bool = False


@pytest.fixture(scope="module")
def keys(make_key: MakeKey) -> list[str | None]:
    """The key of each user; None for the anonymous caller."""
    return [*map(make_key, USER_IDS), None]


def make_word() -> str:
    """Return a word that was not used before."""
    generator = random.Random(next(seeds))  # noqa: S311 - no secret
    return "".join(generator.choices(SYLLABLES, k=7))


def read_code(response: httpx2.Response) -> str:
    """Return ok, the code of an error, or the HTTP status of a rejected request."""
    if response.status_code != 200:
        return str(response.status_code)
    result = response.json()["result"]
    if not result.get("isError"):
        return "ok"
    code: str = json.loads(result["content"][0]["text"])["error"]["code"]
    return code


@dataclass
class Server:
    """A server with its users and the expected traces."""

    carrel: Carrel
    keys: list[str | None]
    traces: list[Trace] = field(default_factory=list)

    def call(self, caller: int, tool: str, /, **arguments: Any) -> httpx2.Response:
        """Call a tool; assert that the response discloses no user and no withdrawn trace."""
        response = self.carrel.call_tool(self.keys[caller], tool, **arguments)
        body_and_headers = (response.text + str(response.headers)).lower()
        assert [part for part in USER_ID_PARTS if part in body_and_headers] == []
        hidden_traces = [t for t in self.traces if t.withdrawn and t.owner != caller]
        hidden_words = [word for trace in hidden_traces for word in trace.words]
        assert [word for word in hidden_words if word in body_and_headers] == []
        return response

    def call_for_code(self, caller: int, tool: str, /, **arguments: Any) -> str:
        """Call a tool and return ok, the error code or the HTTP status."""
        return read_code(self.call(caller, tool, **arguments))

    def contribute(self, caller: int, **fields: str) -> str:
        """Contribute a trace that resembles no other."""
        title_word, tag, *words = (make_word() for _ in range(6))
        response = self.call(
            caller,
            "contribute_trace",
            title=f"{title_word} {words[0]}",
            context_text=f"An error in {words[1]}",
            solution_text=f"What worked was {words[2]} {words[3]}",
            tags=[tag],
            **fields,
        )
        if (code := read_code(response)) == "ok":
            trace_id = response.json()["result"]["structuredContent"]["trace_id"]
            self.traces.append(Trace(trace_id, caller, title_word, tag, words))
        return code

    def take_step(self, step: Step) -> None:
        """Let the caller act on the trace; assert that the result is as expected."""
        trace = self.traces[step.trace % len(self.traces)]
        caller = trace.owner if step.caller == OWNER else step.caller
        match step.action:
            case "contribute":
                assert self.contribute(caller) == ("401" if caller == ANONYMOUS else "ok")
            case "supersede":
                if caller != trace.owner:
                    self.supersede(caller, trace)
            case "vote":
                self.vote(caller, trace, down=step.trace % 2 == 0)
            case "amend":
                self.amend(caller, trace)
            case "read":
                self.read(caller, trace)
            case _:
                self.withdraw(caller, trace, withdrawn=step.action == "withdraw")

    def supersede(self, caller: int, trace: Trace) -> None:
        """Contribute a trace that supersedes another."""
        expected = self.get_expected_code(caller, trace, other="ok")
        assert self.contribute(caller, supersedes=trace.trace_id) == expected

    def vote(self, caller: int, trace: Trace, *, down: bool) -> None:
        """Vote on a trace with a comment."""
        comment = make_word()
        downvote = {"vote_type": "down", "feedback_tag": "outdated", "feedback_text": comment}
        expected = self.get_expected_code(caller, trace, own="FORBIDDEN", other="ok")
        arguments = {"trace_id": trace.trace_id} | (downvote if down else {"vote_type": "up"})
        assert self.call_for_code(caller, "vote_trace", **arguments) == expected
        trace.words.append(comment)

    def amend(self, caller: int, trace: Trace) -> None:
        """Amend the solution of a trace."""
        new_word = make_word()
        owners_code = "CONFLICT" if trace.withdrawn else "ok"
        expected = self.get_expected_code(caller, trace, own=owners_code, other="FORBIDDEN")
        arguments = {"trace_id": trace.trace_id, "solution_text": f"What worked was {new_word}"}
        assert self.call_for_code(caller, "amend_trace", **arguments) == expected
        if expected == "ok":
            trace.revision += 1
            trace.words.append(new_word)

    def withdraw(self, caller: int, trace: Trace, *, withdrawn: bool) -> None:
        """Withdraw or restore a trace."""
        expected = self.get_expected_code(caller, trace, own="ok", other="FORBIDDEN")
        arguments = {"trace_id": trace.trace_id, "withdrawn": withdrawn}
        assert self.call_for_code(caller, "withdraw_trace", **arguments) == expected
        if expected == "ok":
            trace.withdrawn = withdrawn

    def get_expected_code(self, caller: int, trace: Trace, *, own: str = "", other: str) -> str:
        """Return the expected code of a writing call.

        Args:
            caller: The number of the caller.
            trace: The trace.
            own: The code for the owner of the trace.
            other: The code for another user, while the trace is visible.
        """
        if caller == ANONYMOUS:
            return "401"
        if caller == trace.owner:
            return own
        return "NOT_FOUND" if trace.withdrawn else other

    def read(self, caller: int, trace: Trace) -> None:
        """Look for a trace with every tool that reads."""
        response = self.call(caller, "get_trace", trace_id=trace.trace_id)
        if trace.withdrawn and caller != trace.owner:
            assert read_code(response) == "NOT_FOUND"
        else:
            read = response.json()["result"]["structuredContent"]
            assert read["revision"] == trace.revision
            assert read["yours"] == (caller == trace.owner)
            assert trace.words[0] in read["title"]
        for search in ({"query": trace.title_word}, {"tags": [trace.tag]}):
            page = self.call(caller, "search_traces", **search, include_flagged=True).json()
            hits = page["result"]["structuredContent"]["results"]
            assert trace.withdrawn != (trace.trace_id in {hit["trace_id"] for hit in hits})
        tags = self.call(caller, "list_tags", prefix=trace.tag[:2], limit=300)
        assert trace.withdrawn != (trace.tag in tags.text)


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=6,
    phases=[Phase.generate],  # shrinking a failure would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(random_steps, min_size=8, max_size=14))
def test_authors_and_withdrawn_traces_are_never_disclosed(
    carrel: Carrel, keys: list[str | None], log: Path, steps: list[Step]
) -> None:
    server = Server(carrel, keys)
    size_before = log.stat().st_size
    server.contribute(0)
    server.contribute(1)
    for step in steps:
        server.take_step(step)
    # At the end, the first traces are still shown to those, and only those, who may see them.
    for trace, caller in itertools.product(server.traces[:3], (0, 1, ANONYMOUS)):
        server.read(caller, trace)
        server.vote(caller, trace, down=True)
    assert_logs_name_only_callers(log.read_bytes()[size_before:].decode())


def assert_logs_name_only_callers(logged: str) -> None:
    """Assert that only the log entry of a call names a user, the caller, and only in one field."""
    lines = logged.splitlines()
    calls = [parse_log_entry(line)["jsonPayload"] for line in lines if f'"{EVENT}"' in line]
    assert {entry.pop("user") for entry in calls} <= {*USER_IDS, None}
    others = [line for line in lines if f'"{EVENT}"' not in line]
    remaining_text = (json.dumps(calls) + str(others)).lower()
    assert [part for part in USER_ID_PARTS if part in remaining_text] == []


def list_tools(carrel: Carrel, key: str | None) -> set[str]:
    """Return the names of the tools that a caller sees."""
    return {
        tool["name"] for tool in carrel.send_request(key, "tools/list").json()["result"]["tools"]
    }


def test_a_read_only_key_sees_and_calls_no_writing_tool(carrel: Carrel, make_key: MakeKey) -> None:
    key = make_key("reader.of.all", scopes=frozenset({Scope.READ}))
    assert list_tools(carrel, key) == {tool.name for tool in VISIBLE_TOOLS} - WRITE_TOOLS

    # A curating tool would be refused anyway, because the user is a reader.
    names = WRITE_TOOLS - CURATING_TOOLS
    statuses = {name: carrel.call_tool(key, name).status_code for name in names}
    assert statuses == dict.fromkeys(names, 403)

    result = carrel.call_tool(key, "list_tasks").json()["result"]["structuredContent"]
    assert result["success"] is True
    assert result["error"] is None


@pytest.mark.requirement("002-L4")
def test_an_anonymous_caller_sees_only_public_tools(carrel: Carrel) -> None:
    assert list_tools(carrel, None) == PUBLIC_TOOLS
    assert not WRITE_TOOLS & PUBLIC_TOOLS
    assert [name for name in PUBLIC_TOOLS if "task" in name] == []
    private = {tool.name for tool in VISIBLE_TOOLS} - PUBLIC_TOOLS
    statuses = {name: carrel.call_tool(None, name).status_code for name in private}
    assert statuses == dict.fromkeys(private, 401)
    assert read_code(carrel.call_tool(None, "list_tags")) == "ok"
