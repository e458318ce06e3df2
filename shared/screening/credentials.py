"""Secrets that only their place gives away: an assignment, a URL, a header, an option."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from detect_secrets.plugins.keyword import DENYLIST

from shared.screening.finding import Place
from shared.screening.placeholders import is_sample, is_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES: Final = "|".join([name.replace("_?", "[_ -]?") for name in DENYLIST]) + (
    "|access[_-]?key|pass[_-]?phrase|credential|token(?!iz)|_pass(?![a-z])|auth(?=[\"']? ?[:=])"
)
_OTHERWISE: Final = (
    r"hash|digest|url|uri|endpoint|name|path|file|dir|field|type|len|size|count|limit|regex|pattern"
    r"|prefix|suffix|expir|ttl|version|label|param|column|class|ref|arn|manager|algorithm|hint"
    r"|id(?![a-z])"
)
"""What follows in the names of things that are about a secret, but none."""
_ASSIGNED: Final = re.compile(
    rf"(?P<name>{_NAMES})(?![\w-]{{0,30}}(?:{_OTHERWISE}))[\w-]{{0,30}}"
    r"[\"'`\])]{0,3}\s{0,4}"
    r"(?::=|=>|[=!]==?|=|:\s{0,3}[\w.\[\]| ]{1,40}=|:| is | was )\s{0,4}"
    r"(?:[a-zA-Z@]{0,2}(?P<quote>[\"'`])(?P<quoted>[^\"'`]{1,300})(?P=quote)"
    r"|(?P<bare>[^\s\"'`,;()<>{}\[\]|&]{1,300}+)(?![(\[{]))",
    re.IGNORECASE,
)
_MEMBER: Final = re.compile(r"[A-Za-z_]\w*(?:\??\.[A-Za-z_]\w*)+")
"""`ed25519.Ed25519PrivateKey`, a name in code."""
_OPTION: Final = re.compile(
    rf"(?:--[\w-]{{0,20}}(?:{_NAMES})|\blogin \S{{1,64}}+ password) {{1,4}}[\"']?"
    r"(?P<value>[^\s\"'<>{}\[\]$]{1,300})"
    r"|\bcurl\b[^|;]{0,300}? (?:-u|--user)[ =]?[\"']?[^\s:\"']{1,64}:(?P<basic>[^\s\"']{1,200})",
    re.IGNORECASE,
)
_IN_URL: Final = re.compile(
    r"(?<=://)(?P<user>[^\s:/?#@\"'`<>]{0,100}):(?P<value>[^\s/@\"'`<>]{1,200})@[^\s\"'`<>/]{1,100}"
)
_HEADER: Final = re.compile(
    r"(?:\bauthorization[\"']?\s{0,3}[:=,]\s{0,3}[\"']?(?:basic|bearer|token|apikey)|\bbearer)"
    r" {1,3}(?P<value>[\w.~+/=-]{16,}+)(?![{<$(*])",
    re.IGNORECASE | re.ASCII,
)
_USUAL: Final = re.compile(
    r"p(?:ass(?:w(?:or)?d)?|wd?)?|p(?:ass(?:w(?:or)?d)?|wd?)\d{0,4}|secret|postgres|root|admin|guest"
    r"|test|token|key|foo|bar|baz|[a-z]*(?:password|passwd|secret)|x-oauth-basic",
    re.IGNORECASE,
)
"""Passwords of documentation and of services as they are delivered."""


def credentials_in(line: str) -> Iterator[Place]:
    """Find passwords and keys by what stands around them."""
    for match in _IN_URL.finditer(line):
        value = match["value"]
        usual = _USUAL.fullmatch(value) or value == match["user"] or value.isdigit()
        if not usual and not is_sample(value):
            yield Place("password in a URL", *match.span())
    for match in _HEADER.finditer(line):
        if is_secret(match["value"]):
            yield Place("token in an Authorization header", *match.span())
    for match in _ASSIGNED.finditer(line):
        if is_secret(_assigned(match)):
            kind = "password" if "pass" in match["name"].lower() else "secret key or token"
            yield Place(kind, *match.span())
    for match in _OPTION.finditer(line):
        if is_secret(match["value"] or match["basic"]):
            yield Place("password in a command", *match.span())


def _assigned(match: re.Match[str]) -> str:
    """The value that something is given; nothing if it is not given as text."""
    quoted: str | None = match["quoted"]
    if quoted is not None:
        return quoted
    bare: str = match["bare"].rstrip(".:!?*")
    return "" if _MEMBER.fullmatch(bare) else bare
