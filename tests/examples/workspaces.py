"""Examples of the tool for workspaces."""

from typing import Final

from tests.examples.base import DOCUMENT
from tests.examples.example import BLANK, Cost, Example

_TEXT: Final = "A comet's tail points away from the sun.\n\nRust was found in the cables."

EXAMPLES: Final = {
    "extract_key_info": Example(
        arguments={"query": "comet", "materials": _TEXT},
        accepted={"query": ("?", "🌠", "the of and", "\x00comet\x1b", "a\u0301")},
        ranges={"top_k": (1, 20), "topK": (1, 20)},
        lengths={"query": 2_000, "task_id": 200},
        choices={"scope": ("materials", "task")},
        wrong={
            "query": {
                "at least 1 character": ("", " \n\t ", "\u3000"),
                BLANK: ("\u200b", "\x00"),
                "valid string": (None, ["comet"]),
            },
            "materials": {
                BLANK: ("", " ", "\r\n\t \n", "\u3000\u2028", "\n" * 100_000),
                "required unless you send document, or scope is task": (None,),
            },
            "task_id": {BLANK: ("", " ", "\t\n", "\u3000", "\u00a0")},
        },
        contradictions=(
            (
                {"query": "comet", "materials": _TEXT, "document": DOCUMENT},
                "document",
                "cannot be combined with materials",
            ),
            (
                {"query": "comet", "materials": _TEXT, "top_k": 3, "topK": 4},
                "arguments",
                "top_k and topK are one parameter",
            ),
        ),
        missing={"document": "materials"},
        change={"query": "rust"},
        costs=(
            ({"query": "comet", "materials": _TEXT}, Cost(6, 5, 5)),
            ({"query": "zoo", "document": DOCUMENT}, Cost(2, 3)),
            ({"query": "zoo", "scope": "task"}, Cost(2, 4)),
        ),
        refused=(
            ({"query": "zoo", "document": DOCUMENT}, "NOT_FOUND", "materials"),
            ({"query": "zoo", "scope": "task"}, "NOT_FOUND", "Send the text as materials"),
        ),
    ),
}
