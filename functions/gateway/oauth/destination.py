"""Where the browser goes with the answer: the one thing about a client that it cannot make up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from functions.gateway.oauth.redirects import allowed
from shared.core.errors import InvalidInput
from shared.core.settings import is_loopback

if TYPE_CHECKING:
    from urllib.parse import SplitResult


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a redirect URI leads.

    Attributes:
        kind: A web site, a program on this computer, or an app that the browser asks about.
        words: Where, for people: of a site, its host.
        detail: What else tells it apart; empty if there is nothing.
        source: How a content security policy allows it.
    """

    kind: Literal["site", "program", "app"]
    words: str
    detail: str
    source: str

    @classmethod
    def of(cls, redirect_uri: str) -> Destination:
        """Where this URI leads.

        Raises:
            InvalidInput: Nothing may be sent there.
        """
        parts = allowed(redirect_uri)
        if parts is None:
            raise InvalidInput(
                "The program wants the access sent to an address that cannot be used."
            )
        if parts.scheme not in ("http", "https"):
            detail = f"It opens links that begin with {parts.scheme}:"
            return cls("app", "an app on this device", detail, f"{parts.scheme}:")
        if is_loopback(parts):
            where = f"{parts.hostname}, port {parts.port}" if parts.port else str(parts.hostname)
            return cls("program", "a program on this computer", where, source_of(parts))
        host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
        return cls("site", host, "", source_of(parts))


def source_of(url: SplitResult) -> str:
    """A web address as policies name it: its origin, or its scheme where they cannot say its host.

    They have no words for IPv6 addresses.
    """
    if ":" in (url.hostname or ""):
        return f"{url.scheme}:"
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{url.hostname}{port}"
