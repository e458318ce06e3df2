"""Credentials in, `Caller` out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.caller import Caller

if TYPE_CHECKING:
    from starlette.requests import Request


def identify(_request: Request | None) -> Caller:
    """Who is calling. There is no sign-in yet: everybody is anonymous and may read.

    Args:
        _request: The HTTP request; None over stdio.
    """
    return Caller()
