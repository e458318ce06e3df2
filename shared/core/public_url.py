"""Checks untrusted URLs, before `shared.core.safe_fetch` fetches them.

The modules are separate, so that a tool that only checks URLs does not import an HTTP client.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import quote, urljoin, urlsplit

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""A part of a host name between dots (RFC 1123)."""
_URL: Final = re.compile(
    rf"(?P<scheme>https?)://(?P<host>(?:{_LABEL}\.)+(?=[a-z]){_LABEL})(?::443)?"
    r"(?P<path>/(?:[a-z0-9._~!$&()*+,;=:@/-]|%[0-9a-f]{2})*)"
    r"(?P<query>\?(?:[a-z0-9._~!$&()*+,;=:@/?-]|%[0-9a-f]{2})*)?",
    re.IGNORECASE | re.ASCII,
)
_DOT_SEGMENT: Final = re.compile(r"/(?:\.|%2e){1,2}(?=/|$)", re.IGNORECASE | re.ASCII)
_STRAY_PERCENT: Final = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE | re.ASCII)
_PATH_CHARACTERS: Final = "/%._~!$&()*+,;=:@-"
_PORTS: Final = {"https": 443, "http": 80}
_MAX_URL_LENGTH: Final = 2_000
_MAX_HOST_LENGTH: Final = 253
"""The maximum length of a host name in the DNS, in characters."""


class DocumentRejected(Exception):
    """A URL or its document is rejected.

    Attributes:
        reason: A code for the log, never text from the other server.
        status: The HTTP status, if it is the reason.
    """

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


@dataclass(frozen=True, slots=True)
class PublicUrl:
    """A URL that may be fetched.

    Attributes:
        text: The URL: as it was parsed, or normalized if it is a link.
        host: The host, which is a name with a dot, never an IP address.
        target: The path and the query.
        scheme: `https`, or, only for links, `http`.
    """

    text: str
    host: str
    target: str
    scheme: str = "https"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an https URL on port 443 without a user, fragment, dot segment or IP address.

        Raises:
            DocumentRejected: The URL is not allowed.
        """
        url = cls._parse(text)
        if url.scheme != "https":
            raise DocumentRejected("url")
        return url

    @classmethod
    def of_link(cls, text: str) -> Self:
        """Parse and normalize a link, as people paste it and servers redirect to it.

        The scheme may be http or https, on the standard port. Dot segments are resolved, the
        fragment is dropped, and characters outside ASCII are encoded.

        Raises:
            DocumentRejected: The URL is not allowed, or has a user or a password.
        """
        try:
            parts = urlsplit(text.strip())
            port = parts.port
            host = (parts.hostname or "").encode("idna").decode()
        except ValueError as error:
            raise DocumentRejected("url") from error
        if "@" in parts.netloc or port not in (None, _PORTS.get(parts.scheme)):
            raise DocumentRejected("url")
        # Without the dot, urljoin would take a path that begins with two slashes for another host.
        joined = urljoin("https://host/", f"/.{parts.path or '/'}")
        path = _quote(joined.removeprefix("https://host"))
        query = f"?{_quote(parts.query, '?')}" if parts.query else ""
        return cls._parse(f"{parts.scheme}://{host}{path}{query}")

    @classmethod
    def _parse(cls, text: str) -> Self:
        match = _URL.fullmatch(text) if len(text) <= _MAX_URL_LENGTH else None
        if not match or _DOT_SEGMENT.search(match["path"]) or len(match["host"]) > _MAX_HOST_LENGTH:
            raise DocumentRejected("url")
        target = match["path"] + (match["query"] or "")
        return cls(text, match["host"].lower(), target, match["scheme"].lower())

    @property
    def port(self) -> int:
        """The standard port of the scheme."""
        return _PORTS[self.scheme]


def _quote(text: str, more_safe: str = "") -> str:
    """Percent-encode a path or query. Valid percent codes stay as they are."""
    return quote(_STRAY_PERCENT.sub("%25", text), safe=_PATH_CHARACTERS + more_safe)
