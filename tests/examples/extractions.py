"""Examples of the tools for extractions."""

from typing import Final

from tests.examples.example import Cost, Example

_LOOKUP: Final = Example(
    arguments={},
    ranges={"limit": (1, 100)},
    lengths={"topic": 200, "query": 2_000},
    wrong={
        "topic": {"at least 1 character": ("", " "), "contains no words": ("-_-",)},
        "query": {"at least 1 character": (" ",)},
    },
    contradictions=(({"type": "decision"}, "type", "not a parameter"),),
    costs=(
        ({}, Cost(2, 4)),
        ({"limit": 1}, Cost(2, 4)),
        ({"topic": "Bread"}, Cost(2, 4)),
        ({"topic": "other"}, Cost(2, 6)),
        ({"query": "flour"}, Cost(2, 4)),
        ({"source_id": "baking"}, Cost(1, 4)),
        ({"source_id": "baking", "topic": "bread"}, Cost(1, 4)),
    ),
    next_page=Cost(2, 3),
    other_call={"topic": "bread"},
)

EXAMPLES: Final = {
    **dict.fromkeys(
        ("get_decisions", "get_patterns", "get_warnings", "get_methodologies"), _LOOKUP
    ),
    "list_topics": Example(
        arguments={},
        ranges={"limit": (1, 300)},
        lengths={"prefix": 80},
        choices={"kind": ("decision", "pattern", "warning", "methodology")},
        costs=(
            ({"limit": 1}, Cost(1, 2)),
            ({"prefix": "fl"}, Cost(1, 1)),
            ({"kind": "decision"}, Cost(1, 3)),
        ),
        next_page=Cost(1, 2),
        other_call={"prefix": "fl"},
    ),
}
