"""Checks of an installation. A check is a value: what it checks, and how."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from infra.cloud.errors import CommandFailed
from shared.core.errors import CarrelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SubjectT = TypeVar("SubjectT")


class CheckStatus(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WRONG = "wrong"
    OPTIONAL = "optional"
    """Something is missing that only some users need."""


class CheckResult(NamedTuple):
    """What a check found.

    Attributes:
        status: The outcome.
        message: What there is, or what is missing.
        next_command: The command to run next if something is wrong; several are on lines of their
            own.
    """

    status: CheckStatus
    message: str
    next_command: str = ""


@dataclass(frozen=True, slots=True)
class Check(Generic[SubjectT]):
    """A check of one aspect.

    Attributes:
        name: What it checks.
        run: Runs the check.
        required: Whether the checks after it are skipped if it fails.
    """

    name: str
    run: Callable[[SubjectT], CheckResult]
    required: bool = False


def passed(message: str) -> CheckResult:
    """Return the result of a check that found nothing wrong."""
    return CheckResult(CheckStatus.OK, message)


def failed(message: str, next_command: str) -> CheckResult:
    """Return the result of a check that found a problem."""
    return CheckResult(CheckStatus.WRONG, message, next_command)


def run_checks(
    checks: Iterable[Check[SubjectT]], subject: SubjectT
) -> Iterator[tuple[Check[SubjectT], CheckResult]]:
    """Run checks in order, up to the first required one that fails."""
    for check in checks:
        result = _run_check(check, subject)
        yield check, result
        if check.required and result.status is CheckStatus.WRONG:
            return


def _run_check(check: Check[SubjectT], subject: SubjectT) -> CheckResult:
    try:
        return check.run(subject)
    except (CommandFailed, CarrelError) as error:
        message, _, command = error.message.partition("Next: ")
        return failed(message.strip(), command or "carrel doctor, again in some minutes")
