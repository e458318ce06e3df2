"""Why a client's document was not taken."""

from __future__ import annotations


class Refused(Exception):
    """What a URL leads to is no client's document.

    Attributes:
        reason: A word for the log; never anything that the other side said.
    """

    def __init__(self, reason: str) -> None:
        """Refuse for this reason."""
        super().__init__(reason)
        self.reason = reason
