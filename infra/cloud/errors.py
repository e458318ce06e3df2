"""Errors of commands on the cloud, worded for the person at the terminal."""

from __future__ import annotations

import click


class CommandFailed(click.ClickException):
    """A command failed. The message gives the reason and the next step."""


class GoogleApiError(CommandFailed):
    """A Google API rejected a request.

    Attributes:
        status: The HTTP status.
        reason: Google's code for the reason, such as SERVICE_DISABLED, or an empty string.
    """

    def __init__(self, message: str, status: int, reason: str) -> None:
        """Make the error of a response. See the attributes."""
        super().__init__(message)
        self.status = status
        self.reason = reason
