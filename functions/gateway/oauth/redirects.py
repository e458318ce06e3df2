"""Where an authorization code may be sent: one verdict for all who ask."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from shared.core.settings import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST: Final = 2_000
"""Characters."""
_URI: Final = re.compile(
    r"[a-z][a-z0-9+.-]{0,49}:/(?:[a-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9a-f]{2})+",
    re.IGNORECASE | re.ASCII,
)
"""What browsers and we read alike, without a fragment."""
_HOST: Final = re.compile(r"[a-z0-9.-]+|[0-9a-f:.]+")
_TAKEN: Final = re.compile(
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
            may = not _TAKEN.fullmatch(scheme)
    return parts if may else None


def matches(uri: str, registered: Iterable[str]) -> bool:
    """Whether a redirect URI is one of the registered, to the letter.

    Of a loopback address the port is free (RFC 8252, section 7.3), since the system chooses one.
    """
    return any(uri == each or _same_but_for_port(uri, each) for each in registered)


def _same_but_for_port(uri: str, registered: str) -> bool:
    asked, known = allowed(uri), allowed(registered)
    if asked is None or known is None or asked.scheme != "http":
        return False
    return _without_port(asked) == _without_port(known)


def _without_port(parts: SplitResult) -> SplitResult:
    return parts._replace(netloc=parts.netloc.removesuffix(f":{parts.port}"))


def _split(uri: str) -> SplitResult | None:
    if len(uri) > LONGEST or not _URI.fullmatch(uri):
        return None
    try:
        parts = urlsplit(uri)
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    return parts
