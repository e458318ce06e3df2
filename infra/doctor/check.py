"""A check is a value: what it looks at, and how. What it finds is one line, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from infra.cloud.failures import NotDone
from shared.core.errors import CarrelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SubjectT = TypeVar("SubjectT")


class State(StrEnum):
    """How a thing is."""

    OK = "ok"
    WRONG = "wrong"
    OPTIONAL = "optional"
    """Missing, and only some would miss it."""


class Finding(NamedTuple):
    """What a check found.

    Attributes:
        state: How it is.
        said: What there is, or what is missing.
        next: The command to run next, where something is wrong; of several, one a line.
    """

    state: State
    said: str
    next: str = ""


@dataclass(frozen=True, slots=True)
class Check(Generic[SubjectT]):
    """A check.

    Attributes:
        name: What it looks at.
        look: Looks.
        first: Whether nothing after it makes sense where it finds something wrong.
    """

    name: str
    look: Callable[[SubjectT], Finding]
    first: bool = False


def ok(said: str) -> Finding:
    """All is well."""
    return Finding(State.OK, said)


def wrong(said: str, then: str) -> Finding:
    """Something is not, and this is the command to run next."""
    return Finding(State.WRONG, said, then)


def findings(
    checks: Iterable[Check[SubjectT]], subject: SubjectT
) -> Iterator[tuple[Check[SubjectT], Finding]]:
    """What each check finds, in order, until one fails that all others rest on."""
    for check in checks:
        found = _found(check, subject)
        yield check, found
        if check.first and found.state is State.WRONG:
            return


def _found(check: Check[SubjectT], subject: SubjectT) -> Finding:
    try:
        return check.look(subject)
    except (NotDone, CarrelError) as error:
        said, _, then = error.message.partition("Next: ")
        return wrong(said.strip(), then or "the same again in some minutes")
