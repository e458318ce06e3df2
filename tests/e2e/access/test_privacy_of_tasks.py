"""Users never see or change each other's tasks, the items of their to-do lists.

Hypothesis chooses the calls, which reuse task ids, idempotency keys and cursors of other users.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.e2e.access.all_tools_gateway import Carrel
from tests.e2e.access.conftest import MakeKey

USERS = ["a", "a.b", "a@b.example", "a+b@b.example"]
"""The ends of the user ids. Some are part of others."""

example_numbers = itertools.count()
"""The number of the Hypothesis example. All examples share one server, so each has new users."""


class Step(NamedTuple):
    """A call by the user with this index. Titles and idempotency keys are added when it is made."""

    user: int
    tool: str
    arguments: dict[str, Any]


users = st.integers(0, len(USERS) - 1)
task_ids = st.integers(1, 3).map(str)
"""Each user's task ids start at 1, so other users have tasks with the same ids."""
random_steps = st.one_of(
    st.builds(Step, users, st.just("add_task"), st.just({})),
    st.builds(
        Step,
        users,
        st.just("complete_task"),
        st.fixed_dictionaries({"task_id": task_ids}, optional={"completed": st.booleans()}),
    ),
    st.builds(
        Step,
        users,
        st.sampled_from(["update_task", "delete_task", "restore_task"]),
        st.fixed_dictionaries({"task_id": task_ids}),
    ),
    st.builds(
        Step,
        users,
        st.just("list_tasks"),
        st.fixed_dictionaries({"limit": st.integers(1, 2)}),  # small, so that lists have cursors
    ),
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
class User:
    """A user, and the expected content of their list.

    Attributes:
        key: Their access key.
        word: A word that is in all their titles and in no other.
        tasks: Their tasks by number.
        write_count: The number of their writes. It makes idempotency keys that others use, too.
    """

    key: str
    word: str
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
    """A server with its users.

    Attributes:
        carrel: The server.
        users: Its users.
        cursors: The cursors that it returned, each with the other arguments of its call.
    """

    carrel: Carrel
    users: list[User]
    cursors: list[tuple[dict[str, Any], str]] = field(default_factory=list)

    def call(self, user: User, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool; assert that the response contains no word of another user."""
        response = self.carrel.call_tool(user.key, tool, **arguments)
        assert response.status_code == 200, response.text
        words = [other.word for other in self.users if other is not user]
        assert [word for word in words if word in response.text] == []
        content: dict[str, Any] = response.json()["result"]["structuredContent"]
        return content

    def write(self, user: User, tool: str, arguments: dict[str, Any]) -> None:
        """Make a writing call with an idempotency key that other users use, too."""
        user.write_count += 1
        if tool in {"add_task", "update_task"}:
            arguments = {**arguments, "title": f"{user.word} {user.write_count}"}
        expected = user.apply(tool, arguments)
        content = self.call(user, tool, **arguments, idempotency_key=f"call {user.write_count}")
        if expected is None:
            assert content["error"]["code"] == "not_found"
        else:
            task = content["data"]["task"]
            assert task["title"] == expected.title
            assert task["status"] == expected.status

    def list_tasks(self, user: User, arguments: dict[str, Any]) -> None:
        """List tasks, also with all cursors that the server returned, to whomever."""
        data = self.call(user, "list_tasks", **arguments)["data"]
        assert all(user.word in task["title"] for task in data["tasks"])
        for cursor_arguments, cursor in self.cursors:
            page = self.call(user, "list_tasks", **cursor_arguments, cursor=cursor)["data"]
            assert all(user.word in task["title"] for task in page["tasks"])
        if "next_cursor" in data:
            self.cursors.append((arguments, data["next_cursor"]))

    def assert_list_is_as_expected(self, user: User) -> None:
        """Assert that the user's list contains exactly the expected tasks."""
        for status in ("all", "deleted"):
            data = self.call(user, "list_tasks", status=status)["data"]
            tasks = {
                int(task["task_id"]): (task["title"], task["status"]) for task in data["tasks"]
            }
            assert tasks == {
                number: (task.title, task.status)
                for number, task in user.tasks.items()
                if task.deleted == (status == "deleted")
            }


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=6,
    phases=[Phase.generate],  # shrinking a failure would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(random_steps, min_size=8, max_size=16))
def test_users_see_and_change_only_their_own_tasks(
    carrel: Carrel, make_key: MakeKey, steps: list[Step]
) -> None:
    example = next(example_numbers)
    # The last letter of a word ends its number, so that no word contains another.
    users = [
        User(make_key(f"r{example}.{name}"), f"word-{example}-{number}-x")
        for number, name in enumerate(USERS)
    ]
    server = Server(carrel, users)
    for user in users[:2]:
        for _ in range(2):
            server.write(user, "add_task", {})

    for step in steps:
        user = users[step.user]
        if step.tool == "list_tasks":
            server.list_tasks(user, step.arguments)
        else:
            server.write(user, step.tool, step.arguments)

    for user in users:
        server.assert_list_is_as_expected(user)
