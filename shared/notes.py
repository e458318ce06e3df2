"""Facts about a call for the log and the audit, which must hold nothing that people wrote."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

Fact = bool | int | float | str
"""A size, a score, a hash, an id, a code."""
Notes = dict[str, Fact | list[Fact]]
"""Facts by name."""
MOST: Final = 50
"""Facts in one list."""
_CODE: Final = re.compile(r"[A-Za-z0-9._:-]{0,100}")
_LARGEST: Final = 2**63 - 1
"""The largest whole number that Firestore takes."""


def noted(facts: Mapping[str, Any]) -> Notes:
    """These facts, if nothing among them could be content; what is wrong is not quoted.

    Raises:
        TypeError: One is no number, truth value or string, and no list of these.
        ValueError: A string is no short code, a number is not finite, or a list is long.
    """
    return {str(_single(name)): _fact(value) for name, value in facts.items()}


def _fact(value: Any) -> Fact | list[Fact]:
    if not isinstance(value, list | tuple):
        return _single(value)
    if len(value) > MOST:
        raise ValueError(f"a note lists {MOST} facts at most")
    return [_single(each) for each in value]


def _single(value: Any) -> Fact:
    match value:
        case str() if not _CODE.fullmatch(value):
            raise ValueError("a note is a code of up to 100 characters of [A-Za-z0-9._:-]")
        case int() if abs(value) > _LARGEST:
            raise ValueError("a note is a number of 64 bits")
        case float() if not math.isfinite(value):
            raise ValueError("a note is a finite number")
        case str() | int() | float():  # a bool is an int
            return value
    raise TypeError("a note is a number, a truth value, a code, or a list of these")
