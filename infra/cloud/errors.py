"""Errors of commands on the cloud, worded for the person at the terminal."""

from __future__ import annotations

import click


class CommandFailed(click.ClickException):
    """A command failed; the message gives the reason and the command to run next."""


class GoogleApiError(CommandFailed):
    """A Google API refused a request.

    Attributes:
        status: The HTTP status.
        reason: Google's code for the reason, such as SERVICE_DISABLED; empty if there is none.
    """

    def __init__(self, message: str, status: int, reason: str) -> None:
        """Store the details beside the message."""
        super().__init__(message)
        self.status = status
        self.reason = reason
