"""What may be noted of a call: facts, and nothing that could be content."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any

import pytest

from shared.runtime.outcome import MAX_LISTED_FACTS, validate_facts

SECRET = "what nobody may read"


class Code(StrEnum):
    GOOD = "good"


@pytest.mark.parametrize(
    "fact",
    [0, -1, 2**63 - 1, 0.65, True, "", "a", "sha256:0f.b_c-d", "x" * 100, [1, "a", 0.5, False], []],
)
def test_facts_are_noted_as_they_are(fact: Any) -> None:
    assert {"fact": fact} == validate_facts({"fact": fact})


def test_a_tuple_is_a_list_and_a_code_of_ours_is_its_text() -> None:
    assert {"a": [1, 2], "b": "good"} == validate_facts({"a": (1, 2), "b": Code.GOOD})


@pytest.mark.parametrize(
    "fact",
    [
        SECRET,
        "ä",
        "a\n",
        "x" * 101,
        math.nan,
        -math.inf,
        2**63,
        [SECRET],
        ["a"] * (MAX_LISTED_FACTS + 1),
    ],
)
def test_what_could_be_content_is_refused_and_not_quoted(fact: Any) -> None:
    with pytest.raises(ValueError, match="an audit fact") as caught:
        validate_facts({"fact": fact})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("fact", [None, b"a", {"a": 1}, [[1]], [None], {1}, 1j])
def test_what_is_no_fact_is_refused(fact: Any) -> None:
    with pytest.raises(TypeError, match="an audit fact is"):
        validate_facts({"fact": fact})


def test_a_name_is_a_code_too() -> None:
    with pytest.raises(ValueError, match="an audit fact is a code"):
        validate_facts({SECRET: 1})
