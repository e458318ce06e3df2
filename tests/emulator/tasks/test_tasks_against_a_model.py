"""Random calls change a stored to-do list as they change a list in memory, the model."""

import itertools
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.runtime.context import App
from tests.support.tasks import call_at, list_all

Strategies = dict[str, st.SearchStrategy[Any]]
Model = list[dict[str, Any]]
"""The tasks, in the order of their ids 1, 2 and so on. A deleted task has its earlier status in
the field `before`."""


FIELDS = ("title", "description", "priority", "due_date", "status")
TODAY = "2026-03-10"
_USERS = (f"person-{number}" for number in itertools.count())
"""A user for each example, who begins with an empty list."""

titles = st.sampled_from(["bake", "Bake bread", "sail"])
descriptions = st.sampled_from([None, "bread", "A long\nstory."])
priorities = st.sampled_from(["Low", "Medium", "High"])
days = st.sampled_from([None, "2026-03-09", "2026-03-10", "2026-03-11"])
task_ids = st.integers(1, 5).map(str)
fields: Strategies = {"description": descriptions, "priority": priorities, "due_date": days}


class Step(NamedTuple):
    """A call of a tool, which may be undone afterwards."""

    tool: str
    arguments: dict[str, Any]
    is_undone: bool


def make_steps(
    *tools: str, required: Strategies, optional: Strategies | None = None
) -> st.SearchStrategy[Step]:
    """Return a strategy for calls of these tools with such arguments."""
    arguments = st.fixed_dictionaries(required, optional=optional or {})
    return st.builds(Step, st.sampled_from(tools), arguments, st.booleans())


steps = st.one_of(
    make_steps("add_task", required={"title": titles}, optional=fields),
    make_steps("update_task", required={"task_id": task_ids}, optional=fields | {"title": titles}),
    make_steps(
        "complete_task", required={"task_id": task_ids}, optional={"completed": st.booleans()}
    ),
    make_steps("delete_task", "restore_task", required={"task_id": task_ids}),
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
        "order": st.sampled_from(["newest", "due"]),
    },
)


def apply_call(model: Model, name: str, arguments: dict[str, Any]) -> dict[str, Any] | str:
    if name == "add_task":
        defaults = {"description": None, "priority": "Medium", "due_date": None, "status": "open"}
        added = defaults | arguments
        # A task that was added before and is still as it was is not added again.
        twins = [task for task in model if task["added"] == added]
        if twins and added.items() <= twins[-1].items():
            return twins[-1]
        model.append(added | {"added": added})
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
    status = arguments.get("status", "all")
    overdue = arguments.get("overdue")
    words = arguments.get("query", "").lower().split()

    def is_listed(task: dict[str, Any]) -> bool:
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

    listed = {number: task for number, task in enumerate(model, start=1) if is_listed(task)}
    if arguments.get("order") == "due":
        days = [(task["due_date"] or "9999", number) for number, task in listed.items()]
        return [str(number) for _, number in sorted(days)]
    return [str(number) for number in reversed(listed)]


def get_visible_fields(task: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a user sees, without empty ones."""
    return {name: task[name] for name in FIELDS if task.get(name) is not None}


@pytest.mark.requirement("003-D10", "003-M1", "003-Q3", "003-T2", "003-N1")
@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    script=st.lists(steps, min_size=4, max_size=14),
    queries=st.lists(filters, min_size=1, max_size=4),
)
async def test_stored_list_equals_its_model(
    app: App, script: list[Step], queries: list[dict[str, Any]]
) -> None:
    user = next(_USERS)
    model = list[dict[str, Any]]()
    for step in script:
        tasks_before = [get_visible_fields(task) for task in model]
        undo = await check_call(app, user, model, step.tool, step.arguments)
        if step.is_undone and undo and step.tool != "add_task":
            await check_call(app, user, model, undo["tool"], undo["arguments"])
            assert [get_visible_fields(task) for task in model] == tasks_before
    for query in queries:
        tasks = await list_all(app, user, **query)
        assert [task["task_id"] for task in tasks] == list_expected_ids(model, query)
        overdue_ids = list_expected_ids(model, query | {"overdue": True})
        if query.get("overdue") is None:
            assert [task["task_id"] for task in tasks if "overdue" in task] == overdue_ids


async def check_call(
    app: App, user: str, model: Model, name: str, arguments: dict[str, Any]
) -> dict[str, Any] | None:
    """Make a call, compare the result with the model, and return the call that undoes it."""
    tasks_before = [get_visible_fields(task) for task in model]
    expected = apply_call(model, name, arguments)
    answer = await call_at(app, name, user, **arguments)
    if isinstance(expected, str):
        assert answer.error
        assert answer.error.code == expected
        return None
    assert answer.result, answer.error
    task, changed_names = answer.result["task"], answer.result["changed"]
    index = int(task["task_id"]) - 1
    task_before = tasks_before[index] if index < len(tasks_before) else {}
    differing_names = {name for name in FIELDS if task_before.get(name) != task.get(name)}
    assert get_visible_fields(task) == get_visible_fields(expected)
    assert set(changed_names) == differing_names
    assert bool(changed_names) == ("undo" in answer.result)
    undo: dict[str, Any] | None = answer.result.get("undo")
    return undo
