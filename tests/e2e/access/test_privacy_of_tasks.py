"""A to-do list is its owner's alone: random people, with what they saw of one another's calls."""

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
"""Everybody counts from 1: each of these ids was in the answers to others, if not in one's own."""
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
    """What must have become of a task."""

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
    """Somebody, and what must stand in their list.

    Attributes:
        key: Their access key.
        mark: A word that stands in all that they write, and nowhere else.
        tasks: Their tasks by number.
        wrote: How often they wrote: the name of their next call, which others used as well.
    """

    key: str
    mark: str
    tasks: dict[int, Task] = field(default_factory=dict)
    wrote: int = 0

    def play(self, tool: str, arguments: dict[str, Any]) -> Task | None:
        """Do to their own list what a call does; None if there is nothing to do it to."""
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
class House:
    """People who share a server."""

    carrel: Carrel
    people: list[Person]
    cursors: list[tuple[dict[str, Any], str]] = field(default_factory=list)

    def told(self, who: Person, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The answer to a call, in which nothing of anybody else's stands."""
        response = self.carrel.ask(who.key, tool, **arguments)
        assert response.status_code == 200, response.text
        assert [
            person.mark
            for person in self.people
            if person is not who and person.mark in response.text
        ] == []
        answer: dict[str, Any] = response.json()["result"]["structuredContent"]
        return answer

    def write(self, who: Person, tool: str, arguments: dict[str, Any]) -> None:
        """Make a call under a name that others used for calls of theirs."""
        who.wrote += 1
        if tool in {"add_task", "update_task"}:
            arguments |= {"title": f"{who.mark} {who.wrote}"}
        expected = who.play(tool, arguments)
        answer = self.told(who, tool, **arguments, idempotency_key=f"call {who.wrote}")
        if expected is None:
            assert answer["error"]["code"] == "not_found"
        else:
            task = answer["data"]["task"]
            assert task["title"] == expected.title
            assert task["status"] == expected.status

    def look(self, who: Person, arguments: dict[str, Any]) -> None:
        """List tasks, also from where somebody else's list goes on."""
        for request, cursor in [(arguments, None), *self.cursors]:
            more = {"cursor": cursor} if cursor else {}
            data = self.told(who, "list_tasks", **request, **more)["data"]
            assert all(who.mark in task["title"] for task in data["tasks"])
            if "next_cursor" in data and not cursor:
                self.cursors.append((request, data["next_cursor"]))

    def assert_whole(self, who: Person) -> None:
        """Their list is what they made of it."""
        for status in ("all", "deleted"):
            data = self.told(who, "list_tasks", status=status)["data"]
            listed = {
                int(task["task_id"]): (task["title"], task["status"]) for task in data["tasks"]
            }
            assert {
                number: (task.title, task.status)
                for number, task in who.tasks.items()
                if task.deleted == (status == "deleted")
            } == listed


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=6,
    phases=[Phase.generate],  # to make what failed smaller would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(st.tuples(st.integers(0, len(USERS) - 1), calls), min_size=8, max_size=16))
def test_nobody_sees_or_changes_a_task_of_somebody_else(
    carrel: Carrel, make_key: MakeKey, steps: list[tuple[int, Call]]
) -> None:
    run = next(_ROUNDS)
    people = [
        Person(make_key(f"r{run}.{user}"), f"mark-{run}-{number}-x")
        for number, user in enumerate(USERS)
    ]
    house = House(carrel, people)
    for who in people[:2]:  # two lists, of which each has what the other has not
        for _ in range(2):
            house.write(who, "add_task", {})
    for number, (tool, arguments) in steps:
        if tool == "list_tasks":
            house.look(people[number], arguments)
        else:
            house.write(people[number], tool, arguments)
    for who in people:
        house.assert_whole(who)
