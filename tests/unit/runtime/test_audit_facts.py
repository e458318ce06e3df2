"""The audit facts of a call, which are logged, are numbers and codes, never content."""

from __future__ import annotations

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
    [0, -1, 2**63 - 1, 0.65, True, "", "a", "sha256:0f.b_c-d", "x" * 100, [1, "a", 0.5, False], []],
)
def test_facts_are_kept_unchanged(fact: Any) -> None:
    assert validate_facts({"fact": fact}) == {"fact": fact}


def test_a_tuple_becomes_a_list_and_an_enum_its_value() -> None:
    assert validate_facts({"a": (1, 2), "b": Code.SUCCESS}) == {"a": [1, 2], "b": "good"}


@pytest.mark.parametrize(
    "fact",
    [
        PRIVATE_TEXT,
        "ä",
        "a\n",
        "x" * 101,
        math.nan,
        -math.inf,
        2**63,
        [PRIVATE_TEXT],
        ["a"] * (MAX_LISTED_FACTS + 1),
    ],
)
def test_possible_content_is_refused_and_not_quoted(fact: Any) -> None:
    with pytest.raises(ValueError, match="an audit fact") as caught:
        validate_facts({"fact": fact})
    assert PRIVATE_TEXT not in str(caught.value)


@pytest.mark.parametrize("fact", [None, b"a", {"a": 1}, [[1]], [None], {1}, 1j])
def test_a_fact_of_another_type_is_refused(fact: Any) -> None:
    with pytest.raises(TypeError, match="an audit fact is"):
        validate_facts({"fact": fact})


def test_the_name_of_a_fact_must_be_a_code() -> None:
    with pytest.raises(ValueError, match="an audit fact is a code"):
        validate_facts({PRIVATE_TEXT: 1})
