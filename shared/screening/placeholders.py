"""Distinguish secrets from placeholders such as `<TOKEN>`, `${VAR}`, `changeme`, and from names."""

from __future__ import annotations

import re
from typing import Final

_TEMPLATE: Final = re.compile(r"<[^<>]*>|\{[^{}]*\}|…|^\$[\w(:.)-]+$|^%\w+%|\*{3}|\.{3}|\\[du(]")
_SAMPLE: Final = re.compile(
    r"example|placeholder|change.?(?:me|this|it)|redacted|dummy|x{4}|insert|replace|removed"
    r"|0{6}|123456|abcdef|qwerty|deadbeef|u32t4o3tb3gg43",
    re.IGNORECASE,
)
"""Words by which a text says that it is a sample, and the cookie of MDN's documentation."""
_SAMPLE_WORD: Final = re.compile(
    r"passw[o0]rd|p@ssw|secret|your|fake|test|sample|demo|foobar|letmein|s3cr3t|"
    r"(?:^|[^a-z])(?:my|foo|bar|some|dev|local|none|null|undefined|token|key)(?![a-z])"
    r"|^hunter2$|^admin\d{0,3}$|^abc\d*$",
    re.IGNORECASE,
)
_SEPARATOR: Final = re.compile(r"[^A-Za-z0-9!?%^&*]+")
"""What separates the words of a name. The excluded signs occur in passwords but not in names."""
_WORD: Final = re.compile(r"[A-Za-z]*\d{0,4}|\d+[A-Za-z]{0,2}|[A-Za-z]{1,6}\d[A-Za-z]{1,6}")
_PATH: Final = re.compile(r"[a-z][a-z0-9+]*://|\.{0,2}/[\w.-]+/|~/|[A-Z]:\\")
_MIN_DIFFERENT: Final = 6
"""A token with fewer different characters is a placeholder."""
_MIN_SECRET: Final = 8
_MAX_NAME: Final = 80
_MIN_LETTERS_ONLY: Final = 12
"""The least characters of a secret of letters alone."""
_CASE_CHANGE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[a-z])")
_MIN_CASE_CHANGES: Final = 0.4
"""The smallest share of case changes in a secret of letters alone. Random letters change case at
every other one, names at two of a word."""
_SAMPLE_PASSWORD: Final = re.compile(
    r"p(?:ass(?:w(?:or)?d)?|wd?)?|p(?:ass(?:w(?:or)?d)?|wd?)\d{0,4}|secret|postgres|root|admin|guest"
    r"|test|token|key|foo|bar|baz|[a-z]*(?:password|passwd|secret)|x-oauth-basic|open ?sesame",
    re.IGNORECASE,
)
"""Passwords from documentation, and the defaults of services."""


def is_sample(text: str) -> bool:
    """Return whether a text says that it is a sample: `<...>`, `xxxx`, `EXAMPLE`."""
    return bool(_TEMPLATE.search(text) or _SAMPLE.search(text))


def is_placeholder(token: str) -> bool:
    """Return whether a token in a known format only shows the format."""
    return is_sample(token) or len(set(token.lower())) < _MIN_DIFFERENT


def is_sample_password(password: str, user: str) -> bool:
    """Whether a password in a URL or a header is a common default: `guest:guest`, `root:1234`."""
    is_default = _SAMPLE_PASSWORD.fullmatch(password) or password == user or password.isdigit()
    return bool(is_default) or is_sample(password)


def is_secret(value: str) -> bool:
    """Return whether a value that is called a password or a key looks like a real one.

    It has at least eight characters, no white space, and either letters and digits, or capitals
    within words. It is no placeholder, name in code (`settings.api_key2`, `gpt-4o-mini`), path or
    number.
    """
    if len(value) < _MIN_SECRET or not _is_mixed(value) or any(map(str.isspace, value)):
        return False
    if _PATH.match(value) or _SAMPLE_WORD.search(value):
        return False
    return not is_placeholder(value) and not _is_name(value)


def _is_mixed(value: str) -> bool:
    if any(map(str.isdigit, value)):
        return any(map(str.isalpha, value))
    case_changes = len(_CASE_CHANGE.findall(value))
    return len(value) >= _MIN_LETTERS_ONLY and case_changes > len(value) * _MIN_CASE_CHANGES


def _is_name(value: str) -> bool:
    """Whether a value consists of words and numbers: `oauth2_token`, `2024-01-31`, `v1.2.3`."""
    parts = [part for part in _SEPARATOR.split(value) if part]
    return len(parts) > 1 and len(value) < _MAX_NAME and all(map(_WORD.fullmatch, parts))
