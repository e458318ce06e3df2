"""Random calls on a stored to-do list, compared with a list in memory."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.tasks import call_at, list_ids

if TYPE_CHECKING:
    from shared.runtime.context import App

    Model = list[dict[str, Any]]
    """Tasks in the order of their numbers; `before` is the status of a deleted task before."""

pytestmark = pytest.mark.anyio

FIELDS = ("title", "description", "priority", "due_date", "status")
TODAY = "2026-03-10"
_USERS = (f"person-{number}" for number in itertools.count())

titles = st.sampled_from(["bake", "Bake bread", "sail"])
descriptions = st.sampled_from([None, "bread", "A long\nstory."])
priorities = st.sampled_from(["Low", "Medium", "High"])
days = st.sampled_from([None, "2026-03-09", "2026-03-10", "2026-03-11"])
task_ids = st.integers(1, 5).map(str)
fields = {"description": descriptions, "priority": priorities, "due_date": days}

calls = st.one_of(
    st.tuples(st.just("add_task"), st.fixed_dictionaries({"title": titles}, optional=fields)),
    st.tuples(
        st.just("update_task"),
        st.fixed_dictionaries({"task_id": task_ids}, optional=fields | {"title": titles}),
    ),
    st.tuples(
        st.just("complete_task"),
        st.fixed_dictionaries({"task_id": task_ids}, optional={"completed": st.booleans()}),
    ),
    st.tuples(
        st.sampled_from(["delete_task", "restore_task"]),
        st.fixed_dictionaries({"task_id": task_ids}),
    ),
)
filters = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["all", "open", "completed", "deleted"]),
        "priority": priorities,
        "due_from": st.sampled_from(["2026-03-09", "2026-03-10"]),
        "due_to": st.sampled_from(["2026-03-10", "2026-03-11"]),
        "overdue": st.booleans(),
        "query": st.sampled_from(["BREAD", "bake", "long story", "b"]),
    },
)


def apply_call(model: Model, name: str, arguments: dict[str, Any]) -> dict[str, Any] | str:
    """Apply a call to the model; return the task, or the error code."""
    if name == "add_task":
        defaults = {"description": None, "priority": "Medium", "due_date": None, "status": "open"}
        model.append(defaults | arguments)
        return model[-1]
    number = int(arguments["task_id"])
    changes = {name: value for name, value in arguments.items() if name != "task_id"}
    if name == "update_task" and not changes:
        return "VALIDATION_ERROR"
    task = model[number - 1] if number <= len(model) else None
    if task is None or (task["status"] == "deleted" and name != "restore_task"):
        return "NOT_FOUND"
    match name:
        case "update_task":
            task |= changes
        case "complete_task":
            task["status"] = "completed" if changes.get("completed", True) else "open"
        case "delete_task":
            task |= {"status": "deleted", "before": task["status"]}
        case "restore_task":
            task["status"] = task.pop("before", task["status"])
    return task


def list_expected_ids(model: Model, arguments: dict[str, Any]) -> list[str]:
    """Return the ids that `list_tasks` must return."""
    status = arguments.get("status", "all")
    overdue = arguments.get("overdue")
    words = arguments.get("query", "").lower().split()

    def belongs(task: dict[str, Any]) -> bool:
        due = task["due_date"]
        is_open = task["status"] == "open"
        text = f"{task['title']} {task['description'] or ''}".lower()
        return all(
            (
                task["status"] == status or (status == "all" and task["status"] != "deleted"),
                arguments.get("priority", task["priority"]) == task["priority"],
                "due_from" not in arguments or (due and due >= arguments["due_from"]),
                "due_to" not in arguments or (due and due <= arguments["due_to"]),
                overdue is None or overdue == bool(is_open and due and due < TODAY),
                all(word in text for word in words),
            )
        )

    return [str(number) for number in range(len(model), 0, -1) if belongs(model[number - 1])]


def visible(task: dict[str, Any]) -> dict[str, Any]:
    return {name: task[name] for name in FIELDS if task.get(name) is not None}


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    script=st.lists(st.tuples(calls, st.booleans()), min_size=4, max_size=14),
    queries=st.lists(filters, min_size=1, max_size=4),
)
async def test_stored_list_equals_its_model(
    app: App, script: list[tuple[tuple[str, dict[str, Any]], bool]], queries: list[dict[str, Any]]
) -> None:
    user = next(_USERS)
    model = list[dict[str, Any]]()
    for (name, arguments), is_undone in script:
        states = [visible(task) for task in model]
        undo = await check_call(app, user, model, name, arguments)
        if is_undone and undo and name != "add_task":
            await check_call(app, user, model, undo["tool"], undo["arguments"])
            assert states == [visible(task) for task in model]
    for query in queries:
        assert await list_ids(app, user, **query) == list_expected_ids(model, query)


async def check_call(
    app: App, user: str, model: Model, name: str, arguments: dict[str, Any]
) -> dict[str, Any] | None:
    """Make a call, compare the result with the model, and return the undo."""
    states = [visible(task) for task in model]
    expected = apply_call(model, name, arguments)
    answer = await call_at(app, name, user, **arguments)
    if isinstance(expected, str):
        assert answer.error
        assert answer.error.code == expected
        return None
    assert answer.result, answer.error
    task, changed_names = answer.result["task"], answer.result["changed"]
    number = int(task["task_id"])
    before = states[number - 1] if number <= len(states) else {}
    assert visible(expected) == visible(task)
    assert {name for name in FIELDS if before.get(name) != task.get(name)} == set(changed_names)
    assert bool(changed_names) == ("undo" in answer.result)
    undo: dict[str, Any] | None = answer.result.get("undo")
    return undo
