"""Telling a secret from what stands in its place: `<TOKEN>`, `${VAR}`, `changeme`, a name."""

from __future__ import annotations

import re
from typing import Final

_FILLED_IN: Final = re.compile(r"<[^<>]*>|\{[^{}]*\}|…|^\$[\w(:.)-]+$|^%\w+%|\*{3}|\.{3}|\\[du(]")
_SAMPLE: Final = re.compile(
    r"example|placeholder|change.?(?:me|this|it)|redacted|dummy|x{4}|insert|replace|removed"
    r"|0{6}|123456|abcdef|qwerty|deadbeef|u32t4o3tb3gg43",
    re.IGNORECASE,
)
"""What says so itself, and the cookie of MDN's documentation."""
_IN_JEST: Final = re.compile(
    r"passw[o0]rd|p@ssw|secret|your|fake|test|sample|demo|foobar|letmein|s3cr3t|"
    r"(?:^|[^a-z])(?:my|foo|bar|some|dev|local|none|null|undefined|token|key)(?![a-z])"
    r"|^hunter2$|^admin\d{0,3}$|^abc\d*$",
    re.IGNORECASE,
)
_PARTED: Final = re.compile(r"[^A-Za-z0-9!?%^&*]+")
"""What parts the words of a name; the signs that it spares are in no name, but in passwords."""
_WORD: Final = re.compile(r"[A-Za-z]*\d{0,4}|\d+[A-Za-z]{0,2}|[A-Za-z]{1,6}\d[A-Za-z]{1,6}")
_PLACE: Final = re.compile(r"[a-z][a-z0-9+]*://|\.{0,2}/[\w.-]+/|~/|[A-Z]:\\")
_FEWEST: Final = 6
"""A token of fewer different characters is nobody's."""
_SHORTEST: Final = 8
_LONGEST_WORDS: Final = 80
_LETTERS: Final = 12
_TURN: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[a-z])")
_TURNS: Final = 0.4
"""The case turns at every other of random letters, and at two of a word in a name."""
_USUAL: Final = re.compile(
    r"p(?:ass(?:w(?:or)?d)?|wd?)?|p(?:ass(?:w(?:or)?d)?|wd?)\d{0,4}|secret|postgres|root|admin|guest"
    r"|test|token|key|foo|bar|baz|[a-z]*(?:password|passwd|secret)|x-oauth-basic|open ?sesame",
    re.IGNORECASE,
)
"""Passwords of documentation and of services as they are delivered."""


def is_sample(text: str) -> bool:
    """Tell whether a text says of itself that it stands for another: `<...>`, `xxxx`, `EXAMPLE`."""
    return bool(_FILLED_IN.search(text) or _SAMPLE.search(text))


def is_placeholder(token: str) -> bool:
    """Tell whether a token of a known form only shows the form."""
    return is_sample(token) or len(set(token.lower())) < _FEWEST


def is_usual(password: str, user: str) -> bool:
    """Tell whether a password, of what can only be one, is nobody's: `guest:guest`, `root:1234`."""
    known = _USUAL.fullmatch(password) or password == user or password.isdigit()
    return bool(known) or is_sample(password)


def is_secret(value: str) -> bool:
    """Tell whether the value of something called a password or a key looks like a real one.

    It has letters and digits, or capitals where no word begins, at least eight characters and no
    blank, and is neither a placeholder, a name in code (`settings.api_key2`, `gpt-4o-mini`), a path
    nor a number.
    """
    if len(value) < _SHORTEST or not _is_mixed(value) or any(map(str.isspace, value)):
        return False
    if _PLACE.match(value) or _IN_JEST.search(value):
        return False
    return not is_placeholder(value) and not _is_name(value)


def _is_mixed(value: str) -> bool:
    if any(map(str.isdigit, value)):
        return any(map(str.isalpha, value))
    return len(value) >= _LETTERS and len(_TURN.findall(value)) > len(value) * _TURNS


def _is_name(value: str) -> bool:
    """Tell whether it is made of words and numbers: `oauth2_token`, `2024-01-31`, `v1.2.3`."""
    parts = [part for part in _PARTED.split(value) if part]
    return len(parts) > 1 and len(value) < _LONGEST_WORDS and all(map(_WORD.fullmatch, parts))
