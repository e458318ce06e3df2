"""Detects secrets by their context: assignments, URLs, headers, commands, private key blocks.

Secrets with a format of their own are detected in `shared.screening.tokens`. Repetitions in the
expressions are bounded or possessive, because a line may be long and untrusted.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

from detect_secrets.plugins.keyword import DENYLIST

from shared.screening.detection import Detection
from shared.screening.placeholders import is_placeholder, is_sample_password, is_secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Assignments and URLs

_SECRET_NAMES: Final = "|".join([name.replace("_?", "[_ -]?") for name in DENYLIST]) + (
    "|access[_-]?key|pass[_-]?phrase|credential|token(?!iz)|_pass(?![a-z])|auth(?=[\"']? ?[:=])"
)
"""The names of passwords and keys, as a pattern without groups."""
_HARMLESS_WORDS: Final = (
    r"(?:base|dir|file|host|key|max|min|row|salt|sub|user)?"
    r"(?:hash|digest|url|uri|endpoint|name|path|file|dir(?:ector|s|(?![a-z]))|field|type|len|size"
    r"|count|limit|regex|pattern|prefix|suffix|expir|ttl|version|label|param|column|class|ref|arn"
    r"|manager|algorithm|hint|id(?![a-z]))"
)
"""The beginnings of words that make a name harmless when they follow it, as in `token_url`."""
_WORD_START: Final = r"(?:s?|[\w-]{0,30}(?-i:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z])))"
"""What stands between the name and such a word: a plural, or text up to the start of a word."""
_ASSIGNMENT: Final = re.compile(
    rf"(?P<name>{_SECRET_NAMES})(?!{_WORD_START}{_HARMLESS_WORDS})[\w-]{{0,30}}"
    r"[\"'`\])]{0,3}\s{0,4}"
    r"(?::=|=>|[=!]==?|=|:\s{0,3}[\w.\[\]| ]{1,40}=|:| is | was )\s{0,4}"
    r"(?:[a-zA-Z@]{0,2}(?P<quote>[\"'`])(?P<quoted>(?:(?!(?P=quote)).){1,300})(?P=quote)"
    r"|(?P<bare>[^\s\"'`,;()<>{}\[\]|&]{1,300}+)(?![(\[{]))",
    re.IGNORECASE,
)
"""A name for a secret, an assignment or comparison, and the value, in quotation marks or bare."""
_ATTRIBUTE: Final = re.compile(r"[A-Za-z_]\w*(?:\??\.[A-Za-z_]\w*)+")
"""A dotted name in code, such as `ed25519.Ed25519PrivateKey`."""
_URL: Final = re.compile(
    r"(?<=://)(?P<user>[^\s:/?#@\"'`<>]{0,100}):(?P<value>[^\s/@\"'`<>]{1,200})@[^\s\"'`<>/]{1,100}"
)
"""A user and a password in a URL, `user:password@host`."""


def detect_assigned_secrets(line: str) -> Iterator[Detection]:
    """Find passwords in URLs, and secrets that are assigned to a name or field in the text."""
    for match in _URL.finditer(line):
        if not is_sample_password(match["value"], match["user"]):
            yield Detection("password in a URL", *match.span())
    for match in _ASSIGNMENT.finditer(line):
        if is_secret(_get_assigned_text(match)):
            kind = "password" if "pass" in match["name"].lower() else "secret key or token"
            yield Detection(kind, *match.span())


def _get_assigned_text(match: re.Match[str]) -> str:
    """Return the assigned text, or an empty string if a name in code is assigned."""
    quoted: str | None = match["quoted"]
    if quoted is not None:
        return quoted
    bare: str = match["bare"].rstrip(".:!?*")
    return "" if _ATTRIBUTE.fullmatch(bare) else bare


# HTTP headers

_HEADER_WORD: Final = re.compile(r"basic|bearer|authorization|cookie|curl", re.IGNORECASE)
"""Every header with a credential contains a match, for a quick check."""
_AUTHORIZATION: Final = re.compile(
    r"(?:\bauthorization[\"']?\s{0,3}[:=,]\s{0,3}[\"']?(?P<named>basic|bearer|token|apikey)"
    r"|\b(?P<alone>basic|bearer)) {1,3}(?P<value>[\w.~+/=-]{8,}+)(?![{<$(*])",
    re.IGNORECASE | re.ASCII,
)
"""The value of an Authorization header, or a scheme and a value without the header's name."""
_MIN_TOKEN_LENGTH: Final = 16
"""A token in an Authorization header has at least this many characters. Shorter ones are usually
samples."""
_COOKIE_VALUE: Final = r"(?:=|: ?)[\"']?([^\s;,\"'`<>{}()\[\]$]{0,4096}+)"
"""The value of a cookie. A browser accepts cookies of up to 4,096 bytes (RFC 6265, 6.1)."""
_COOKIES: Final = re.compile(
    r"(?:\b(?:set[-_]?)?cookies?\b[\"'`)\]]{0,2}\s{0,3}[:=,]?|\bcurl\b[^|;]{0,200}? -b)"
    r"\s{0,3}[\"'`(\[{]{0,3}"
    rf"(?P<pairs>(?:[\"']?[\w.%-]{{1,64}}+[\"']?{_COOKIE_VALUE}[\"']?[;,]? ?)++)",
    re.IGNORECASE | re.ASCII,
)
"""A Cookie header, curl's option for it, or a variable with cookies, and the cookies."""
_COOKIE: Final = re.compile(rf"[\w.%-]{{1,64}}+[\"']?{_COOKIE_VALUE}", re.ASCII)
"""One cookie: its name and its value."""
_MIN_COOKIE_LENGTH: Final = 20
"""A session id has at least this many characters. The samples in RFC 6265 and MDN are shorter."""


def detect_headers(line: str) -> Iterator[Detection]:
    """Find credentials in Authorization headers, and session cookies."""
    if not _HEADER_WORD.search(line):
        return
    for match in _AUTHORIZATION.finditer(line):
        if _is_credential(match):
            yield Detection("token in an Authorization header", *match.span())
    for match in _COOKIES.finditer(line):
        if any(map(_is_session, _COOKIE.finditer(match["pairs"]))):
            yield Detection("cookie", *match.span())


def _is_credential(match: re.Match[str]) -> bool:
    """Return whether a match of `_AUTHORIZATION` contains a password or token that looks real."""
    scheme: str = match["named"] or match["alone"]
    value: str = match["value"]
    if scheme.lower() == "basic":
        user, colon, password = _decode_base64(value).partition(":")
        # Without the name of the header, "basic" may be a word in prose before any other word.
        if colon or match["alone"]:
            return bool(colon) and not is_sample_password(password, user)
    return len(value) >= _MIN_TOKEN_LENGTH and is_secret(value)


def _decode_base64(value: str) -> str:
    """Decode a text, or return an empty string if the result is not printable."""
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return text if text.isprintable() else ""


def _is_session(cookie: re.Match[str]) -> bool:
    """Return whether the value of a cookie looks like the id of a session."""
    return len(cookie[1]) >= _MIN_COOKIE_LENGTH and is_secret(cookie[1])


# Shell commands

_ARGUMENT: Final = r"[\"']?([^\s\"'<>{}\[\]$]{1,300})"
"""An argument of a command that may be a password. Variables such as `$PASSWORD` are not."""
_OPTIONS: Final = r"\b[^|;&]{0,200}? "
"""What may stand between a command and its option with the password, within the same command."""
_LOGIN_PAIR: Final = r"[ =]?[\"']?[^\s:\"']{1,64}:([^\s\"']{1,200})"
"""A user and a password, `user:password`."""
_LOGIN: Final = r"(?:docker|podman|helm registry|skopeo|oc|az|cf|argocd) login"
"""The commands that sign in with `-p PASSWORD`."""
_COMMAND_WORD: Final = re.compile(r"--[A-Za-z]| -[pawPuU]|\bpass:|\bsudo\b|\blogin\b")
"""Every command with a password contains a match, for a quick check."""
_LONG_OPTION: Final = re.compile(
    rf"(?:--[\w-]{{0,20}}(?:{_SECRET_NAMES})|\blogin \S{{1,64}}+ password) {{1,4}}{_ARGUMENT}",
    re.IGNORECASE,
)
"""An option such as `--db-password ...`, or a line of a .netrc file."""
_SHORT_OPTIONS: Final = tuple(
    re.compile(form)
    for form in (
        rf"\b(?:mysql|mariadb)[\w-]{{0,12}}{_OPTIONS}-p{_ARGUMENT}",
        rf"\b(?:{_LOGIN}|mongo\w{{0,7}}|sshpass|twine upload){_OPTIONS}-p[ =]?{_ARGUMENT}",
        rf"\bredis-cli{_OPTIONS}-a ?{_ARGUMENT}",
        rf"\bldap\w{{3,7}}{_OPTIONS}-w ?{_ARGUMENT}",
        rf"\b(?:sqlcmd|bcp|(?:un)?zip){_OPTIONS}-P ?{_ARGUMENT}",
        rf"\b7z[ar]?{_OPTIONS}-p{_ARGUMENT}",
        rf"\bopenssl{_OPTIONS}(?:-pass(?:in|out)? )?pass:{_ARGUMENT}",
        rf"\becho (?:-n )?{_ARGUMENT}[\"']? ?\| ?sudo\b",
        rf"\bcurl\b[^|;]{{0,300}}? (?:-u|--user|-U|--proxy-user){_LOGIN_PAIR}",
        rf"\bhttps?{_OPTIONS}(?:-a|--auth){_LOGIN_PAIR}",
    )
)
"""The one-letter options with which particular commands take passwords. In other commands, the same
letters mean something else (`docker run -p 80:80`)."""


def detect_command_passwords(line: str) -> Iterator[Detection]:
    """Find passwords among the arguments of shell commands."""
    if not _COMMAND_WORD.search(line):
        return
    for form in (_LONG_OPTION, *_SHORT_OPTIONS):
        for match in form.finditer(line):
            if is_secret(match[1]):
                yield Detection("password in a command", *match.span())


# Private keys

_KEY_HEADER: Final = re.compile(
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)? ?-{4,5}|PuTTY-User-Key-File-\d"
)
_KEY_BODY: Final = re.compile(r"[A-Za-z0-9+/]{32,}+")
"""A part of a key in base64."""
_MAX_HEADER_LINES: Final = 12
"""PGP and PuTTY put at most this many lines between the header and the key."""
_MAX_CHARACTERS_SEARCHED: Final = 400
"""This many characters of a line are searched for the key, because a line may be long."""


def find_private_keys(lines: Sequence[str]) -> Iterator[int]:
    """Yield the indexes of the lines on which a private key begins.

    A header without a key, as in code that parses keys, is not a secret.
    """
    for index, line in enumerate(lines):
        for header in _KEY_HEADER.finditer(line):
            following = lines[index + 1 : index + 1 + _MAX_HEADER_LINES]
            if any(map(_has_key, [line[header.end() :], *following])):
                yield index
                break


def _has_key(text: str) -> bool:
    """Return whether a line contains encoded data that is not a placeholder."""
    keys = _KEY_BODY.findall(text[:_MAX_CHARACTERS_SEARCHED])
    return not all(map(is_placeholder, keys))
