"""Redirect URIs: the destinations of authorization codes, and their descriptions for people.

A program can lie about everything except its redirect URI, because the browser goes there.
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

MAX_URI_LENGTH: Final = 2_000
"""The maximum length of a redirect URI, in characters."""
_URI: Final = re.compile(
    r"[a-z][a-z0-9+.-]{0,49}:/(?:[a-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9a-f]{2})+",
    re.IGNORECASE | re.ASCII,
)
"""Matches only URIs, without a fragment, that browsers and this server parse in the same way."""
_HOST_FORMAT: Final = re.compile(r"[a-z0-9.-]+|[0-9a-f:.]+")
_RESERVED_SCHEMES: Final = re.compile(
    r"about|blob|chrome|content|data|devtools|feed|file|filesystem|ftps?|help|intent|itms-.*|jar"
    r"|javascript|ldaps?|mailto|microsoft-.*|ms-.*|res|resource|search|search-ms|shell|smb|sms|ssh"
    r"|tel|urn|vbscript|view-source|web\+.*|wss?"
)
"""Matches schemes of browsers and operating systems, which no app may register."""


def parse_redirect_uri(uri: str) -> SplitResult | None:
    """Return the parts of an address that codes may be sent to, or None if it is not allowed.

    Allowed are https, http to the person's own machine, and an app's own scheme, but never a user
    name before the host, since it could be mistaken for the host.
    """
    parts = _split(uri)
    if parts is None or parts.username is not None:
        return None
    match parts.scheme:
        case "https":
            is_allowed = _HOST_FORMAT.fullmatch(parts.hostname or "") is not None
        case "http":
            is_allowed = is_loopback(parts)
        case scheme:
            is_allowed = not _RESERVED_SCHEMES.fullmatch(scheme)
    return parts if is_allowed else None


def is_registered(uri: str, registered: Iterable[str]) -> bool:
    """Return whether a redirect URI is exactly one of the registered ones.

    A loopback address may have any port (RFC 8252, section 7.3), since the system chooses one.
    """
    return any(uri == other or _equals_except_port(uri, other) for other in registered)


def add_query(redirect_uri: str, **parameters: str | None) -> str:
    """Add parameters to the query of a redirect URI."""
    query = urlencode({name: value for name, value in parameters.items() if value is not None})
    return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{query}"


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of a redirect URI, for the consent page.

    Attributes:
        kind: A web site, a program on this computer, or an app that the browser asks to open.
        label: The description for people; for a site, its host.
        detail: A further detail to recognize it by, or empty.
        csp_source: The destination in the form for a content security policy.
    """

    kind: Literal["site", "program", "app"]
    label: str
    detail: str
    csp_source: str

    @classmethod
    def of(cls, redirect_uri: str) -> Destination:
        """Describe a redirect URI.

        Raises:
            InvalidInput: The redirect URI is not allowed.
        """
        parts = parse_redirect_uri(redirect_uri)
        if parts is None:
            raise InvalidInput(
                "The program asks to send the access to an address that is not allowed."
            )
        if parts.scheme not in ("http", "https"):
            detail = f"It opens links that begin with {parts.scheme}:"
            return cls("app", "an app on this device", detail, f"{parts.scheme}:")
        if is_loopback(parts):
            address = f"{parts.hostname}, port {parts.port}" if parts.port else str(parts.hostname)
            return cls("program", "a program on this computer", address, format_csp_source(parts))
        host = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
        return cls("site", host, "", format_csp_source(parts))


def format_csp_source(url: SplitResult) -> str:
    """Return the origin of a web address, in the form for a content security policy.

    An IPv6 address becomes only its scheme, because policies cannot express it.
    """
    if ":" in (url.hostname or ""):
        return f"{url.scheme}:"
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{url.hostname}{port}"


def _equals_except_port(uri: str, registered: str) -> bool:
    requested, expected = parse_redirect_uri(uri), parse_redirect_uri(registered)
    if requested is None or expected is None or requested.scheme != "http":
        return False
    return _strip_port(requested) == _strip_port(expected)


def _strip_port(parts: SplitResult) -> SplitResult:
    return parts._replace(netloc=parts.netloc.removesuffix(f":{parts.port}"))


def _split(uri: str) -> SplitResult | None:
    if len(uri) > MAX_URI_LENGTH or not _URI.fullmatch(uri):
        return None
    try:
        parts = urlsplit(uri)
        _ = parts.port  # raises ValueError if it is not a number
    except ValueError:
        return None
    return parts
