"""Secrets in HTTP headers: of Authorization, and cookies."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

from shared.screening.finding import Place
from shared.screening.placeholders import is_secret, is_usual

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME: Final = re.compile(r"basic|bearer|authorization|cookie|curl", re.IGNORECASE)
_AUTHORIZATION: Final = re.compile(
    r"(?:\bauthorization[\"']?\s{0,3}[:=,]\s{0,3}[\"']?(?P<said>basic|bearer|token|apikey)"
    r"|\b(?P<alone>basic|bearer)) {1,3}(?P<value>[\w.~+/=-]{8,}+)(?![{<$(*])",
    re.IGNORECASE | re.ASCII,
)
_SHORTEST_TOKEN: Final = 16
_VALUE: Final = r"(?:=|: ?)[\"']?([^\s;,\"'`<>{}()\[\]$]{0,4096}+)"
_COOKIES: Final = re.compile(
    r"(?:\b(?:set[-_]?)?cookies?\b[\"'`)\]]{0,2}\s{0,3}[:=,]?|\bcurl\b[^|;]{0,200}? -b)"
    r"\s{0,3}[\"'`(\[{]{0,3}"
    rf"(?P<pairs>(?:[\"']?[\w.%-]{{1,64}}+[\"']?{_VALUE}[\"']?[;,]? ?)++)",
    re.IGNORECASE | re.ASCII,
)
_COOKIE: Final = re.compile(rf"[\w.%-]{{1,64}}+[\"']?{_VALUE}", re.ASCII)
_SHORTEST_COOKIE: Final = 20
"""The samples of RFC 6265 and of MDN are shorter; a session's key is not."""


def headers_in(line: str) -> Iterator[Place]:
    """Find credentials in Authorization headers, and cookies that open somebody's session."""
    if not _NAME.search(line):
        return
    for match in _AUTHORIZATION.finditer(line):
        if _authorizes(match):
            yield Place("token in an Authorization header", *match.span())
    for match in _COOKIES.finditer(line):
        if any(map(_opens, _COOKIE.finditer(match["pairs"]))):
            yield Place("cookie", *match.span())


def _authorizes(match: re.Match[str]) -> bool:
    scheme: str = match["said"] or match["alone"]
    value: str = match["value"]
    if scheme.lower() == "basic":
        user, colon, password = _decoded(value).partition(":")
        if colon or match["alone"]:
            return bool(colon) and not is_usual(password, user)
    return len(value) >= _SHORTEST_TOKEN and is_secret(value)


def _decoded(value: str) -> str:
    """What Base64 stands for, if that is a text that can be read."""
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return text if text.isprintable() else ""


def _opens(cookie: re.Match[str]) -> bool:
    return len(cookie[1]) >= _SHORTEST_COOKIE and is_secret(cookie[1])
