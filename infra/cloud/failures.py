"""What goes wrong on the way to the cloud, worded for the person at the terminal."""

from __future__ import annotations

import click


class NotDone(click.ClickException):
    """What was asked was not done; the message says why, and the command to run next."""


class Refused(NotDone):
    """Google refused a request.

    Attributes:
        status: The HTTP status.
        reason: Google's word for it, such as SERVICE_DISABLED; empty where it gives none.
    """

    def __init__(self, message: str, status: int, reason: str) -> None:
        """Say what was refused, and why."""
        super().__init__(message)
        self.status = status
        self.reason = reason
