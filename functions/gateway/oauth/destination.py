"""Where the browser goes with the answer: the one thing about a client that it cannot make up."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from shared.errors import InvalidInput

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_URI: Final = re.compile(r"([a-z][a-z0-9+.-]*):[!#-;=?-\[\]_a-z~]*", re.IGNORECASE)
"""What browsers and we read alike: ASCII without spaces, quotes, angle brackets, backslashes."""
_NAME: Final = re.compile(r"[a-z0-9.-]+")
_RUN_OR_SHOW: Final = ("about", "blob", "data", "file", "javascript", "vbscript", "view-source")
"""Schemes that lead to no program, but have the browser do something."""


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
            InvalidInput: Nobody can tell, or no program is there.
        """
        parts = _split(redirect_uri)
        if parts.scheme not in ("http", "https"):
            detail = f"It opens links that begin with {parts.scheme}:"
            return cls("app", "an app on this device", detail, f"{parts.scheme}:")
        if parts.hostname in _LOOPBACK:
            where = f"{parts.hostname}, port {parts.port}" if parts.port else parts.hostname
            return cls("program", "a program on this computer", where, source_of(parts))
        host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
        detail = "" if parts.scheme == "https" else "The connection is not encrypted."
        return cls("site", host, detail, source_of(parts))


def source_of(url: SplitResult) -> str:
    """A web address as policies name it: its origin, or its scheme where they cannot say its host.

    They have no words for IPv6 addresses.
    """
    if not _NAME.fullmatch(url.hostname or ""):
        return f"{url.scheme}:"
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{url.hostname}{port}"


def _split(uri: str) -> SplitResult:
    try:
        parts = urlsplit(uri)
        _ = parts.port  # raises where it is no number
    except ValueError:
        raise _unusable() from None
    if not _URI.fullmatch(uri) or parts.scheme in _RUN_OR_SHOW:
        raise _unusable()
    if parts.scheme in ("http", "https") and not _is_host(parts):
        raise _unusable()
    return parts


def _is_host(parts: SplitResult) -> bool:
    """Whether a host stands here and nothing before it, nor anything that browsers decode."""
    name = parts.hostname or ""
    return parts.username is None and (":" in name or bool(_NAME.fullmatch(name)))


def _unusable() -> InvalidInput:
    return InvalidInput("The program wants the access sent to an address that cannot be used.")
