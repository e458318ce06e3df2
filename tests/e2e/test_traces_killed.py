"""Traces stay consistent while the functions that change them are killed at random.

A trace is a solved coding problem. A person contributes, amends, withdraws and restores traces, and
votes on those of others. A trace can supersede another. Clients repeat interrupted calls.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio.to_thread
import pytest

from tests.support.random_kills import call_until_functions_survive, run_killed_function
from tests.support.stored_documents import read_app_documents
from tests.support.stored_traces import (
    assert_tallies_match_votes,
    assert_trace_postings_are_exact,
    read_votes,
)
from tests.support.tool_calls import call_result
from tests.support.traces import make_trace_request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from shared.ai.local_embedding import LocalEmbedder
    from shared.runtime.context import App
    from shared.runtime.messages import CallRequest
    from tests.support.random_kills import AnsweredCall

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def embedder(local_embedder: LocalEmbedder) -> LocalEmbedder:
    """The embedder that the functions use."""
    return local_embedder


KILL_COUNTS: Final = {"amend_trace": 2, "contribute_trace": 2, "vote_trace": 3, "withdraw_trace": 2}
"""How often each function is killed while the others change the same traces."""
FUNCTIONS: Final = tuple(KILL_COUNTS)
PERSON_COUNT: Final = 3
"""The number of clients of each function, one for each person. With three, a function is always
busy, so every kill interrupts a call."""
SYLLABLES: Final = ("ba", "ke", "ri", "lo", "mu", "sa", "to", "ni")
VOTES: Final[tuple[dict[str, Any], ...]] = (
    {"vote_type": "up"},
    {"vote_type": "down", "feedback_tag": "wrong", "feedback_text": "It fails."},
    {"vote_type": "none"},
    {"vote_type": "down", "feedback_tag": "spam"},
    {"vote_type": "up"},
)


class PersonTraces(NamedTuple):
    """The traces that a person contributes before the first kill.

    Attributes:
        amended: Is amended repeatedly while others vote on it.
        superseded: Can be found while the trace that supersedes it is withdrawn.
        toggled: Supersedes `superseded`, and is withdrawn and restored in turn.
        replaced: Is superseded by the first contribution during the kills.
    """

    amended: str
    superseded: str
    toggled: str
    replaced: str


def make_user(person: int) -> str:
    """Return the id of a person's user."""
    return f"person{person}"


def make_fields(name: str) -> dict[str, Any]:
    """Return the fields of a trace that resembles no other."""
    generator = random.Random(name)  # noqa: S311 - no secret
    words = ["".join(generator.choices(SYLLABLES, k=4)) for _ in range(12)]
    return {
        "title": f"Trace {name}",
        "context_text": f"An error in {' '.join(words[:6])}",
        "solution_text": f"What worked was {' '.join(words[6:])}",
        "tags": ["hot", words[0]],
    }


def make_amendment(person: int, number: int) -> dict[str, str]:
    """Return the field that an amendment changes: every third time the title, else the solution."""
    name = "title" if number % 3 == 1 else "solution_text"
    return {name: f"Try {number} of person {person}"}


async def contribute_first_traces(app: App, person: int) -> PersonTraces:
    """Contribute the first traces of a person."""

    async def contribute(kind: str, **options: str) -> str:
        fields = make_fields(f"{person} {kind}") | options
        result = await call_result(app, "contribute_trace", make_user(person), **fields)
        return str(result["trace_id"])

    superseded = await contribute("superseded")
    return PersonTraces(
        amended=await contribute("amended"),
        superseded=superseded,
        toggled=await contribute("toggled", supersedes=superseded),
        replaced=await contribute("replaced"),
    )


def make_caller(traces: list[PersonTraces]) -> Callable[[int, int], tuple[str, CallRequest]]:
    """Return a function that makes the calls: `call(client, number)`.

    Each pair of a person and a function is a client, which numbers its calls from 0.
    """

    def make_arguments(tool: str, person: int, number: int) -> dict[str, Any]:
        own_traces = traces[person]
        match tool:
            case "contribute_trace":
                replacement = {} if number else {"supersedes": own_traces.replaced}
                return make_fields(f"{person} {number}") | replacement
            case "amend_trace":
                return {"trace_id": own_traces.amended} | make_amendment(person, number)
            case "vote_trace":
                voted_person = (person + 1 + number % (PERSON_COUNT - 1)) % PERSON_COUNT
                return {"trace_id": traces[voted_person].amended} | VOTES[number % len(VOTES)]
        return {"trace_id": own_traces.toggled, "withdrawn": number % 2 == 0}

    def call(client: int, number: int) -> tuple[str, CallRequest]:
        person = client // len(FUNCTIONS)
        tool = FUNCTIONS[client % len(FUNCTIONS)]
        idempotency_key = {"idempotency_key": f"{tool} {number}"}
        request_arguments = make_arguments(tool, person, number) | idempotency_key
        return tool, make_trace_request(tool, make_user(person), request_arguments)

    return call


async def test_traces_are_consistent_after_random_kills(
    app: App, project: str, tmp_path: Path, kill_generator: random.Random
) -> None:
    traces = await asyncio.gather(
        *(contribute_first_traces(app, person) for person in range(PERSON_COUNT))
    )

    def run_calls() -> list[AnsweredCall]:
        with ExitStack() as stack:
            environment = {"GOOGLE_CLOUD_PROJECT": project}
            functions = {}
            for tool, kills in KILL_COUNTS.items():
                function = run_killed_function(
                    tool, environment, tmp_path / "log", kills=kills, generator=kill_generator
                )
                functions[tool] = stack.enter_context(function)
            return call_until_functions_survive(
                functions, PERSON_COUNT * len(FUNCTIONS), make_caller(list(traces))
            )

    answers = await anyio.to_thread.run_sync(run_calls)
    assert [call.answer.error for call in answers if call.answer.error] == []
    repeated_attempts = sum(call.attempts - 1 for call in answers)
    assert repeated_attempts >= len(FUNCTIONS)

    await assert_trace_postings_are_exact(app)
    await assert_tallies_match_votes(app)
    await assert_contributed_once(app, answers, traces)
    for person, own_traces in enumerate(traces):
        own_calls = [call for call in answers if call.request.caller.user_id == make_user(person)]
        await assert_amended_in_order(app, own_traces.amended, person, own_calls)
        await assert_toggled(app, own_traces, own_calls)
        await assert_voted(app, person, own_calls)


def select_calls(
    tool: str, answers: list[AnsweredCall]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the arguments and results of the calls of a tool, in order for each person."""
    return [
        (call.request.arguments, call.answer.result or {}) for call in answers if call.tool == tool
    ]


async def assert_contributed_once(
    app: App, answers: list[AnsweredCall], traces: list[PersonTraces]
) -> None:
    """Assert that every contribution is stored once, under the returned id."""
    contributions = {
        result["trace_id"]: arguments
        for arguments, result in select_calls("contribute_trace", answers)
    }
    stored = await read_app_documents(app, "traces")
    first_ids = {trace_id for person_traces in traces for trace_id in person_traces}
    assert stored.keys() == contributions.keys() | first_ids
    for trace_id, arguments in contributions.items():
        trace = stored[trace_id]
        for name in make_fields(""):
            assert trace[name] == arguments[name]
        if "supersedes" in arguments:
            assert stored[arguments["supersedes"]]["superseded_by"] == trace_id


async def assert_amended_in_order(
    app: App, trace_id: str, person: int, answers: list[AnsweredCall]
) -> None:
    """Assert that every revision is stored, each with one more amendment than the one before."""
    amendments = select_calls("amend_trace", answers)
    count = len(amendments)
    assert [result["revision"] for _, result in amendments] == list(range(2, count + 2))

    expected_contents = [make_fields(f"{person} amended")]
    for number in range(count):
        expected_contents.append(expected_contents[-1] | make_amendment(person, number))
    earlier_revisions = await read_app_documents(app, f"traces/{trace_id}/revisions")
    assert len(earlier_revisions) == count
    current = (await read_app_documents(app, "traces"))[trace_id]
    revisions = [*(earlier_revisions[str(number)] for number in range(1, count + 1)), current]
    contents = [{name: revision[name] for name in make_fields("")} for revision in revisions]
    assert contents == expected_contents


async def assert_toggled(app: App, traces: PersonTraces, answers: list[AnsweredCall]) -> None:
    """Assert that every call changed the trace, and that the superseded trace followed."""
    toggles = select_calls("withdraw_trace", answers)
    assert [result["changed"] for _, result in toggles] == [True] * len(toggles)
    stored = await read_app_documents(app, "traces")
    is_withdrawn = len(toggles) % 2 == 1
    assert (stored[traces.toggled]["withdrawn_at"] is not None) == is_withdrawn
    assert stored[traces.superseded]["superseded_by"] == (None if is_withdrawn else traces.toggled)


async def assert_voted(app: App, person: int, answers: list[AnsweredCall]) -> None:
    """Assert that the last of a person's votes on a trace is stored."""
    last_votes = {
        arguments["trace_id"]: arguments for arguments, _ in select_calls("vote_trace", answers)
    }
    traces = await read_app_documents(app, "traces")
    for trace_id, arguments in last_votes.items():
        vote = (await read_votes(app, trace_id)).get(make_user(person))
        if arguments["vote_type"] == "none":
            # A vote on an earlier text may remain; it does not count.
            assert vote is None or vote["revision"] < traces[trace_id]["text_revision"]
        else:
            assert vote
            assert vote["vote"] == arguments["vote_type"]
            assert vote["tag"] == arguments.get("feedback_tag")
