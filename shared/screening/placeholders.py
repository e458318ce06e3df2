"""Distinguishes secrets from placeholders such as `<TOKEN>` or `changeme`, and from names."""

from __future__ import annotations

import re
from typing import Final

_SAMPLE: Final = re.compile(
    # Text to be replaced, such as `<TOKEN>`, `{token}` or `$TOKEN`, an omission, or a pattern
    r"<[^<>]*>|\{[^{}]*\}|…|^\$[\w(:.)-]+$|^%\w+%|\*{3}|\.{3}|\\(?-i:[du(])"
    # Words that mark a sample. The last is the cookie in MDN's documentation.
    r"|example|placeholder|change.?(?:me|this|it)|redacted|dummy|x{4}|insert|replace|removed"
    r"|0{6}|123456|abcdef|qwerty|deadbeef|u32t4o3tb3gg43",
    re.IGNORECASE,
)
_SAMPLE_WORD: Final = re.compile(
    r"passw[o0]rd|p@ssw|secret|your|fake|test|sample|demo|foobar|letmein|s3cr3t|"
    r"(?:^|[^a-z])(?:my|foo|bar|some|dev|local|none|null|undefined|token|key)(?![a-z])"
    r"|^hunter2$|^admin\d{0,3}$|^abc\d*$",
    re.IGNORECASE,
)
"""Words in invented passwords and in names for them."""
_SEPARATOR: Final = re.compile(r"[^A-Za-z0-9!?%^&*]+")
"""What separates the words of a name, unlike the signs `!?%^&*` of passwords."""
_WORD: Final = re.compile(r"[A-Za-z]*\d{0,4}|\d+[A-Za-z]{0,2}|[A-Za-z]{1,6}\d[A-Za-z]{1,6}")
"""A word of a name, which may contain a number: `oauth2`, `3rd`, `k8s`."""
_PATH: Final = re.compile(r"[a-z][a-z0-9+]*://|\.{0,2}/[\w.-]+/|~/|[A-Z]:\\")
"""The beginning of an address or a path."""
_CASE_CHANGE: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[a-z])")
"""A place between two letters of different case."""
_DEFAULT_PASSWORD: Final = re.compile(
    r"p(?:ass(?:w(?:or)?d)?|wd?)?\d{0,4}|secret|postgres|root|admin|guest"
    r"|test|token|key|foo|bar|baz|[a-z]*(?:password|passwd|secret)|x-oauth-basic|open ?sesame|\d+",
    re.IGNORECASE,
)
"""Passwords that are common in documentation, or are the defaults of services."""
_MIN_DIFFERENT_CHARACTERS: Final = 6
"""A token with fewer different characters is a placeholder."""
_MIN_SECRET_LENGTH: Final = 8
"""Too many ordinary values are shorter."""
_MIN_LETTERS_LENGTH: Final = 12
"""A shorter value of only letters is a word."""
_MIN_CASE_CHANGE_SHARE: Final = 0.4
"""A value of only letters is a secret if the case changes more often than this, per letter. Between
random letters, it changes half of the time; in a name, only twice per word."""


def is_placeholder(token: str) -> bool:
    """Return whether a token in a known format is not real, but only illustrates the format."""
    return bool(_SAMPLE.search(token)) or len(set(token.lower())) < _MIN_DIFFERENT_CHARACTERS


def is_sample_password(password: str, user: str) -> bool:
    """Return whether a password in a URL or a header is a common default, such as `root:1234`."""
    is_default = password == user or _DEFAULT_PASSWORD.fullmatch(password)
    return bool(is_default or _SAMPLE.search(password))


def is_secret(value: str) -> bool:
    """Return whether the value of a password or a key looks like a real secret.

    A secret has at least eight characters and no white space. It contains letters and digits, or
    capitals within words. Placeholders, names in code (`settings.api_key2`, `gpt-4o-mini`), paths
    and numbers are not secrets.
    """
    if len(value) < _MIN_SECRET_LENGTH or not _is_mixed(value) or any(map(str.isspace, value)):
        return False
    is_harmless = _PATH.match(value) or _SAMPLE_WORD.search(value) or is_placeholder(value)
    return not is_harmless and not _is_name(value)


def _is_mixed(value: str) -> bool:
    """Return whether a value contains letters and digits, or letters in random case."""
    if any(map(str.isdigit, value)):
        return any(map(str.isalpha, value))
    is_long = len(value) >= _MIN_LETTERS_LENGTH
    return is_long and len(_CASE_CHANGE.findall(value)) > len(value) * _MIN_CASE_CHANGE_SHARE


def _is_name(value: str) -> bool:
    """Return whether a value consists of words and numbers, such as `oauth2_token` or `v1.2.3`."""
    parts = [part for part in _SEPARATOR.split(value) if part]
    return len(parts) > 1 and all(map(_WORD.fullmatch, parts))
