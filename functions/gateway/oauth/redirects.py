"""Where an authorization code may be sent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_URI: Final = re.compile(
    r"(?:[a-z0-9._~!$&'()*+,;=:@/?\[\]-]|%[0-9a-f]{2}){1,2000}", re.IGNORECASE | re.ASCII
)


def is_allowed(uri: str) -> bool:
    """Whether this redirect URI leads to a host: by https, or by http to the person's own machine.

    `is_redirect` adds to these the schemes of apps, which have no host to name.
    """
    parts = _split(uri)
    if parts is None or not parts.hostname or parts.username is not None:
        return False
    return parts.scheme == "https" or _is_loopback(parts)


def matches(uri: str, registered: Iterable[str]) -> bool:
    """Whether a redirect URI is one of the registered, to the letter.

    Of a loopback address the port is free (RFC 8252, section 7.3), since the system chooses one.
    """
    return any(uri == each or _same_but_for_port(uri, each) for each in registered)


def _same_but_for_port(uri: str, registered: str) -> bool:
    asked, known = _split(uri), _split(registered)
    if asked is None or known is None or not _is_loopback(asked) or not _is_loopback(known):
        return False
    return _without_port(asked) == _without_port(known)


def _without_port(parts: SplitResult) -> SplitResult:
    return parts._replace(netloc=parts.netloc.removesuffix(f":{parts.port}"))


def _is_loopback(parts: SplitResult) -> bool:
    return parts.scheme == "http" and parts.hostname in LOOPBACK and parts.username is None


def _split(uri: str) -> SplitResult | None:
    """The parts of a URI; None where browsers could read it otherwise than we do."""
    if not _URI.fullmatch(uri):
        return None
    try:
        parts = urlsplit(uri)
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    return parts
