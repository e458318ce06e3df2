"""Examples of the tools that read the knowledge base."""

from typing import Final

from tests.examples.base import BAKE, KNEAD, OWNER
from tests.examples.example import NOT_A_ZONE, NOT_AN_ID, Cost, Example

_EMPTY: Final = {"at least 1 character": (" ",)}
_PERIOD: Final = "Input should be 'today', 'yesterday'"

EXAMPLES: Final = {
    "search_kb": Example(
        arguments={"filters": {"tags": ["food"]}},
        ranges={"limit": (1, 50)},
        lengths={"query": 2_000},
        choices={
            "mode": ("hybrid", "semantic", "lexical"),
            "detail": ("lean", "full"),
            "sort": ("newest", "oldest"),
        },
        wrong={
            "query": _EMPTY,
            "filters": {
                "at least 1 character": ({"tags": [" "]}, {"author": " "}),
                "at most 20 items": ({"tags": ["x"] * 21},),
                "at most 500 characters": ({"author": "x" * 501}, {"source": "x" * 501}),
                NOT_AN_ID: ({"cluster_id": "a/b"},),
                "is not a date: YYYY-MM-DD": ({"date_range": {"start": "soon"}},),
                "ends before it starts": (
                    {"date_range": {"start": "2024-02-02", "end": "2024-02-01"}},
                ),
                _PERIOD: ({"period": "3 days ago"},),
                NOT_A_ZONE: ({"time_zone": "Mars"},),
                "not a parameter": ({"colour": "red"},),
            },
        },
        contradictions=(
            ({}, "query", "takes a query, filters or both"),
            ({"filters": {}}, "query", "takes a query, filters or both"),
            ({"filters": {"date_range": {}}}, "query", "takes a query, filters or both"),
        ),
        costs=(
            ({"query": "dough"}, Cost(2, 9)),
            ({"query": "dough", "mode": "semantic"}, Cost(2, 8)),
            ({"query": "dough", "mode": "lexical"}, Cost(3, 4)),
            ({"query": "dough", "filters": {"author": "Ida Loaf", "tags": ["food"]}}, Cost(3, 8)),
            ({"filters": {"tags": ["food"]}}, Cost(3, 6)),
            ({"filters": {"period": "today"}, "limit": 2}, Cost(2, 6)),
        ),
        next_page=Cost(3, 4),
        other_call={"query": "anchor"},
    ),
    "complete_name": Example(
        arguments={"kind": "tag"},
        ranges={"limit": (1, 100)},
        lengths={"prefix": 200},
        choices={"kind": ("tag", "author", "category", "source", "cluster")},
        costs=(({"kind": "tag"}, Cost(1, 3)),),
    ),
    "get_chunk": Example(
        arguments={"chunk_id": KNEAD},
        ranges={"related_limit": (1, 20)},
        missing={"chunk_id": "search_kb"},
        costs=(
            ({"chunk_id": KNEAD, "related_limit": 2}, Cost(2, 8)),
            ({"chunk_id": BAKE, "include_related": False}, Cost(1, 2)),
        ),
    ),
    "get_cluster": Example(
        arguments={"cluster_id": "dough"},
        ranges={"member_limit": (1, 50), "limit": (1, 50), "related_limit": (1, 20)},
        missing={"cluster_id": "list_clusters"},
        costs=(
            ({"cluster_id": "dough"}, Cost(2, 6)),
            ({"cluster_id": "dough", "include_related": False}, Cost(1, 3)),
            (
                {"cluster_id": "dough", "include_members": False, "include_related": False},
                Cost(1, 1),
            ),
        ),
        next_page=Cost(1, 2),
        other_call={"cluster_id": "sails"},
    ),
    "list_clusters": Example(
        arguments={},
        ranges={"limit": (1, 50)},
        costs=(({"limit": 1}, Cost(1, 4)),),
        next_page=Cost(1, 3),
    ),
    "get_source": Example(
        arguments={"source_id": "baking"},
        ranges={"limit": (1, 50)},
        missing={"source_id": "list_sources"},
        costs=(({"source_id": "baking"}, Cost(1, 6)),),
        next_page=Cost(2, 7),
        other_call={"source_id": "sailing"},
    ),
    "list_sources": Example(
        arguments={},
        ranges={"limit": (1, 50)},
        lengths={"author": 500, "category": 500, "tag": 500, "language": 500},
        choices={"order": ("recent", "title")},
        wrong=dict.fromkeys(("author", "category", "tag", "language"), _EMPTY),
        costs=(
            ({"limit": 1}, Cost(1, 3)),
            ({"author": "Ida Loaf"}, Cost(1, 2)),
            ({"author": "Nobody"}, Cost(2, 4)),
        ),
        next_page=Cost(1, 2),
        other_call={"tag": "food"},
    ),
    "get_recent": Example(
        arguments={"period": "today"},
        ranges={"limit": (1, 50)},
        wrong={
            "period": {_PERIOD: ("3 days ago",)},
            "time_zone": {NOT_A_ZONE: ("Mars",)},
            **{name: {"is not a date: YYYY-MM-DD": ("soon",)} for name in ("after", "before")},
        },
        contradictions=tuple(
            (days, "after", "at most a year")
            for days in (
                *({"after": day, "before": "2024-06-02"} for day in ("2024-06-01", "2023-05-01")),
                {"before": "0001-01-01"},
                {"after": "9999-12-31"},
            )
        ),
        costs=(({"period": "today"}, Cost(3, 19)), ({}, Cost(3, 19))),
        next_page=Cost(2, 3),
        other_call={"period": "this_week"},
    ),
    "get_changes": Example(
        arguments={},
        ranges={"limit": (1, 100)},
        costs=(({}, Cost(2, 16)),),
        next_page=Cost(1, 3),
    ),
    "get_stats": Example(arguments={}, costs=(({}, Cost(1, 30)),)),
    "get_map": Example(
        arguments={},
        ranges={"limit": (1, 50_000)},
        costs=(({}, Cost(1, 1)),),
    ),
    "list_forgotten": Example(
        arguments={},
        ranges={"limit": (1, 50)},
        costs=(({"limit": 1}, Cost(1, 2)),),
        next_page=Cost(1, 2),
    ),
    "list_origins": Example(arguments={}, caller=OWNER, costs=(({}, Cost(1, 18)),)),
}
