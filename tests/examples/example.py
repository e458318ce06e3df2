"""The examples of a tool, over which the contracts of all tools are tested.

All examples call a tool on the same base, which `tests/examples/base.py` stores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from shared.core.caller import Caller
from tests.examples.base import ANNA

Arguments = dict[str, Any]

BLANK: Final = "must not be blank"
NOT_AN_ID: Final = "copy it from another answer"
NOT_A_DATE: Final = "must be a calendar date as YYYY-MM-DD"
NOT_A_ZONE: Final = "is not a time zone of the IANA database"
INVISIBLE_IN_LINE: Final = "must be one line without control or invisible characters"
INVISIBLE_IN_PROSE: Final = "must contain no control characters"
INVISIBLE_TEXTS: Final = (
    *("a\0b", "\x08", "\x1b[2J"),  # they could control the terminal of a reader
    *("\u202e", "\u2066", "a\u200bb", "\u2062"),  # they can disguise code
    *("\U000e0041", "\U000e01f0", "\ufe01\ufe02"),  # they carry text that only models read
    *("\u200b\u200e\u2060\ufeff\u00ad", "\u2003\u2028"),
)
"""Texts that no title or text may contain."""


Wrong = dict[str, "Sequence[Any]"]
"""Wrong values of one argument, by a part of the message."""


class Cost(NamedTuple):
    """What a call takes: round trips, and documents read and written."""

    round_trips: int
    read: int
    written: int = 0


@dataclass(frozen=True, kw_only=True)
class Example:
    """A valid call of a tool, and what the contracts say about it and about others.

    A wrong value replaces the argument of that name in `arguments`. What a field's type rules out,
    such as a text for a number, is tested without an example.

    Attributes:
        arguments: The arguments of the call.
        caller: Who makes it.
        accepted: Values that are barely valid, by argument.
        ranges: The least and the greatest value of each number.
        lengths: The greatest length of each text.
        counts: The greatest number of items of each list.
        choices: All values of each argument that takes one of several.
        wrong: Wrong values, by argument and by a part of the message.
        contradictions: Arguments that do not go together, the argument that the error names or "",
            and a part of the message.
        missing: The ids that may be unknown, and what the error advises.
        costs: Calls, and exactly what each takes. A change that saves something changes them, too.
        next_page: What the page after the first takes, with a limit of 1; None for one page.
        change: Arguments that make it another call.
        other_call: Arguments to which a cursor of the call does not belong.
        undo_leaves: What is different after the call was undone: fields, and collections with
            more or fewer documents, which end in a slash. None, if the call cannot be undone.
        refused: Calls that another user may not make, the code of the error, and a part of its
            message. An error of the code NOT_FOUND is that for an unknown id.
    """

    arguments: Arguments
    caller: Caller = ANNA
    accepted: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    wrong: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    contradictions: Sequence[tuple[Arguments, str, str]] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    costs: Sequence[tuple[Arguments, Cost]] = ()
    next_page: Cost | None = None
    change: Arguments = field(default_factory=dict)
    other_call: Arguments | None = None
    undo_leaves: frozenset[str] | None = None
    refused: Sequence[tuple[Arguments, str, str]] = ()
