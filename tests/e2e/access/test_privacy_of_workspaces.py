"""Materials are those of one user and one task, whoever asks, and however they name the task."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from shared.core.caller import Scope
from shared.core.ids import safe_id
from shared.workspaces.model import content_id

if TYPE_CHECKING:
    from pathlib import Path

    import httpx2

    from tests.e2e.access.all_tools_gateway import Carrel
    from tests.e2e.access.conftest import MakeKey

TOOL = "extract_key_info"
NAMES = [
    None,
    "notes",
    "Notes",
    "a/notes",
    safe_id("a/notes"),
    "../b/rag_tasks/notes",
    "n\u043etes",
]
IDENTITIES = [None, "notes", "a/notes", "b.private", "users/b", "x@y"]
EQUAL = "Rye bread needs a sour dough.\n\nA comet's tail points away from the sun."
"""What everybody brings."""
UNKNOWN = "0" * 32
_ROUNDS = itertools.count()

steps = st.tuples(
    st.integers(0, 1),
    st.sampled_from(IDENTITIES),
    st.sampled_from(NAMES),
    st.sampled_from(["bring", "bring", "bring equal", "document", "task"]),
    st.integers(0, 9),
)


@dataclass
class Person:
    """Somebody, and what they brought.

    Attributes:
        key: Their access key.
        mark: A word that stands in all that they alone bring, and nowhere else.
        tasks: Their materials by the id of the task.
        texts: All that they ever brought.
    """

    key: str
    mark: str
    tasks: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    texts: list[str] = field(default_factory=lambda: [EQUAL])


def shown(key: str, identity: str | None) -> str:
    """A credential, for a task."""
    return f"{identity}@{key}" if identity else key


def answer(response: httpx2.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    assert not result.get("isError"), result
    content: dict[str, Any] = result["structuredContent"]
    return content


def error(response: httpx2.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    assert result["isError"]
    failure: dict[str, Any] = json.loads(result["content"][0]["text"])["error"]
    return failure


@dataclass
class House:
    """People who share a server."""

    carrel: Carrel
    people: list[Person]

    def told(
        self, who: Person, identity: str | None, task: str | None, /, **arguments: Any
    ) -> httpx2.Response:
        """The answer to a question, in which nothing of anybody else's stands."""
        named = {"task_id": task} if task else {}
        credential = shown(who.key, identity)
        response = self.carrel.ask(credential, TOOL, top_k=20, **named, **arguments)
        everything = response.text + str(response.headers)
        assert [
            person.mark for person in self.people if person is not who and person.mark in everything
        ] == []
        return response

    def step(
        self, who: Person, identity: str | None, task: str | None, what: str, number: int
    ) -> None:
        """Somebody asks something, and is told what they brought to that task, and no more."""
        expected = safe_id(task or identity or "default")
        mine = who.tasks[expected]
        question = f"{who.mark} comet"
        match what:
            case "bring" | "bring equal":
                text = EQUAL if what == "bring equal" else f"{who.mark} {number}\n\n{who.mark}."
                result = answer(self.told(who, identity, task, query=question, materials=text))
                assert result["task_id"] == expected
                assert result["known"] == (text in mine)
                mine.add(text)
                who.texts.append(text)
                assert_from(result, {text})
            case "document":
                others = [text for person in self.people for text in person.texts]
                document = content_id(others[number % len(others)])
                response = self.told(who, identity, task, query=question, document=document)
                if matching := {text for text in mine if content_id(text) == document}:
                    assert_from(answer(response), matching)
                else:
                    never = self.told(who, identity, task, query=question, document=UNKNOWN)
                    assert error(never)["code"] == "NOT_FOUND"
                    assert error(response) == error(never)
            case _:
                response = self.told(who, identity, task, query=question, scope="task")
                if mine:
                    assert_from(answer(response), mine)
                else:
                    assert error(response)["code"] == "NOT_FOUND"


def assert_from(result: dict[str, Any], texts: set[str]) -> None:
    """All passages of these texts, and no other."""
    passages = {passage for text in texts for passage in text.split("\n\n")}
    assert set(result["contexts"]) == passages
    assert {content_id(text) for text in texts} >= {
        passage["document"] for passage in result["passages"]
    }


@settings(
    deadline=None,
    max_examples=3,
    phases=[Phase.generate],  # to make what failed smaller would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(script=st.lists(steps, min_size=8, max_size=10))
def test_an_answer_holds_what_its_user_brought_to_its_task_alone(
    carrel: Carrel,
    make_key: MakeKey,
    log: Path,
    script: list[tuple[int, str | None, str | None, str, int]],
) -> None:
    run = next(_ROUNDS)
    people = [
        Person(make_key(f"m{run}.{user}"), f"zyzzyva{run}x{number}x")
        for number, user in enumerate(["a", "a.b"])
    ]
    house = House(carrel, people)
    for who in people:
        house.step(who, None, "notes", "bring", 0)
        house.step(who, "notes", None, "bring equal", 0)
    for number, identity, task, what, which in script:
        house.step(people[number], identity, task, what, which)
    for who, task in itertools.product(people, ["notes", "default"]):
        house.step(who, None, task, "task", 0)
    written = log.read_text("utf-8")
    assert f"m{run}.a" in written
    assert "zyzzyva" not in written


@pytest.mark.parametrize(
    ("identity", "task", "expected"),
    [
        (None, None, "default"),
        ("of.the.key", None, safe_id("of.the.key")),
        (None, "named", "named"),
        ("of-the-key", "named", "named"),
        ("of-the-key", " default ", "default"),
        ("default", None, "default"),
    ],
)
def test_the_task_is_that_named_or_the_keys_or_the_default(
    carrel: Carrel, make_key: MakeKey, identity: str | None, task: str | None, expected: str
) -> None:
    key = make_key("materials.tasks")
    text = f"{identity} and {task} make {expected}."
    named = {"task_id": task} if task else {}
    result = answer(
        carrel.ask(shown(key, identity), TOOL, query="What do they make?", materials=text, **named)
    )
    assert result["task_id"] == expected
    assert result["contexts"] == [text]
    again = {"query": "What?", "document": result["document"], "task_id": expected}
    assert answer(carrel.ask(key, TOOL, **again))["contexts"] == [text]


def test_empty_tasks_are_an_error_and_nobody_names_a_user(
    carrel: Carrel, make_key: MakeKey
) -> None:
    key = make_key("materials.careful")
    arguments = {"query": "Who?", "materials": EQUAL}
    for task in ("", " \n"):
        failure = error(carrel.ask(shown(key, "notes"), TOOL, **arguments, task_id=task))
        assert failure["code"] == "VALIDATION_ERROR"
        assert list(failure["details"]) == ["task_id"]
    for name in ("user_id", "user", "path"):
        failure = error(carrel.ask(key, TOOL, **arguments, **{name: "m0.a"}))
        assert failure["code"] == "VALIDATION_ERROR"
        assert list(failure["details"]) == [name]
    failure = error(carrel.ask(key, TOOL, query="Who?", scope="task"))
    assert failure["code"] == "NOT_FOUND"


def test_strangers_and_keys_that_only_read_bring_and_ask_nothing(
    carrel: Carrel, make_key: MakeKey
) -> None:
    own = make_key("materials.reader")
    document = answer(carrel.ask(own, TOOL, query="rye", materials=EQUAL))["document"]
    reads = make_key("materials.reader", scopes=frozenset({Scope.READ}))
    for source in ({"materials": EQUAL}, {"document": document}, {"scope": "task"}):
        assert carrel.ask(None, TOOL, query="rye", **source).status_code == 401
        assert carrel.ask(reads, TOOL, query="rye", **source).status_code == 403
        assert carrel.ask(shown(reads, "default"), TOOL, query="rye", **source).status_code == 403
