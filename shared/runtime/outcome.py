"""What a call came to: the result, and what the gateway is to know beside it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from shared.runtime.schemas import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

Fact = bool | int | float | str
"""A size, a score, a hash, an id, a code."""
AuditFacts = dict[str, Fact | list[Fact]]
"""Facts by name."""
MAX_LISTED_FACTS: Final = 50
"""Facts in one list."""
_CODE: Final = re.compile(r"[A-Za-z0-9._:-]{0,100}")
_LARGEST: Final = 2**63 - 1
"""The largest whole number that Firestore takes."""

ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[ResultT]):
    """What a handler returns that has more to say than its result.

    Attributes:
        result: What the caller is answered.
        price: What the call costs its caller, in millionths of a dollar; None: what its tool costs.
        facts: For the log and the audit, where no content may stand. See `validate_facts`.
        belongs_to: The path, below the user's, of what the answer belongs to: when that is erased,
            the stored answer goes too. None: of nothing that can be erased.
        repeatable: Whether the answer may be stored under the call's idempotency key; if not, the
            same call, sent again, is done again.
    """

    result: ResultT
    price: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    belongs_to: str | None = None
    replayable: bool = True

    def __post_init__(self) -> None:
        """Refuse facts that could be content before anything is written.

        Raises:
            TypeError, ValueError: See `validate_facts`.
        """
        validate_facts(self.facts)


def as_outcome(answer: ResultT | Outcome[ResultT]) -> Outcome[ResultT]:
    """What a handler returned: a bare result costs what its tool declares."""
    return answer if isinstance(answer, Outcome) else Outcome(answer)


def validate_facts(facts: Mapping[str, Any]) -> AuditFacts:
    """These facts, if nothing among them could be content; what is wrong is not quoted.

    Raises:
        TypeError: One is no number, truth value or string, and no list of these.
        ValueError: A string is no short code, a number is not finite, or a list is long.
    """
    return {str(_single(name)): _fact(value) for name, value in facts.items()}


def _fact(value: Any) -> Fact | list[Fact]:
    if not isinstance(value, list | tuple):
        return _single(value)
    if len(value) > MAX_LISTED_FACTS:
        raise ValueError(f"an audit fact lists {MAX_LISTED_FACTS} values at most")
    return [_single(item) for item in value]


def _single(value: Any) -> Fact:
    match value:
        case str() if not _CODE.fullmatch(value):
            raise ValueError("an audit fact is a code of up to 100 characters of [A-Za-z0-9._:-]")
        case int() if abs(value) > _LARGEST:
            raise ValueError("an audit fact is a number of 64 bits")
        case float() if not math.isfinite(value):
            raise ValueError("an audit fact is a finite number")
        case str() | int() | float():  # a bool is an int
            return value
    raise TypeError("an audit fact is a number, a truth value, a code, or a list of these")
