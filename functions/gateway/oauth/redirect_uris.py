"""Redirect URIs: where an authorization code may be sent, and what people are told of it.

Where the browser goes with the answer is the one thing about a client that it cannot make up, so
there is one verdict for all who ask.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import SplitResult, urlencode, urlsplit

from shared.core.addresses import is_loopback
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LENGTH: Final = 2_000
"""Characters of a redirect URI."""
_URI: Final = re.compile(
    r"[a-z][a-z0-9+.-]{0,49}:/(?:[a-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9a-f]{2})+",
    re.IGNORECASE | re.ASCII,
)
"""What browsers and we read alike, without a fragment."""
_HOST: Final = re.compile(r"[a-z0-9.-]+|[0-9a-f:.]+")
_RESERVED_SCHEMES: Final = re.compile(
    r"about|blob|chrome|content|data|devtools|feed|file|filesystem|ftps?|help|intent|itms-.*|jar"
    r"|javascript|ldaps?|mailto|microsoft-.*|ms-.*|res|resource|search|search-ms|shell|smb|sms|ssh"
    r"|tel|urn|vbscript|view-source|web\+.*|wss?"
)
"""Schemes that belong to browsers and systems, and never to the app that a person uses."""


def allowed(uri: str) -> SplitResult | None:
    """The parts of an address that codes may be sent to; None if they may not.

    They may by https, by http to the person's own machine, and by an app's own scheme; but never
    where somebody is named before the host, who would look like the host.
    """
    parts = _split(uri)
    if parts is None or parts.username is not None:
        return None
    match parts.scheme:
        case "https":
            may = _HOST.fullmatch(parts.hostname or "") is not None
        case "http":
            may = is_loopback(parts)
        case scheme:
            may = not _RESERVED_SCHEMES.fullmatch(scheme)
    return parts if may else None


def matches(uri: str, registered: Iterable[str]) -> bool:
    """Whether a redirect URI is one of the registered, to the letter.

    Of a loopback address the port is free (RFC 8252, section 7.3), since the system chooses one.
    """
    return any(uri == other or _same_but_for_port(uri, other) for other in registered)


def redirect_with(redirect_uri: str, **answer: str | None) -> str:
    """The redirect URI with an answer in its query, beside what stood there before."""
    query = urlencode({name: value for name, value in answer.items() if value is not None})
    return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{query}"


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


def _same_but_for_port(uri: str, registered: str) -> bool:
    requested, expected = allowed(uri), allowed(registered)
    if requested is None or expected is None or requested.scheme != "http":
        return False
    return _without_port(requested) == _without_port(expected)


def _without_port(parts: SplitResult) -> SplitResult:
    return parts._replace(netloc=parts.netloc.removesuffix(f":{parts.port}"))


def _split(uri: str) -> SplitResult | None:
    if len(uri) > MAX_LENGTH or not _URI.fullmatch(uri):
        return None
    try:
        parts = urlsplit(uri)
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    return parts
