"""Defines the checks of an installation as values, and runs them.

The subject of a check is what it inspects: this machine, or the deployment in the cloud.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from infra.cloud.errors import CommandFailed
from shared.core.errors import CarrelError, Unusable
from shared.core.installation import carrel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SubjectT = TypeVar("SubjectT")


class CheckStatus(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WRONG = "wrong"
    """There is a problem, which the next command solves."""
    OPTIONAL = "optional"
    """Something is missing that only some users need, or could not be tested."""


class CheckResult(NamedTuple):
    """The result of a check.

    Attributes:
        status: The outcome.
        message: What works, or what is wrong.
        next_command: The commands that help if something is wrong, one per line.
    """

    status: CheckStatus
    message: str
    next_command: str = ""


@dataclass(frozen=True, slots=True)
class Check(Generic[SubjectT]):
    """A check of one component of an installation.

    Attributes:
        name: The name of the component.
        run: Runs the check.
        required: Whether all following checks depend on this one, and are skipped if it fails.
    """

    name: str
    run: Callable[[SubjectT], CheckResult]
    required: bool = False


def passed(message: str) -> CheckResult:
    """Return the result of a check that passed."""
    return CheckResult(CheckStatus.OK, message)


def failed(message: str, next_command: str) -> CheckResult:
    """Return the result of a check that failed, with the commands to run next, one per line."""
    return CheckResult(CheckStatus.WRONG, message, next_command)


def run_checks(
    checks: Iterable[Check[SubjectT]], subject: SubjectT
) -> Iterator[tuple[Check[SubjectT], CheckResult]]:
    """Run checks in order, and stop after a required check that fails."""
    for check in checks:
        result = _run_check(check, subject)
        yield check, result
        if check.required and result.status is CheckStatus.WRONG:
            return


def _run_check(check: Check[SubjectT], subject: SubjectT) -> CheckResult:
    """Run a check. An expected error is a failure of the check."""
    try:
        return check.run(subject)
    except Unusable as error:
        return failed(error.message, f"that, then {carrel('doctor')}")
    except (CommandFailed, CarrelError) as error:
        # Messages of commands end with the next command, after "Next:".
        message, _, command = error.message.partition("Next: ")
        return failed(message.strip(), command or f"wait some minutes, then {carrel('doctor')}")
