"""Examples of the tools for passages to read again."""

from typing import Final

from tests.examples.base import KNEAD
from tests.examples.example import Cost, Example

EXAMPLES: Final = {
    "get_review": Example(arguments={}, costs=(({}, Cost(1, 9)),)),
    "answer_review": Example(
        arguments={"chunk_id": KNEAD, "answer": "keep"},
        choices={"answer": ("keep", "not_soon")},
        missing={"chunk_id": "search_kb"},
        change={"answer": "not_soon"},
        costs=(({"chunk_id": KNEAD, "answer": "keep"}, Cost(2, 2, 2)),),
    ),
}
