"""The audit facts of a call, which are logged, are numbers and codes, never content."""

import math
from enum import StrEnum
from typing import Any

import pytest

from shared.runtime.outcome import MAX_LISTED_FACTS, validate_facts

PRIVATE_TEXT = "some private text"


class Code(StrEnum):
    SUCCESS = "good"


@pytest.mark.parametrize(
    "fact",
    [
        *(
            0,
            -1,
            2**63 - 1,
            0.65,
            True,
            "",
            "a",
            "sha256:0f.b_c-d",
            "x" * 100,
            [1, "a", 0.5, False],
        ),
        *([], ["a"] * MAX_LISTED_FACTS),
    ],
)
def test_facts_are_kept_unchanged(fact: Any) -> None:
    """But a tuple becomes a list, and a member of an enum its value."""
    facts = {"fact": fact, "a": (1, 2), "b": Code.SUCCESS}
    assert validate_facts(facts) == {"fact": fact, "a": [1, 2], "b": "good"}


@pytest.mark.parametrize(
    ("fact", "error"),
    [
        *((text, ValueError) for text in (PRIVATE_TEXT, "ä", "a\n", "x" * 101, [PRIVATE_TEXT])),
        *((number, ValueError) for number in (math.nan, -math.inf, 2**63)),
        (["a"] * (MAX_LISTED_FACTS + 1), ValueError),
        *((value, TypeError) for value in (None, b"a", {"a": 1}, [[1]], [None], {1}, 1j)),
    ],
)
def test_possible_content_is_refused_and_not_quoted(fact: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="an audit fact") as caught:
        validate_facts({"fact": fact})
    assert PRIVATE_TEXT not in str(caught.value)
    with pytest.raises(ValueError, match="an audit fact is a code"):
        validate_facts({PRIVATE_TEXT: 1})
