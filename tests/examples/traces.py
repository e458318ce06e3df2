"""Examples of the tools for traces."""

from typing import Final

from tests.examples.base import STRANGER, TRACE
from tests.examples.example import (
    BLANK,
    INVISIBLE_IN_LINE,
    INVISIBLE_IN_PROSE,
    INVISIBLE_TEXTS,
    Cost,
    Example,
)

_TAG: Final = "a tag consists of letters a to z, digits and . _ -, at most 60 of them"
_WRONG_TAGS: Final = {
    _TAG: tuple(
        ["python", tag]
        for tag in ("c++", "c#", "a/b", "a,b", "größe", "питон", "🍞", "", " ", "a\0b", "a\u200bb")
    ),
    "at most 60 characters": (["python", "x" * 61],),
}
_CONTENT: Final = {
    "title": "A hinge squeaks after rain",
    "context_text": "The door of the shed.",
    "solution_text": "Rub it with a candle.",
    "tags": ["shed"],
}
_LENGTHS: Final = {"title": 200, "context_text": 50_000, "solution_text": 50_000}
_WRONG_TEXTS: Final = {
    "title": {BLANK: (" \n\t\u3000", "\x1f"), INVISIBLE_IN_LINE: INVISIBLE_TEXTS[:-1]},
    "context_text": {BLANK: (" \n ",), INVISIBLE_IN_PROSE: INVISIBLE_TEXTS},
    "solution_text": {BLANK: (" \n ",), INVISIBLE_IN_PROSE: INVISIBLE_TEXTS},
}
_EMPTY: Final = {"at least 1 character": ("",)}
_REQUIRED_TEXTS: Final = {name: wrong | _EMPTY for name, wrong in _WRONG_TEXTS.items()}

EXAMPLES: Final = {
    "contribute_trace": Example(
        arguments=_CONTENT,
        lengths=_LENGTHS,
        counts={"tags": 20},
        wrong=_REQUIRED_TEXTS | {"tags": _WRONG_TAGS},
        missing={"supersedes": "search_traces"},
        change={"title": "A hinge creaks after rain"},
        costs=((_CONTENT, Cost(2, 3, 12)), (_CONTENT | {"supersedes": TRACE}, Cost(2, 4, 21))),
        # A trace that is listed again although it was replaced has no claim to its text.
        undo_leaves=frozenset({"traces/", "claims/", "claim"}),
    ),
    "amend_trace": Example(
        arguments={"trace_id": TRACE, "title": "A hinge that squeaks"},
        lengths=_LENGTHS,
        counts={"tags": 20},
        ranges={"revision": (1, 1_000_000)},
        wrong=_REQUIRED_TEXTS | {"tags": _WRONG_TAGS},
        contradictions=(
            ({"trace_id": TRACE}, "trace_id", "new texts or tags, or a revision"),
            ({"trace_id": TRACE, "title": None}, "trace_id", "new texts or tags, or a revision"),
            ({"trace_id": TRACE, "title": "New", "revision": 1}, "revision", "texts"),
        ),
        missing={"trace_id": "search_traces"},
        change={"title": "A hinge that creaks"},
        costs=(({"trace_id": TRACE, "title": "A hinge that squeaks"}, Cost(3, 2, 7)),),
        undo_leaves=frozenset({"revision", "text_revision", "/revisions/"}),
        refused=(
            ({"trace_id": TRACE, "title": "Mine"}, "FORBIDDEN", "vote_trace"),
            ({"trace_id": TRACE, "revision": 1}, "FORBIDDEN", "vote_trace"),
        ),
    ),
    "vote_trace": Example(
        arguments={"trace_id": TRACE, "vote_type": "down", "feedback_tag": "wrong"},
        caller=STRANGER,
        choices={
            "vote_type": ("up", "down", "none"),
            "feedback_tag": ("outdated", "wrong", "security_concern", "spam"),
        },
        lengths={"feedback_text": 2_000},
        contradictions=(
            (
                {"trace_id": TRACE, "vote_type": "down"},
                "feedback_tag",
                "required when vote_type is down",
            ),
            *(
                (
                    {"trace_id": TRACE, "vote_type": vote, "feedback_tag": "wrong"},
                    "feedback_tag",
                    "only when",
                )
                for vote in ("up", "none")
            ),
            (
                {"trace_id": TRACE, "vote_type": "none", "feedback_text": "Nice."},
                "feedback_text",
                "only when vote_type is up or down",
            ),
        ),
        missing={"trace_id": "search_traces"},
        change={"feedback_tag": "spam"},
        costs=(({"trace_id": TRACE, "vote_type": "up"}, Cost(2, 3, 4)),),
        undo_leaves=frozenset({"up", "contributors/"}),
    ),
    "withdraw_trace": Example(
        arguments={"trace_id": TRACE},
        missing={"trace_id": "search_traces"},
        change={"withdrawn": False},
        costs=(({"trace_id": TRACE}, Cost(2, 1, 10)),),
        undo_leaves=frozenset(),
        refused=(({"trace_id": TRACE}, "FORBIDDEN", "Only its contributor"),),
    ),
    "get_trace": Example(
        arguments={"trace_id": TRACE},
        ranges={"offset": (0, 100_000)},
        missing={"trace_id": "search_traces"},
        costs=(({"trace_id": TRACE}, Cost(1, 3)),),
    ),
    "search_traces": Example(
        arguments={"query": "a hinge or a drawer"},
        ranges={"limit": (1, 50)},
        lengths={"query": 1_000},
        counts={"tags": 20},
        wrong={"tags": {_TAG: (["c++"], [""])}},
        contradictions=tuple(
            (nothing, "query", "Please provide a query, tags, or both to search.")
            for nothing in ({}, {"query": ""}, {"query": " \n"}, {"query": "", "tags": []})
        ),
        costs=(
            ({"query": "a hinge"}, Cost(1, 4)),
            ({"query": "a hinge", "tags": ["wood"]}, Cost(2, 5)),
            ({"tags": ["wood", "drawer"]}, Cost(2, 4)),
            ({"tags": ["unused"]}, Cost(2, 5)),
            ({"query": "a hinge", "tags": ["unused"]}, Cost(2, 6)),
            ({"mine": True}, Cost(3, 5)),
        ),
        next_page=Cost(1, 5),
        other_call={"query": "a drawer"},
    ),
    "list_tags": Example(
        arguments={},
        ranges={"limit": (1, 300)},
        lengths={"prefix": 60},
        costs=(({}, Cost(1, 4)), ({"prefix": "wo"}, Cost(1, 2))),
        next_page=Cost(1, 3),
        other_call={"prefix": "w"},
    ),
}
