"""A text belongs to the user and the workspace that it was uploaded to, whatever the names.

`extract_key_info` answers questions about texts, its `materials`. A workspace contains the texts
that a user uploaded under one name. That name is the argument `task_id`, or else the text before
the `@` in the credential, or else `default`.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from shared.core.caller import Scope
from shared.core.ids import safe_id
from shared.workspaces.model import content_id
from tests.e2e.access.all_tools_gateway import Carrel
from tests.e2e.access.conftest import MakeKey

TOOL = "extract_key_info"
TASK_NAMES = [
    None,
    "notes",
    "Notes",  # differs only in case
    "a/notes",  # has a character that ids may not contain
    safe_id("a/notes"),  # is the id of the previous name, so both name the same workspace
    "../b/rag_tasks/notes",  # is a path to a workspace of another user
    "n\u043etes",  # looks like "notes", but has a Cyrillic o
]
"""The values of `task_id`."""
CREDENTIAL_PREFIXES = [None, "notes", "a/notes", "b.private", "users/b", "x@y"]
"""The texts before the `@` in a credential. Some are also task names, and some resemble users."""
COMMON_TEXT = "Rye bread needs a sour dough.\n\nA comet's tail points away from the sun."
"""The text that every user uploads."""
RARE_WORD = "zyzzyva"
"""A word that only the texts of users contain, so it shows whether a text was logged."""
UNKNOWN_DOCUMENT = "0" * 32
"""A valid document id that no text has."""

example_numbers = itertools.count()
"""The number of the Hypothesis example. All examples share one server, so each has new users."""


class Action(Enum):
    """What a call does."""

    UPLOAD_OWN_TEXT = auto()
    UPLOAD_COMMON_TEXT = auto()
    READ_DOCUMENT = auto()
    READ_WORKSPACE = auto()


@dataclass(frozen=True)
class Step:
    """One call.

    Attributes:
        user: The index of the user.
        prefix: The text before the `@` in the credential.
        task: The argument `task_id`.
        action: What the call does.
        number: The number of the user's own text to upload, or of the document to read.
    """

    user: int
    prefix: str | None
    task: str | None
    action: Action
    number: int


random_steps = st.builds(
    Step,
    st.integers(0, 1),
    st.sampled_from(CREDENTIAL_PREFIXES),
    st.sampled_from(TASK_NAMES),
    st.sampled_from([Action.UPLOAD_OWN_TEXT, *Action]),  # such uploads are twice as likely
    st.integers(0, 9),
)


@dataclass
class User:
    """A user, and the texts that they uploaded.

    Attributes:
        key: Their access key.
        word: A word that is in all texts that only they upload.
        workspaces: Their uploaded texts, by the id of the workspace.
        texts: All their uploaded texts, and the common text from the start.
    """

    key: str
    word: str
    workspaces: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    texts: list[str] = field(default_factory=lambda: [COMMON_TEXT])


def make_credential(key: str, prefix: str | None) -> str:
    """Return the key, after the prefix if there is one."""
    return f"{prefix}@{key}" if prefix else key


def parse_result(response: httpx2.Response) -> dict[str, Any]:
    """Return the structured content; assert that the call succeeded."""
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    assert not result.get("isError"), result
    content: dict[str, Any] = result["structuredContent"]
    return content


def parse_error(response: httpx2.Response) -> dict[str, Any]:
    """Return the error; assert that the tool reported one."""
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    assert result["isError"]
    error: dict[str, Any] = json.loads(result["content"][0]["text"])["error"]
    return error


@dataclass
class Server:
    """A server with its users."""

    carrel: Carrel
    users: list[User]

    def call(self, step: Step, **arguments: Any) -> httpx2.Response:
        """Call the tool; assert that the response contains no word of another user."""
        user = self.users[step.user]
        if step.task:
            arguments["task_id"] = step.task
        response = self.carrel.call_tool(
            make_credential(user.key, step.prefix),
            TOOL,
            query=f"{user.word} comet",
            top_k=20,
            **arguments,
        )
        body_and_headers = response.text + str(response.headers)
        words = [other.word for other in self.users if other is not user]
        assert [word for word in words if word in body_and_headers] == []
        return response

    def run(self, step: Step) -> None:
        """Make a call; assert that it returns exactly the texts of that user and workspace."""
        user = self.users[step.user]
        workspace = safe_id(step.task or step.prefix or "default")
        own_texts = user.workspaces[workspace]
        match step.action:
            case Action.UPLOAD_OWN_TEXT | Action.UPLOAD_COMMON_TEXT:
                text = (
                    COMMON_TEXT
                    if step.action is Action.UPLOAD_COMMON_TEXT
                    else f"{user.word} {step.number}\n\n{user.word}."
                )
                result = parse_result(self.call(step, materials=text))
                assert result["task_id"] == workspace
                assert result["known"] == (text in own_texts)
                own_texts.add(text)
                user.texts.append(text)
                assert_contains_exactly(result, {text})
            case Action.READ_DOCUMENT:
                all_texts = [text for other in self.users for text in other.texts]
                document = content_id(all_texts[step.number % len(all_texts)])
                response = self.call(step, document=document)
                if matching := {text for text in own_texts if content_id(text) == document}:
                    assert_contains_exactly(parse_result(response), matching)
                else:
                    unknown = parse_error(self.call(step, document=UNKNOWN_DOCUMENT))
                    assert unknown["code"] == "NOT_FOUND"
                    assert parse_error(response) == unknown
            case Action.READ_WORKSPACE:
                response = self.call(step, scope="task")
                if own_texts:
                    assert_contains_exactly(parse_result(response), own_texts)
                else:
                    assert parse_error(response)["code"] == "NOT_FOUND"


def assert_contains_exactly(result: dict[str, Any], texts: set[str]) -> None:
    """Assert that a result contains exactly the passages of these texts."""
    passages = {passage for text in texts for passage in text.split("\n\n")}
    assert set(result["contexts"]) == passages
    assert {content_id(text) for text in texts} >= {
        passage["document"] for passage in result["passages"]
    }


@pytest.mark.requirement("001-B1", "001-X4")
@settings(
    deadline=None,
    max_examples=3,
    phases=[Phase.generate],  # shrinking a failure would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(random_steps, min_size=8, max_size=10))
def test_an_answer_has_only_texts_of_its_user_and_workspace(
    carrel: Carrel, make_key: MakeKey, log: Path, steps: list[Step]
) -> None:
    example = next(example_numbers)
    # The second id extends the first by a dot, which also separates the parts of "b.private". The
    # last letter of a word ends its number, so that no word contains another.
    users = [
        User(make_key(f"m{example}.{name}"), f"{RARE_WORD}{example}x{number}x")
        for number, name in enumerate(["a", "a.b"])
    ]
    server = Server(carrel, users)
    for index in range(len(users)):
        server.run(Step(index, None, "notes", Action.UPLOAD_OWN_TEXT, 0))
        server.run(Step(index, "notes", None, Action.UPLOAD_COMMON_TEXT, 0))
    for step in steps:
        server.run(step)
    # At the end, the workspaces that most steps use still have all their own texts, and no others.
    for index, task in itertools.product(range(len(users)), ["notes", "default"]):
        server.run(Step(index, None, task, Action.READ_WORKSPACE, 0))
    logged = log.read_text("utf-8")
    assert f"m{example}.a" in logged
    assert RARE_WORD not in logged


@pytest.mark.parametrize(
    ("prefix", "task", "expected"),
    [
        (None, None, "default"),
        ("of.the.key", None, safe_id("of.the.key")),
        (None, "named", "named"),
        ("of-the-key", "named", "named"),
        ("of-the-key", " default ", "default"),
        ("default", None, "default"),
    ],
)
def test_the_task_argument_takes_precedence_over_the_credential(
    carrel: Carrel, make_key: MakeKey, prefix: str | None, task: str | None, expected: str
) -> None:
    key = make_key("materials.tasks")
    text = f"{prefix} and {task} make {expected}."
    arguments = {"query": "What do they make?", "materials": text}
    if task:
        arguments["task_id"] = task
    result = parse_result(carrel.call_tool(make_credential(key, prefix), TOOL, **arguments))
    assert result["task_id"] == expected
    assert result["contexts"] == [text]
    next_arguments = {"query": "What?", "document": result["document"], "task_id": expected}
    assert parse_result(carrel.call_tool(key, TOOL, **next_arguments))["contexts"] == [text]


def test_blank_tasks_and_user_arguments_are_rejected(carrel: Carrel, make_key: MakeKey) -> None:
    key = make_key("materials.careful")
    arguments = {"query": "Who?", "materials": COMMON_TEXT}
    blank_task = {**arguments, "task_id": " \n"}
    error = parse_error(carrel.call_tool(make_credential(key, "notes"), TOOL, **blank_task))
    assert error["code"] == "VALIDATION_ERROR"
    assert list(error["details"]) == ["task_id"]
    for name in ("user_id", "user", "path"):
        error = parse_error(carrel.call_tool(key, TOOL, **arguments, **{name: "m0.a"}))
        assert error["code"] == "VALIDATION_ERROR"
        assert list(error["details"]) == [name]


def test_an_empty_workspace_is_not_found(carrel: Carrel, make_key: MakeKey) -> None:
    key = make_key("materials.empty")
    error = parse_error(carrel.call_tool(key, TOOL, query="Who?", scope="task"))
    assert error["code"] == "NOT_FOUND"


def test_anonymous_and_read_only_callers_are_rejected(carrel: Carrel, make_key: MakeKey) -> None:
    key = make_key("materials.reader")
    document = parse_result(carrel.call_tool(key, TOOL, query="rye", materials=COMMON_TEXT))[
        "document"
    ]
    read_only = make_key("materials.reader", scopes=frozenset({Scope.READ}))
    # The tool's own argument `scope` is the extent of the search, not the scope of a key.
    for source in ({"materials": COMMON_TEXT}, {"document": document}, {"scope": "task"}):
        arguments = {"query": "rye", **source}
        credential = make_credential(read_only, "default")
        assert carrel.call_tool(None, TOOL, **arguments).status_code == 401
        assert carrel.call_tool(read_only, TOOL, **arguments).status_code == 403
        assert carrel.call_tool(credential, TOOL, **arguments).status_code == 403
