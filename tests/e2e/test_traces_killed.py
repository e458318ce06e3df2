"""The functions that change traces are killed at any moment, and what they share stays exact."""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio.to_thread
import pytest

from tests.support.random_kills import hammered, mortal
from tests.support.stored_traces import assert_postings_exact, assert_tallies, stored_votes
from tests.support.tool_calls import call_result
from tests.support.traces import make_request, stored_documents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from shared.ai.local_embedding import LocalEmbedder
    from shared.runtime.context import App
    from shared.runtime.messages import CallRequest
    from tests.support.random_kills import Answered

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def embedder(local_embedder: LocalEmbedder) -> LocalEmbedder:
    """The embedder that the functions use."""
    return local_embedder


KILLS: Final = {"amend_trace": 2, "contribute_trace": 2, "vote_trace": 3, "withdraw_trace": 2}
"""How often each function is killed while the others change the same traces."""
FUNCTIONS: Final = tuple(KILLS)
PEOPLE: Final = 3
"""The number of clients of each function, so that every kill interrupts calls."""
SYLLABLES: Final = ("ba", "ke", "ri", "lo", "mu", "sa", "to", "ni")
CHOICES: Final[tuple[dict[str, Any], ...]] = (
    {"vote_type": "up"},
    {"vote_type": "down", "feedback_tag": "wrong", "feedback_text": "It fails."},
    {"vote_type": "none"},
    {"vote_type": "down", "feedback_tag": "spam"},
    {"vote_type": "up"},
)


class PersonTraces(NamedTuple):
    """The traces that a person contributes before the first kill.

    Attributes:
        amended: Amended again and again while others vote on it.
        former: Found while the trace that supersedes it is withdrawn.
        toggled: Supersedes `former`, and is withdrawn and restored in turn.
        replaced: Superseded by the first contribution during the kills.
    """

    amended: str
    former: str
    toggled: str
    replaced: str


def user(person: int) -> str:
    return f"person{person}"


def texts(name: str) -> dict[str, Any]:
    """The fields of a trace that is similar to no other."""
    chance = random.Random(name)  # noqa: S311 - no secret
    words = ["".join(chance.choices(SYLLABLES, k=4)) for _ in range(12)]
    return {
        "title": f"Trace {name}",
        "context_text": f"An error in {' '.join(words[:6])}",
        "solution_text": f"What worked was {' '.join(words[6:])}",
        "tags": ["hot", words[0]],
    }


def amendment(person: int, number: int) -> dict[str, str]:
    """The changed field of an amendment: the solution, and every third time the title."""
    name = "title" if number % 3 == 1 else "solution_text"
    return {name: f"Try {number} of person {person}"}


async def contribute_first_traces(app: App, person: int) -> PersonTraces:
    """Contribute the traces of a person."""

    async def contribute(kind: str, **more: str) -> str:
        new = texts(f"{person} {kind}") | more
        return str((await call_result(app, "contribute_trace", user(person), **new))["trace_id"])

    former = await contribute("former")
    return PersonTraces(
        amended=await contribute("amended"),
        former=former,
        toggled=await contribute("toggled", supersedes=former),
        replaced=await contribute("replaced"),
    )


def make_caller(traces: list[PersonTraces]) -> Callable[[int, int], tuple[str, CallRequest]]:
    """Return a function that makes the calls of clients: one for each person and function."""

    def arguments(tool: str, person: int, number: int) -> dict[str, Any]:
        mine = traces[person]
        match tool:
            case "contribute_trace":
                replacing = {} if number else {"supersedes": mine.replaced}
                return texts(f"{person} {number}") | replacing
            case "amend_trace":
                return {"trace_id": mine.amended} | amendment(person, number)
            case "vote_trace":
                voted_person = (person + 1 + number % (PEOPLE - 1)) % PEOPLE
                return {"trace_id": traces[voted_person].amended} | CHOICES[number % len(CHOICES)]
        return {"trace_id": mine.toggled, "withdrawn": number % 2 == 0}

    def call(client: int, number: int) -> tuple[str, CallRequest]:
        person, tool = client // len(FUNCTIONS), FUNCTIONS[client % len(FUNCTIONS)]
        keyed = arguments(tool, person, number) | {"idempotency_key": f"{tool} {number}"}
        return tool, make_request(tool, user(person), keyed)

    return call


async def test_sums_are_exact_after_random_kills(
    app: App,
    project: str,
    tmp_path: Path,
    kill_chance: random.Random,
) -> None:
    traces = await asyncio.gather(
        *(contribute_first_traces(app, person) for person in range(PEOPLE))
    )

    def work() -> list[Answered]:
        with ExitStack() as stack:
            environment, log = {"GOOGLE_CLOUD_PROJECT": project}, tmp_path / "log"
            functions = {
                tool: stack.enter_context(
                    mortal(tool, environment, log, kills=kills, chance=kill_chance)
                )
                for tool, kills in KILLS.items()
            }
            return hammered(functions, PEOPLE * len(FUNCTIONS), make_caller(list(traces)))

    answers = await anyio.to_thread.run_sync(work)
    assert [call.answer.error for call in answers if call.answer.error] == []
    assert sum(call.sent - 1 for call in answers) >= len(FUNCTIONS)
    await assert_postings_exact(app)
    await assert_tallies(app)
    await assert_contributed_once(app, answers, traces)
    for person, mine in enumerate(traces):
        done = [call for call in answers if call.request.caller.user_id == user(person)]
        await assert_amended_in_order(app, mine.amended, person, done)
        await assert_toggled(app, mine, done)
        await assert_voted(app, person, done)


def calls_of(tool: str, answers: list[Answered]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The arguments and results of the calls of a tool, in order for each person."""
    return [
        (call.request.arguments, call.answer.result or {}) for call in answers if call.tool == tool
    ]


async def assert_contributed_once(
    app: App, answers: list[Answered], traces: list[PersonTraces]
) -> None:
    """Assert that every contribution is stored once, under the returned id."""
    new = {result["trace_id"]: sent for sent, result in calls_of("contribute_trace", answers)}
    stored = await stored_documents(app, "traces")
    assert stored.keys() == new.keys() | {trace_id for own in traces for trace_id in own}
    for trace_id, sent in new.items():
        read = stored[trace_id]
        assert {name: read[name] for name in texts("")} == {name: sent[name] for name in texts("")}
        replaced = stored[sent["supersedes"]]["superseded_by"] if "supersedes" in sent else trace_id
        assert replaced == trace_id


async def assert_amended_in_order(
    app: App, trace_id: str, person: int, answers: list[Answered]
) -> None:
    """Assert that every revision is stored, each with one amendment more."""
    amended = calls_of("amend_trace", answers)
    assert [result["revision"] for _, result in amended] == list(range(2, len(amended) + 2))
    contents = [texts(f"{person} amended")]
    for number in range(len(amended)):
        contents.append(contents[-1] | amendment(person, number))
    stored = await stored_documents(app, f"traces/{trace_id}/revisions")
    now = (await stored_documents(app, "traces"))[trace_id]
    read = [stored[str(number)] for number in range(1, len(amended) + 1)] + [now]
    assert len(stored) == len(amended)
    assert [{name: row[name] for name in texts("")} for row in read] == contents


async def assert_toggled(app: App, mine: PersonTraces, answers: list[Answered]) -> None:
    """Assert that calls took turns, and that the superseded trace followed."""
    toggles = calls_of("withdraw_trace", answers)
    assert [result["changed"] for _, result in toggles] == [True] * len(toggles)
    stored, is_withdrawn = await stored_documents(app, "traces"), len(toggles) % 2 == 1
    assert (stored[mine.toggled]["withdrawn_at"] is not None) == is_withdrawn
    assert (None if is_withdrawn else mine.toggled) == stored[mine.former]["superseded_by"]


async def assert_voted(app: App, person: int, answers: list[Answered]) -> None:
    """Assert that the last of a person's votes on a trace is stored."""
    last = {sent["trace_id"]: sent for sent, _ in calls_of("vote_trace", answers)}
    traces = await stored_documents(app, "traces")
    for trace_id, sent in last.items():
        vote = (await stored_votes(app, trace_id)).get(user(person))
        if sent["vote_type"] == "none":
            # A vote on an earlier text may remain; it does not count.
            assert vote is None or vote["revision"] < traces[trace_id]["text_revision"]
        else:
            assert vote
            assert vote["vote"] == sent["vote_type"]
            assert vote["tag"] == sent.get("feedback_tag")
