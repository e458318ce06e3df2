"""Whatever is done to a to-do list, it stands as a list in memory would."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.tasks import ask, ids

if TYPE_CHECKING:
    from shared.runtime.context import App

    Model = list[dict[str, Any]]
    """Tasks by their number; `before` is what a deleted one was."""

pytestmark = pytest.mark.anyio

SHOWN = ("title", "description", "priority", "due_date", "status")
TODAY = "2026-03-10"
_USERS = (f"person-{number}" for number in itertools.count())

titles = st.sampled_from(["bake", "Bake bread", "sail"])
descriptions = st.sampled_from([None, "bread", "A long\nstory."])
priorities = st.sampled_from(["Low", "Medium", "High"])
days = st.sampled_from([None, "2026-03-09", "2026-03-10", "2026-03-11"])
which = st.integers(1, 5).map(str)
fields = {"description": descriptions, "priority": priorities, "due_date": days}

steps = st.one_of(
    st.tuples(st.just("add_task"), st.fixed_dictionaries({"title": titles}, optional=fields)),
    st.tuples(
        st.just("update_task"),
        st.fixed_dictionaries({"task_id": which}, optional=fields | {"title": titles}),
    ),
    st.tuples(
        st.just("complete_task"),
        st.fixed_dictionaries({"task_id": which}, optional={"completed": st.booleans()}),
    ),
    st.tuples(
        st.sampled_from(["delete_task", "restore_task"]), st.fixed_dictionaries({"task_id": which})
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


def play(model: Model, name: str, arguments: dict[str, Any]) -> dict[str, Any] | str:
    """Do to the model what a call does; return the task, or the code of what is wrong."""
    if name == "add_task":
        usual = {"description": None, "priority": "Medium", "due_date": None, "status": "open"}
        model.append(usual | arguments)
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


def chosen(model: Model, wanted: dict[str, Any]) -> list[str]:
    """The ids that a list shows."""
    status, overdue = wanted.get("status", "all"), wanted.get("overdue")
    words = wanted.get("query", "").lower().split()

    def belongs(task: dict[str, Any]) -> bool:
        due, is_open = task["due_date"], task["status"] == "open"
        text = f"{task['title']} {task['description'] or ''}".lower()
        return all(
            (
                task["status"] == status or (status == "all" and task["status"] != "deleted"),
                wanted.get("priority", task["priority"]) == task["priority"],
                "due_from" not in wanted or (due and due >= wanted["due_from"]),
                "due_to" not in wanted or (due and due <= wanted["due_to"]),
                overdue is None or overdue == bool(is_open and due and due < TODAY),
                all(word in text for word in words),
            )
        )

    return [str(number) for number in range(len(model), 0, -1) if belongs(model[number - 1])]


def shown(task: dict[str, Any]) -> dict[str, Any]:
    return {name: task[name] for name in SHOWN if task.get(name) is not None}


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    script=st.lists(st.tuples(steps, st.booleans()), min_size=4, max_size=14),
    looks=st.lists(filters, min_size=1, max_size=4),
)
async def test_a_list_stands_as_its_model_does(
    app: App,
    script: list[tuple[tuple[str, dict[str, Any]], bool]],
    looks: list[dict[str, Any]],
) -> None:
    user, model = next(_USERS), list[dict[str, Any]]()
    for (name, arguments), is_undone in script:
        states = [shown(task) for task in model]
        undo = await step(app, user, model, name, arguments)
        if is_undone and undo and name != "add_task":
            await step(app, user, model, undo["tool"], undo["arguments"])
            assert states == [shown(task) for task in model]
    for wanted in looks:
        assert chosen(model, wanted) == await ids(app, user, **wanted)


async def step(
    app: App, user: str, model: Model, name: str, arguments: dict[str, Any]
) -> dict[str, Any] | None:
    """Make a call, and check that it did what the model says; return how to undo it."""
    states = [shown(task) for task in model]
    expected = play(model, name, arguments)
    answer = await ask(app, name, user, **arguments)
    if isinstance(expected, str):
        assert expected == (answer.error and answer.error.code)
        return None
    assert answer.result, answer.error
    task, changed = answer.result["task"], answer.result["changed"]
    number = int(task["task_id"])
    before = states[number - 1] if number <= len(states) else {}
    assert shown(expected) == shown(task)
    assert {each for each in SHOWN if before.get(each) != task.get(each)} == set(changed)
    assert bool(changed) == ("undo" in answer.result)
    undo: dict[str, Any] | None = answer.result.get("undo")
    return undo
