"""The outcome of a call: its result, with its price and facts for the gateway."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from shared.runtime.schemas import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

Fact = bool | int | float | str
"""A size, a score, a hash, an id or a code; never content."""
AuditFacts = dict[str, Fact | list[Fact]]
"""The facts for the log and the audit, by name."""
MAX_LISTED_FACTS: Final = 50
"""The maximum number of values in a list of facts."""
_CODE: Final = re.compile(r"[A-Za-z0-9._:-]{0,100}")
_MAX_INTEGER: Final = 2**63 - 1
"""The largest integer that Firestore can store."""

ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[ResultT]):
    """The result of a handler, with facts about the call.

    Attributes:
        price: The price of the call in millionths of a dollar, or None for the tool's own price.
        facts: Facts for the log and the audit, which must not be content. See `validate_facts`.
        belongs_to: The path, below the user's document, of the records that the answer is about,
            or None. Erasing the records erases the stored answer.
        replayable: Whether the answer is stored under the call's idempotency key. If not, a
            repeated call runs again.
    """

    result: ResultT
    price: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    belongs_to: str | None = None
    replayable: bool = True

    def __post_init__(self) -> None:
        """Reject facts that could be content, before the call writes.

        Raises:
            TypeError, ValueError: See `validate_facts`.
        """
        validate_facts(self.facts)


def to_outcome(answer: ResultT | Outcome[ResultT]) -> Outcome[ResultT]:
    """Return a handler's answer as an outcome. A bare result costs the tool's own price."""
    return answer if isinstance(answer, Outcome) else Outcome(answer)


def validate_facts(facts: Mapping[str, Any]) -> AuditFacts:
    """Return the facts if none of them could be content. Errors do not quote values.

    Raises:
        TypeError: A fact is not a number, boolean or string, nor a list of these.
        ValueError: A string is not a short code, a number is not finite, or a list is too long.
    """
    return {str(_check_fact(name)): _check_value(value) for name, value in facts.items()}


def _check_value(value: Any) -> Fact | list[Fact]:
    if not isinstance(value, list | tuple):
        return _check_fact(value)
    if len(value) > MAX_LISTED_FACTS:
        raise ValueError(f"an audit fact lists at most {MAX_LISTED_FACTS} values")
    return [_check_fact(item) for item in value]


def _check_fact(value: Any) -> Fact:
    match value:
        case str() if not _CODE.fullmatch(value):
            raise ValueError("an audit fact is a code of up to 100 characters of [A-Za-z0-9._:-]")
        case int() if abs(value) > _MAX_INTEGER:
            raise ValueError("an audit fact fits into 64 bits")
        case float() if not math.isfinite(value):
            raise ValueError("an audit fact is a finite number")
        case str() | int() | float():  # a bool is an int
            return value
    raise TypeError("an audit fact is a number, a boolean, a code, or a list of these")
