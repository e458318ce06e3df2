"""Examples of the tools for tasks."""

from typing import Final

from tests.examples.example import (
    BLANK,
    INVISIBLE_IN_LINE,
    INVISIBLE_IN_PROSE,
    NOT_A_DATE,
    NOT_A_ZONE,
    Cost,
    Example,
    Wrong,
)

_WRONG_TITLES: Final[Wrong] = {
    BLANK: ("", " \t\u3000 "),
    INVISIBLE_IN_LINE: ("\u200b", "two\nlines", "nothing\0more"),
}
_WRONG_PRIORITIES: Final[Wrong] = {
    "must be one of Low, Medium, High": ("urgent", "", "Hi", 1, True, ["High"], {"High": 1})
}
_WRONG_DAYS: Final[Wrong] = {
    NOT_A_DATE: (
        *("tomorrow", "", "2026-02-30", "2026-13-01", "0000-01-01", "20260310", "2026-3-10"),
        *("2026-W10-2", "2026-03-10T12:00:00Z", "2026-03-10 ", "1773100800", "10.03.2026"),
        *(20260310, 1773100800.0, True, ["2026-03-10"]),
        "\u0662\u0660\u0662\u0666-03-10",  # 2026 in Arabic digits
    )
}
_WRONG_IDS: Final[Wrong] = {
    "must be a positive whole number in a string": (
        *("", "0", "-1", "01", "1.5", "one", "1/2", "1" * 19, "\u0661", True, {"a": 1}),
    )
}
_TEXT_LENGTHS: Final = {"title": 255, "description": 1_000}
_WRONG_TEXTS: Final[dict[str, Wrong]] = {
    "title": _WRONG_TITLES,
    "description": {INVISIBLE_IN_PROSE: ("\0",)},
}
_DAYS: Final = ("1999-12-31", "2024-02-29", "0001-01-01", "9999-12-31")
_PRIORITIES: Final = ("High", "high", "HIGH", " high ")
_IDS: Final = ("1", " 1 ", 1, 1.0, "9" * 18)
_WRONG_FIELDS: Final[dict[str, Wrong]] = {
    **_WRONG_TEXTS,
    "priority": _WRONG_PRIORITIES,
    "due_date": _WRONG_DAYS,
}

EXAMPLES: Final = {
    "add_task": Example(
        arguments={"title": "Buy flour"},
        accepted={
            "title": (f" {'👩' * 255} ",),
            "description": ("ß" * 1_000, " \n ", ""),
            "priority": _PRIORITIES,
            "due_date": _DAYS,
        },
        lengths=_TEXT_LENGTHS,
        wrong=_WRONG_FIELDS,
        contradictions=(
            ({}, "title", "give a title"),
            ({"title": None}, "title", "required"),
            ({"tasks": []}, "tasks", "at least 1"),
            ({"tasks": [{"title": "x"}] * 26}, "tasks", "at most 25"),
            ({"tasks": [{"title": "x"}], "title": "y"}, "tasks", "give either"),
            ({"tasks": [{"title": "x"}], "priority": "Low"}, "tasks", "give either"),
        ),
        change={"title": "Buy oats"},
        costs=(
            # read: the counter of ids; written: the tasks, the counter and the answer
            ({"title": "Buy rye"}, Cost(2, 1, 3)),
            ({"tasks": [{"title": f"{number}"} for number in range(25)]}, Cost(2, 1, 27)),
        ),
        undo_leaves=frozenset({"last", "recent", "/tasks/"}),
    ),
    "complete_task": Example(
        arguments={"task_id": "1"},
        accepted={"task_id": _IDS},
        wrong={"task_id": _WRONG_IDS, "completed": {"valid boolean": ("yes",)}},
        contradictions=(
            ({}, "task_id", "give either"),
            ({"task_id": "1", "task_ids": ["1"]}, "task_id", "give either"),
            ({"task_ids": []}, "task_ids", "at least 1"),
            ({"task_ids": ["1"] * 26}, "task_ids", "at most 25"),
        ),
        missing={"task_id": "There is no task 99. Find task ids with list_tasks."},
        change={"completed": False},
        costs=(
            ({"task_id": "1"}, Cost(2, 1, 2)),
            ({"task_ids": ["1", "2", "4"]}, Cost(2, 3, 3)),  # the last is deleted
            ({"task_ids": ["1", "2"], "completed": False}, Cost(1, 2)),  # they are open already
            ({"task_ids": ["x", None]}, Cost(0, 0)),
        ),
        undo_leaves=frozenset(),
        refused=(({"task_id": "1"}, "NOT_FOUND", "list_tasks"),),
    ),
    "delete_task": Example(
        arguments={"task_id": "1"},
        accepted={"task_id": _IDS},
        wrong={"task_id": _WRONG_IDS},
        missing={"task_id": "There is no task 99. Find task ids with list_tasks."},
        change={"task_id": "2"},
        costs=(({"task_id": "1"}, Cost(2, 1, 2)),),
        undo_leaves=frozenset(),
        refused=(({"task_id": "1"}, "NOT_FOUND", "list_tasks"),),
    ),
    "restore_task": Example(
        arguments={"task_id": "4"},
        accepted={"task_id": _IDS},
        wrong={"task_id": _WRONG_IDS},
        missing={"task_id": "There is no task 99. Find task ids with list_tasks."},
        change={"task_id": "2"},
        costs=(({"task_id": "4"}, Cost(2, 1, 2)),),
        undo_leaves=frozenset(),
        refused=(({"task_id": "4"}, "NOT_FOUND", "list_tasks"),),
    ),
    "update_task": Example(
        arguments={"task_id": "1", "title": "Buy rye"},
        accepted={
            "task_id": _IDS,
            "title": (f" {'👩' * 255} ",),
            "description": (None, "", " \n "),
            "priority": _PRIORITIES,
            "due_date": (*_DAYS, None),
        },
        lengths=_TEXT_LENGTHS,
        wrong=_WRONG_FIELDS
        | {
            "task_id": _WRONG_IDS,
            "priority": {"must be one of Low, Medium, High": ("urgent", None)},
            "title": _WRONG_TITLES | {"valid string": (None,)},
        },
        contradictions=(({"task_id": "1"}, "task_id", "title, description, priority, due_date"),),
        missing={"task_id": "There is no task 99. Find task ids with list_tasks."},
        change={"due_date": None},
        costs=(({"task_id": "1", "title": "Buy rye"}, Cost(2, 1, 2)),),
        undo_leaves=frozenset(),
        refused=(({"task_id": "1", "title": "Buy rye"}, "NOT_FOUND", "list_tasks"),),
    ),
    "list_tasks": Example(
        arguments={},
        accepted={"priority": _PRIORITIES, "due_from": _DAYS, "due_to": _DAYS, "query": (" ",)},
        ranges={"limit": (1, 100)},
        lengths={"query": 200},
        choices={
            "status": ("all", "open", "completed", "deleted"),
            "order": ("newest", "due"),
        },
        wrong={
            "priority": _WRONG_PRIORITIES,
            "due_from": _WRONG_DAYS,
            "due_to": _WRONG_DAYS,
            "time_zone": {
                NOT_A_ZONE: ("Berlin", "America", "../../etc/passwd", "", "\0", "x" * 5_000)
            },
        },
        contradictions=(
            ({"due_from": "2026-03-11", "due_to": "2026-03-10"}, "due_from", "due_to"),
        ),
        costs=(({}, Cost(1, 3)), ({"limit": 1}, Cost(2, 3)), ({"status": "deleted"}, Cost(1, 1))),
        next_page=Cost(1, 2),
        other_call={"status": "open"},
    ),
}
