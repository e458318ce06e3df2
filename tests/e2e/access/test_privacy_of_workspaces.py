"""Materials belong to one user and one task, however a caller names the task."""

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
COMMON_TEXT = "Rye bread needs a sour dough.\n\nA comet's tail points away from the sun."
"""The text that every user provides."""
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
    """A user, and the texts that they provided.

    Attributes:
        key: Their access key.
        mark: A word that is in all texts that only they provide.
        tasks: Their texts by the id of the task.
        texts: All texts that they have provided.
    """

    key: str
    mark: str
    tasks: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    texts: list[str] = field(default_factory=lambda: [COMMON_TEXT])


def credential(key: str, identity: str | None) -> str:
    """Return a credential for a task."""
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
class Server:
    """A server with its users."""

    carrel: Carrel
    people: list[Person]

    def call(
        self, person: Person, identity: str | None, task: str | None, /, **arguments: Any
    ) -> httpx2.Response:
        """Call the tool; assert that the response contains no mark of another user."""
        task_argument = {"task_id": task} if task else {}
        response = self.carrel.ask(
            credential(person.key, identity), TOOL, top_k=20, **task_argument, **arguments
        )
        everything = response.text + str(response.headers)
        assert [
            other.mark for other in self.people if other is not person and other.mark in everything
        ] == []
        return response

    def step(
        self, person: Person, identity: str | None, task: str | None, action: str, number: int
    ) -> None:
        """Make a call; assert that it returns exactly the texts of that user and task."""
        expected = safe_id(task or identity or "default")
        own_texts = person.tasks[expected]
        question = f"{person.mark} comet"
        match action:
            case "bring" | "bring equal":
                text = (
                    COMMON_TEXT
                    if action == "bring equal"
                    else f"{person.mark} {number}\n\n{person.mark}."
                )
                result = answer(self.call(person, identity, task, query=question, materials=text))
                assert result["task_id"] == expected
                assert result["known"] == (text in own_texts)
                own_texts.add(text)
                person.texts.append(text)
                assert_contains_exactly(result, {text})
            case "document":
                all_texts = [text for user in self.people for text in user.texts]
                document = content_id(all_texts[number % len(all_texts)])
                response = self.call(person, identity, task, query=question, document=document)
                if matching := {text for text in own_texts if content_id(text) == document}:
                    assert_contains_exactly(answer(response), matching)
                else:
                    unknown = self.call(person, identity, task, query=question, document=UNKNOWN)
                    assert error(unknown)["code"] == "NOT_FOUND"
                    assert error(response) == error(unknown)
            case _:
                response = self.call(person, identity, task, query=question, scope="task")
                if own_texts:
                    assert_contains_exactly(answer(response), own_texts)
                else:
                    assert error(response)["code"] == "NOT_FOUND"


def assert_contains_exactly(result: dict[str, Any], texts: set[str]) -> None:
    """Assert that a result contains exactly the passages of these texts."""
    passages = {passage for text in texts for passage in text.split("\n\n")}
    assert set(result["contexts"]) == passages
    assert {content_id(text) for text in texts} >= {
        passage["document"] for passage in result["passages"]
    }


@settings(
    deadline=None,
    max_examples=3,
    phases=[Phase.generate],  # shrinking a failure would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(script=st.lists(steps, min_size=8, max_size=10))
def test_an_answer_has_only_texts_of_its_user_and_task(
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
    server = Server(carrel, people)
    for person in people:
        server.step(person, None, "notes", "bring", 0)
        server.step(person, "notes", None, "bring equal", 0)
    for index, identity, task, action, number in script:
        server.step(people[index], identity, task, action, number)
    for person, task in itertools.product(people, ["notes", "default"]):
        server.step(person, None, task, "task", 0)
    logged = log.read_text("utf-8")
    assert f"m{run}.a" in logged
    assert "zyzzyva" not in logged


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
def test_the_task_is_the_argument_the_keys_or_the_default(
    carrel: Carrel, make_key: MakeKey, identity: str | None, task: str | None, expected: str
) -> None:
    key = make_key("materials.tasks")
    text = f"{identity} and {task} make {expected}."
    task_argument = {"task_id": task} if task else {}
    result = answer(
        carrel.ask(
            credential(key, identity),
            TOOL,
            query="What do they make?",
            materials=text,
            **task_argument,
        )
    )
    assert result["task_id"] == expected
    assert result["contexts"] == [text]
    later = {"query": "What?", "document": result["document"], "task_id": expected}
    assert answer(carrel.ask(key, TOOL, **later))["contexts"] == [text]


def test_empty_tasks_and_user_arguments_are_rejected(carrel: Carrel, make_key: MakeKey) -> None:
    key = make_key("materials.careful")
    arguments = {"query": "Who?", "materials": COMMON_TEXT}
    for task in ("", " \n"):
        failure = error(carrel.ask(credential(key, "notes"), TOOL, **arguments, task_id=task))
        assert failure["code"] == "VALIDATION_ERROR"
        assert list(failure["details"]) == ["task_id"]
    for name in ("user_id", "user", "path"):
        failure = error(carrel.ask(key, TOOL, **arguments, **{name: "m0.a"}))
        assert failure["code"] == "VALIDATION_ERROR"
        assert list(failure["details"]) == [name]
    failure = error(carrel.ask(key, TOOL, query="Who?", scope="task"))
    assert failure["code"] == "NOT_FOUND"


def test_anonymous_and_read_only_callers_are_rejected(carrel: Carrel, make_key: MakeKey) -> None:
    own_key = make_key("materials.reader")
    document = answer(carrel.ask(own_key, TOOL, query="rye", materials=COMMON_TEXT))["document"]
    read_only = make_key("materials.reader", scopes=frozenset({Scope.READ}))
    for source in ({"materials": COMMON_TEXT}, {"document": document}, {"scope": "task"}):
        assert carrel.ask(None, TOOL, query="rye", **source).status_code == 401
        assert carrel.ask(read_only, TOOL, query="rye", **source).status_code == 403
        assert (
            carrel.ask(credential(read_only, "default"), TOOL, query="rye", **source).status_code
            == 403
        )
