"""Detects secrets by their context: assignments, URLs, headers, commands, private key blocks.

Secrets with a format of their own are detected in `shared.screening.tokens`. Repetitions in the
expressions are bounded or possessive, because a line may be long and untrusted.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

from shared.screening.detection import Rule
from shared.screening.placeholders import is_placeholder, is_sample_password, is_secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAMES: Final = (
    r"(?:account|api|auth|client|database|db|iam|priv(?:ate)?|service)[_ -]?key"
    r"|(?:db|database|key)[_ -]?pass|passw(?:or)?d|pwd|secret|contrase[ñn]a|access[_-]?key"
    r"|pass[_-]?phrase|credential|token(?!iz)|_pass(?![a-z])|auth(?=[\"']? ?[:=])"
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
    rf"(?P<name>{_NAMES})(?!{_WORD_START}{_HARMLESS_WORDS})[\w-]{{0,30}}"
    r"[\"'`\])]{0,3}\s{0,4}"
    r"(?::=|=>|[=!]==?|=|:\s{0,3}[\w.\[\]| ]{1,40}=|:| is | was )\s{0,4}"
    r"(?:[a-zA-Z@]{0,2}(?P<quote>[\"'`])(?P<quoted>(?:(?!(?P=quote)).){1,300})(?P=quote)"
    r"|(?P<bare>[^\s\"'`,;()<>{}\[\]|&]{1,300}+)(?![(\[{]))",
    re.IGNORECASE,
)
"""A name for a secret, an assignment or comparison, and the value, in quotation marks or bare."""
_URL: Final = re.compile(
    r"(?<=://)(?P<user>[^\s:/?#@\"'`<>]{0,100}):(?P<value>[^\s/@\"'`<>]{1,200})@[^\s\"'`<>/]{1,100}"
)
"""A user and a password in a URL, `user:password@host`."""
_AUTHORIZATION: Final = re.compile(
    r"(?:\bauthorization[\"']?\s{0,3}[:=,]\s{0,3}[\"']?(?P<named>basic|bearer|token|apikey)"
    r"|\b(?P<alone>basic|bearer)) {1,3}(?P<value>[\w.~+/=-]{8,}+)(?![{<$(*])",
    re.IGNORECASE | re.ASCII,
)
"""The value of an Authorization header, or a scheme and a value without the header's name."""
_COOKIE: Final = r"[\w.%-]{1,64}+[\"']?(?:=|: ?)[\"']?([^\s;,\"'`<>{}()\[\]$]{0,4096}+)"
"""The name and the value of a cookie, of up to 4,096 bytes (RFC 6265, 6.1)."""
_COOKIES: Final = re.compile(
    r"(?:\b(?:set[-_]?)?cookies?\b[\"'`)\]]{0,2}\s{0,3}[:=,]?|\bcurl\b[^|;]{0,200}? -b)"
    rf"\s{{0,3}}[\"'`(\[{{]{{0,3}}(?P<pairs>(?:[\"']?{_COOKIE}[\"']?[;,]? ?)++)",
    re.IGNORECASE | re.ASCII,
)
"""A Cookie header, curl's option for it, or a variable with cookies, and the cookies."""
_MIN_COOKIE_LENGTH: Final = 20
"""A session id has at least this many characters. The samples in RFC 6265 and MDN are shorter."""
_ARGUMENT: Final = r"[\"']?([^\s\"'<>{}\[\]$]{1,300})"
"""An argument of a command that may be a password. Variables such as `$PASSWORD` are not."""
_OPTIONS: Final = r"\b[^|;&]{0,200}? "
"""What may stand between a command and its option with the password, within the same command."""
_LOGIN_PAIR: Final = r"[ =]?[\"']?[^\s:\"']{1,64}:([^\s\"']{1,200})"
"""A user and a password, `user:password`."""
_LOGIN: Final = r"(?:docker|podman|helm registry|skopeo|oc|az|cf|argocd) login"
"""The commands that sign in with `-p PASSWORD`."""
_COMMANDS: Final = (
    # An option such as `--db-password ...`, or a line of a .netrc file
    rf"(?i:--[\w-]{{0,20}}(?:{_NAMES})|\blogin \S{{1,64}}+ password) {{1,4}}{_ARGUMENT}",
    # One-letter options. In other commands, they mean something else (`docker run -p 80:80`).
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
"""Shell commands with a password, which is the only group."""


def _classify_url(match: re.Match[str]) -> str | None:
    is_sample = is_sample_password(match["value"], match["user"])
    return None if is_sample else "password in a URL"


def _classify_assignment(match: re.Match[str]) -> str | None:
    value: str = match["quoted"] or match["bare"].rstrip(".:!?*")
    kind = "password" if "pass" in match["name"].lower() else "secret key or token"
    return kind if is_secret(value) else None


def _classify_authorization(match: re.Match[str]) -> str | None:
    scheme: str = match["named"] or match["alone"]
    value: str = match["value"]
    is_credential = is_secret(value)
    if scheme.lower() == "basic":
        user, colon, password = _decode_base64(value).partition(":")
        # Without the name of the header, "basic" may be a word in prose before any other word.
        if colon or match["alone"]:
            is_credential = bool(colon) and not is_sample_password(password, user)
    return "token in an Authorization header" if is_credential else None


def _decode_base64(value: str) -> str:
    """Decode a text, or return an empty string if the result is not printable."""
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return text if text.isprintable() else ""


def _classify_cookies(match: re.Match[str]) -> str | None:
    values: list[str] = re.findall(_COOKIE, match["pairs"], re.ASCII)
    is_session = any(len(value) >= _MIN_COOKIE_LENGTH and is_secret(value) for value in values)
    return "cookie" if is_session else None


def _classify_argument(match: re.Match[str]) -> str | None:
    return "password in a command" if is_secret(match[1]) else None


CREDENTIALS: Final = (
    Rule(
        _classify_authorization,
        _AUTHORIZATION,
        hint=re.compile("basic|bearer|authorization", re.IGNORECASE),
    ),
    Rule(_classify_cookies, _COOKIES, hint=re.compile("cookie|curl", re.IGNORECASE)),
    Rule(_classify_url, _URL),
    Rule(_classify_assignment, _ASSIGNMENT),
    Rule(
        _classify_argument,
        *map(re.compile, _COMMANDS),
        hint=re.compile(r"--[A-Za-z]| -[pawPuU]|\bpass:|\bsudo\b|\blogin\b"),
    ),
)
"""Rules for secrets in one line."""
_KEY_HEADER: Final = re.compile(
    r"-{4,5} ?BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)? ?-{4,5}|PuTTY-User-Key-File-\d"
)
_KEY_BODY: Final = re.compile(r"[A-Za-z0-9+/]{32,}+")
_MAX_HEADER_LINES: Final = 12
"""PGP and PuTTY put at most this many lines between the header and the key."""


def find_private_keys(lines: Sequence[str]) -> Iterator[int]:
    """Yield the numbers, from 1, of the lines on which a private key begins.

    A header without a key, as in code that parses keys, is not a secret.
    """
    for number, line in enumerate(lines, start=1):
        if header := _KEY_HEADER.search(line):
            following = lines[number : number + _MAX_HEADER_LINES]
            bodies = _KEY_BODY.findall("\n".join([line[header.end() :], *following]))
            if not all(map(is_placeholder, bodies)):
                yield number
