"""The database that a process works on: files of this machine, an emulator, or the cloud's.

Nothing is guessed, because the credentials of a laptop are often those of some project: a process
that took the cloud for granted would send its owner's notes there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable


class TargetKind(Enum):
    """What serves a database."""

    EMBEDDED = auto()
    """Files of this machine, which this process opens itself."""
    EMULATOR = auto()
    """A Firestore emulator, or another server of this machine."""
    CLOUD = auto()
    """Cloud Firestore, with the credentials of this process."""


@dataclass(frozen=True, slots=True)
class Target:
    """The database of a process.

    Attributes:
        make_client: Makes the client of a project and a database, by default Google's own.
    """

    kind: TargetKind
    make_client: Callable[[str, str], Any] | None = None


CLOUD: Final = Target(TargetKind.CLOUD)
EMULATOR: Final = Target(TargetKind.EMULATOR)

_chosen: Target | None = None


def choose_target(target: Target | None) -> None:
    """Choose the database of this process. None takes the choice back."""
    global _chosen  # noqa: PLW0603 - one for the process, as an environment variable is
    _chosen = target


def get_target() -> Target | None:
    """Return the database of this process, or None if it has not been told.

    Without a choice, it is the emulator that `FIRESTORE_EMULATOR_HOST` names, as for Google's
    client, or the cloud's in a deployed function, where Cloud Run sets `K_SERVICE`.
    """
    if _chosen:
        return _chosen
    if os.environ.get("FIRESTORE_EMULATOR_HOST"):
        return EMULATOR
    return CLOUD if os.environ.get("K_SERVICE") else None


def is_local() -> bool:
    """Return whether the database of this process is on this machine."""
    target = get_target()
    return target is not None and target.kind is not TargetKind.CLOUD
