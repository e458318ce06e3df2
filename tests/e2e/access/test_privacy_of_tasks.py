"""Users never see or change each other's tasks. Users reuse ids, keys and cursors of others."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.e2e.access.all_tools_gateway import Carrel
    from tests.e2e.access.conftest import MakeKey

    Call = tuple[str, dict[str, Any]]

USERS = ["a", "a.b", "a@b.example", "a+b@b.example"]
_ROUNDS = itertools.count()

numbers = st.integers(1, 3).map(str)
"""The ids of tasks. Each user's ids start at 1, so other users have tasks with the same ids."""
calls: st.SearchStrategy[Call] = st.one_of(
    st.tuples(st.just("add_task"), st.just({})),
    st.tuples(
        st.just("complete_task"),
        st.fixed_dictionaries({"task_id": numbers}, optional={"completed": st.booleans()}),
    ),
    st.tuples(
        st.sampled_from(["update_task", "delete_task", "restore_task"]),
        st.fixed_dictionaries({"task_id": numbers}),
    ),
    st.tuples(st.just("list_tasks"), st.fixed_dictionaries({"limit": st.integers(1, 2)})),
)


@dataclass
class Task:
    """The expected state of a task."""

    title: str
    completed: bool = False
    deleted: bool = False

    @property
    def status(self) -> str:
        if self.deleted:
            return "deleted"
        return "completed" if self.completed else "open"


@dataclass
class Person:
    """A user, and the expected content of their list.

    Attributes:
        key: Their access key.
        mark: A word that is in all their titles and in no other.
        tasks: Their tasks by number.
        write_count: The number of their writes. It makes idempotency keys that others use, too.
    """

    key: str
    mark: str
    tasks: dict[int, Task] = field(default_factory=dict)
    write_count: int = 0

    def apply(self, tool: str, arguments: dict[str, Any]) -> Task | None:
        """Apply a call to the expected list. Return None if the task does not exist."""
        if tool == "add_task":
            task = self.tasks[len(self.tasks) + 1] = Task(arguments["title"])
            return task
        stored = self.tasks.get(int(arguments["task_id"]))
        if stored is None or (stored.deleted and tool != "restore_task"):
            return None
        match tool:
            case "complete_task":
                stored.completed = arguments.get("completed", True)
            case "update_task":
                stored.title = arguments["title"]
            case _:
                stored.deleted = tool == "delete_task"
        return stored


@dataclass
class Server:
    """A server with its users."""

    carrel: Carrel
    people: list[Person]
    cursors: list[tuple[dict[str, Any], str]] = field(default_factory=list)

    def call(self, person: Person, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool; assert that the response contains no mark of another user."""
        response = self.carrel.ask(person.key, tool, **arguments)
        assert response.status_code == 200, response.text
        assert [
            other.mark
            for other in self.people
            if other is not person and other.mark in response.text
        ] == []
        answer: dict[str, Any] = response.json()["result"]["structuredContent"]
        return answer

    def write(self, person: Person, tool: str, arguments: dict[str, Any]) -> None:
        """Make a writing call with an idempotency key that other users use, too."""
        person.write_count += 1
        if tool in {"add_task", "update_task"}:
            arguments |= {"title": f"{person.mark} {person.write_count}"}
        expected = person.apply(tool, arguments)
        answer = self.call(person, tool, **arguments, idempotency_key=f"call {person.write_count}")
        if expected is None:
            assert answer["error"]["code"] == "not_found"
        else:
            task = answer["data"]["task"]
            assert task["title"] == expected.title
            assert task["status"] == expected.status

    def list_tasks(self, person: Person, arguments: dict[str, Any]) -> None:
        """List tasks, also with cursors of other users."""
        for request, cursor in [(arguments, None), *self.cursors]:
            cursor_argument = {"cursor": cursor} if cursor else {}
            data = self.call(person, "list_tasks", **request, **cursor_argument)["data"]
            assert all(person.mark in task["title"] for task in data["tasks"])
            if "next_cursor" in data and not cursor:
                self.cursors.append((request, data["next_cursor"]))

    def assert_complete(self, person: Person) -> None:
        """Assert that the list of a user is as expected."""
        for status in ("all", "deleted"):
            data = self.call(person, "list_tasks", status=status)["data"]
            listed = {
                int(task["task_id"]): (task["title"], task["status"]) for task in data["tasks"]
            }
            assert listed == {
                number: (task.title, task.status)
                for number, task in person.tasks.items()
                if task.deleted == (status == "deleted")
            }


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=6,
    phases=[Phase.generate],  # shrinking a failure would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(st.tuples(st.integers(0, len(USERS) - 1), calls), min_size=8, max_size=16))
def test_users_see_and_change_only_their_own_tasks(
    carrel: Carrel, make_key: MakeKey, steps: list[tuple[int, Call]]
) -> None:
    run = next(_ROUNDS)
    people = [
        Person(make_key(f"r{run}.{user}"), f"mark-{run}-{number}-x")
        for number, user in enumerate(USERS)
    ]
    server = Server(carrel, people)
    for person in people[:2]:
        for _ in range(2):
            server.write(person, "add_task", {})
    for number, (tool, arguments) in steps:
        if tool == "list_tasks":
            server.list_tasks(people[number], arguments)
        else:
            server.write(people[number], tool, arguments)
    for person in people:
        server.assert_complete(person)
