"""Traces are read by all and belong to one: random people, of whom nobody learns who they are."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from functions.gateway.calls.call_log import EVENT
from infra.build.discovery import tools
from shared.core.caller import Scope, Tier
from shared.runtime.tool import Effect
from tests.support.log_metrics import entry_of

if TYPE_CHECKING:
    from pathlib import Path

    import httpx2

    from tests.e2e.access.all_tools_gateway import Carrel
    from tests.e2e.access.conftest import MakeKey

PEOPLE = ["zelda.quux@b.example", "zelda.quux@b.example.com", "zelda", "quux+zelda@b.example"]
NAMES = ("zelda", "quux", "b.example")
"""Parts of all of these, which stand in nothing that anybody writes."""
STRANGER = len(PEOPLE)
"""Stands for somebody whom the gateway does not know; what is more, for a trace's owner."""
SYLLABLES = ("ba", "ke", "ri", "lo", "mu", "sa", "to", "ni")
OFFERED = [tool for tool in tools() if not tool.internal]
WRITING = {tool.name for tool in OFFERED if tool.effect is not Effect.READ}
PUBLIC = {tool.name for tool in OFFERED if tool.tier is Tier.PUBLIC}
_NUMBERS = itertools.count()

steps = st.lists(
    st.tuples(
        st.integers(0, STRANGER + 3),
        st.sampled_from(
            ["contribute", "supersede", "vote", "amend", "withdraw", "withdraw", "put back", "read"]
        ),
        st.integers(0, 50),
    ),
    min_size=8,
    max_size=14,
)


@dataclass
class Trace:
    """What must have become of a trace.

    Attributes:
        trace_id: Its id.
        owner: Who contributed it, by their place among all.
        asked: A word of its title by which everybody looks for it.
        tag: Its tag, by which they look for it too.
        told: Words that stand in it, and in the votes on it, and nowhere else.
        revision: How often it was written.
        withdrawn: Whether it is withdrawn.
    """

    trace_id: str
    owner: int
    asked: str
    tag: str
    told: list[str]
    revision: int = 1
    withdrawn: bool = False


@pytest.fixture(scope="module")
def keys(make_key: MakeKey) -> list[str | None]:
    """Everybody's key; the stranger has none."""
    return [*map(make_key, PEOPLE), None]


def word() -> str:
    """A word that was never used."""
    chance = random.Random(next(_NUMBERS))  # noqa: S311 - no secret
    return "".join(chance.choices(SYLLABLES, k=7))


def make_code(response: httpx2.Response) -> str:
    """What is wrong: the error's code, or the status of a request that was not let in."""
    if response.status_code != 200:
        return str(response.status_code)
    result = response.json()["result"]
    if not result.get("isError"):
        return "ok"
    code: str = json.loads(result["content"][0]["text"])["error"]["code"]
    return code


@dataclass
class Commons:
    """What some people do to the traces that they share, and what must follow from it."""

    carrel: Carrel
    keys: list[str | None]
    traces: list[Trace] = field(default_factory=list)

    def told(self, who: int, tool: str, /, **arguments: Any) -> httpx2.Response:
        """The answer to a call: it names nobody, and tells of no trace that somebody withdrew."""
        response = self.carrel.ask(self.keys[who], tool, **arguments)
        everything = (response.text + str(response.headers)).lower()
        assert [name for name in NAMES if name in everything] == []
        hidden = [trace for trace in self.traces if trace.withdrawn and trace.owner != who]
        assert [text for trace in hidden for text in trace.told if text in everything] == []
        return response

    def code(self, who: int, tool: str, /, **arguments: Any) -> str:
        """What becomes of a call."""
        return make_code(self.told(who, tool, **arguments))

    def contribute(self, who: int, **more: str) -> str:
        """Somebody contributes a trace like no other."""
        asked, tag, *texts = (word() for _ in range(6))
        response = self.told(
            who,
            "contribute_trace",
            title=f"{asked} {texts[0]}",
            context_text=f"An error in {texts[1]}",
            solution_text=f"What worked was {texts[2]} {texts[3]}",
            tags=[tag],
            **more,
        )
        if (code := make_code(response)) == "ok":
            trace_id = response.json()["result"]["structuredContent"]["trace_id"]
            self.traces.append(Trace(trace_id, who, asked, tag, texts))
        return code

    def step(self, caller: int, what: str, number: int) -> None:
        """Somebody does something, to one of all traces."""
        trace = self.traces[number % len(self.traces)]
        who = caller if caller <= STRANGER else trace.owner
        match what:
            case "contribute":
                assert self.contribute(who) == ("401" if who == STRANGER else "ok")
            case "supersede":
                if who != trace.owner:
                    self.supersede(who, trace)
            case "vote":
                self.vote(who, trace, down=number % 2 == 0)
            case "amend":
                self.amend(who, trace)
            case "read":
                self.read(who, trace)
            case _:
                self.withdraw(who, trace, withdrawn=what == "withdraw")

    def supersede(self, who: int, trace: Trace) -> None:
        """Somebody says that theirs is better."""
        expected = self.unless_refused(who, trace, other="ok")
        assert self.contribute(who, supersedes=trace.trace_id) == expected

    def vote(self, who: int, trace: Trace, *, down: bool) -> None:
        """Somebody votes, and says why."""
        comment = word()
        against = {"vote_type": "down", "feedback_tag": "outdated", "feedback_text": comment}
        expected = self.unless_refused(who, trace, own="FORBIDDEN", other="ok")
        arguments = {"trace_id": trace.trace_id} | (against if down else {"vote_type": "up"})
        assert self.code(who, "vote_trace", **arguments) == expected
        trace.told.append(comment)

    def amend(self, who: int, trace: Trace) -> None:
        """Somebody changes what it says."""
        new = word()
        own = "CONFLICT" if trace.withdrawn else "ok"
        expected = self.unless_refused(who, trace, own=own, other="FORBIDDEN")
        arguments = {"trace_id": trace.trace_id, "solution_text": f"What worked was {new}"}
        assert self.code(who, "amend_trace", **arguments) == expected
        if expected == "ok":
            trace.revision += 1
            trace.told.append(new)

    def withdraw(self, who: int, trace: Trace, *, withdrawn: bool) -> None:
        """Somebody takes it away, or puts it back."""
        expected = self.unless_refused(who, trace, own="ok", other="FORBIDDEN")
        arguments = {"trace_id": trace.trace_id, "withdrawn": withdrawn}
        assert self.code(who, "withdraw_trace", **arguments) == expected
        if expected == "ok":
            trace.withdrawn = withdrawn

    def unless_refused(self, who: int, trace: Trace, *, own: str = "", other: str) -> str:
        """What becomes of a call that writes: strangers sign in, and nobody sees what is gone."""
        if who == STRANGER:
            return "401"
        if who == trace.owner:
            return own
        return "NOT_FOUND" if trace.withdrawn else other

    def read(self, who: int, trace: Trace) -> None:
        """Somebody looks for it in every way there is."""
        response = self.told(who, "get_trace", trace_id=trace.trace_id)
        if trace.withdrawn and who != trace.owner:
            assert make_code(response) == "NOT_FOUND"
        else:
            read = response.json()["result"]["structuredContent"]
            assert read["revision"] == trace.revision
            assert read["yours"] == (who == trace.owner)
            assert trace.told[0] in read["title"]
        for search in ({"query": trace.asked}, {"tags": [trace.tag]}):
            page = self.told(who, "search_traces", **search, include_flagged=True).json()
            hits = page["result"]["structuredContent"]["results"]
            assert trace.withdrawn != (trace.trace_id in {hit["trace_id"] for hit in hits})
        tags = self.told(who, "list_tags", prefix=trace.tag[:2], limit=300)
        assert trace.withdrawn != (trace.tag in tags.text)


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=6,
    phases=[Phase.generate],  # to make what failed smaller would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=steps)
def test_nobody_learns_who_wrote_or_what_was_withdrawn(
    carrel: Carrel, keys: list[str | None], log: Path, steps: list[tuple[int, str, int]]
) -> None:
    commons, before = Commons(carrel, keys), log.stat().st_size
    commons.contribute(0)
    commons.contribute(1)
    for who, what, number in steps:
        commons.step(who, what, number)
    for trace, who in itertools.product(commons.traces[:3], (0, 1, STRANGER)):
        commons.read(who, trace)
        commons.vote(who, trace, down=True)
    assert_logged_nobody_but_callers(log.read_bytes()[before:].decode())


def assert_logged_nobody_but_callers(logged: str) -> None:
    """A line about a call names who called, in one field; no line names anybody else."""
    lines = logged.splitlines()
    calls = [entry_of(line)["jsonPayload"] for line in lines if f'"{EVENT}"' in line]
    assert {*PEOPLE, None} >= {entry.pop("user") for entry in calls}
    others = [line for line in lines if f'"{EVENT}"' not in line]
    everything = (json.dumps(calls) + str(others)).lower()
    assert [name for name in NAMES if name in everything] == []


def listed(carrel: Carrel, key: str | None) -> set[str]:
    return {tool["name"] for tool in carrel.send(key, "tools/list").json()["result"]["tools"]}


def test_a_key_that_reads_sees_and_calls_no_tool_that_writes(
    carrel: Carrel, make_key: MakeKey
) -> None:
    key = make_key("reader.of.all", scopes=frozenset({Scope.READ}))
    assert listed(carrel, key) == {tool.name for tool in OFFERED} - WRITING
    refused = {name: carrel.ask(key, name).status_code for name in WRITING}
    assert dict.fromkeys(WRITING, 403) == refused
    assert {
        name: carrel.ask(key, "list_tasks").json()["result"]["structuredContent"][name]
        for name in ("success", "error")
    } == {"success": True, "error": None}


def test_a_stranger_sees_what_is_public_and_nobodys_tasks(carrel: Carrel) -> None:
    assert listed(carrel, None) == PUBLIC
    assert not {name for name in PUBLIC if "task" in name} | (WRITING & PUBLIC)
    closed = {tool.name for tool in OFFERED} - PUBLIC
    assert {name: carrel.ask(None, name).status_code for name in closed} == dict.fromkeys(
        closed, 401
    )
    assert make_code(carrel.ask(None, "list_tags")) == "ok"
