"""Secrets that only their place gives away: an assignment, a URL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from detect_secrets.plugins.keyword import DENYLIST

from shared.screening.finding import Place
from shared.screening.placeholders import is_secret, is_usual

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES: Final = "|".join([name.replace("_?", "[_ -]?") for name in DENYLIST]) + (
    "|access[_-]?key|pass[_-]?phrase|credential|token(?!iz)|_pass(?![a-z])|auth(?=[\"']? ?[:=])"
)
"""What passwords and keys are called, as an expression without groups."""
_OTHERWISE: Final = (
    r"hash|digest|url|uri|endpoint|name|path|file|dir|field|type|len|size|count|limit|regex|pattern"
    r"|prefix|suffix|expir|ttl|version|label|param|column|class|ref|arn|manager|algorithm|hint"
    r"|id(?![a-z])"
)
"""What follows in the names of things that are about a secret, but none."""
_ASSIGNED: Final = re.compile(
    rf"(?P<name>{NAMES})(?![\w-]{{0,30}}(?:{_OTHERWISE}))[\w-]{{0,30}}"
    r"[\"'`\])]{0,3}\s{0,4}"
    r"(?::=|=>|[=!]==?|=|:\s{0,3}[\w.\[\]| ]{1,40}=|:| is | was )\s{0,4}"
    r"(?:[a-zA-Z@]{0,2}(?P<quote>[\"'`])(?P<quoted>[^\"'`]{1,300})(?P=quote)"
    r"|(?P<bare>[^\s\"'`,;()<>{}\[\]|&]{1,300}+)(?![(\[{]))",
    re.IGNORECASE,
)
_MEMBER: Final = re.compile(r"[A-Za-z_]\w*(?:\??\.[A-Za-z_]\w*)+")
"""`ed25519.Ed25519PrivateKey`, a name in code."""
_IN_URL: Final = re.compile(
    r"(?<=://)(?P<user>[^\s:/?#@\"'`<>]{0,100}):(?P<value>[^\s/@\"'`<>]{1,200})@[^\s\"'`<>/]{1,100}"
)


def credentials_in(line: str) -> Iterator[Place]:
    """Find passwords and keys by what stands around them."""
    for match in _IN_URL.finditer(line):
        if not is_usual(match["value"], match["user"]):
            yield Place("password in a URL", *match.span())
    for match in _ASSIGNED.finditer(line):
        if is_secret(_assigned(match)):
            kind = "password" if "pass" in match["name"].lower() else "secret key or token"
            yield Place(kind, *match.span())


def _assigned(match: re.Match[str]) -> str:
    """The value that something is given; nothing if it is not given as text."""
    quoted: str | None = match["quoted"]
    if quoted is not None:
        return quoted
    bare: str = match["bare"].rstrip(".:!?*")
    return "" if _MEMBER.fullmatch(bare) else bare
