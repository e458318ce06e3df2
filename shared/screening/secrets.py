"""Detects secrets: by the formats of tokens, or by their context, such as assignments and commands.

Repetitions in the expressions are bounded or possessive, because a line may be long and untrusted.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Final

from shared.core.base64url import from_base64url
from shared.screening.placeholders import is_placeholder, is_sample_password, is_secret
from shared.screening.rules import Rule, when

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FORMATS: Final = {
    "1Password service account token": r"ops_eyJ[\w+/=-]{80,}+",
    "age key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "AI provider's key": r"(?:sk-(?:[a-z0-9]{1,12}-){0,3}|xai-|gsk_|pplx-|r8_|tgp_v1_)"
    r"(?=[\w-]{0,80}\d)[\w-]{32,}+",
    "Artifactory key": r"AKC(?=[A-Za-z]{0,80}\d)[A-Za-z0-9]{10,}+"
    r"|AP[0-9A-F](?=[A-Za-z]{0,80}\d)[A-Za-z0-9]{30,}+",
    "Atlassian token": r"ATATT3[\w=-]{60,}+",
    "AWS access key": r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}",
    "AWS secret key": r"(?i:aws.{0,20}?(?:key|pass|pw|token).{0,20}?)[\"'=: ][\w/+]{40}(?![\w/+=])",
    "Azure client secret": r"[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])",
    "Carrel access key": r"carrel_[0-9a-f]{12}_[\w-]{43,}+",
    "Databricks token": r"dapi[0-9a-f]{32}(?:-\d)?",
    "DigitalOcean token": r"do[opr]_v1_[0-9a-f]{64}",
    "Discord bot token": r"[MNO](?=[\w.-]{0,60}\d)[\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}+",
    "Discord webhook": r"https://discord(?:app)?\.com/api/webhooks/\d{17,20}/[\w-]{60,}+",
    "Docker Hub token": r"dckr_[op]at_[\w-]{27,}+",
    "Doppler token": r"dp\.(?:pt|st|ct|sa)\.[\w.-]{40,}+",
    "Figma token": r"fig[dor]_[\w-]{40,}+",
    "Fly.io token": r"(?:fo1_[\w-]{43}|fm[12][ar]?_[\w+/=-]{100,}+)",
    "GitHub fine-grained token": r"github_pat_\w{22}_\w{59}",
    "GitHub token": r"gh[pousr]_[A-Za-z0-9_]{36}",
    "GitLab token": r"(?:gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-|GR1348941)[\w-]{20,}+",
    "Google API key": r"AIza[\w-]{35}(?![\w-])",
    "Google OAuth client secret": r"GOCSPX-[\w-]{28}",
    "Google OAuth token": r"(?:ya29\.[\w.-]{30,}+|1//0[\w-]{40,}+)",
    "Grafana token": r"gl(?:sa_\w{32}_[0-9a-f]{8}|c_eyJ[\w+/=-]{60,}+)",
    "Hashicorp Terraform token": r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}+",
    "Hashicorp Vault token": r"hv[sbr]\.[\w-]{24,}+",
    "Heroku key": r"HRKU-[\w-]{36,}+",
    "Hugging Face token": r"(?:hf|api_org)_[A-Za-z0-9]{34}(?!\w)",
    "Linear key": r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}+",
    "Mailchimp key": r"[0-9a-z]{32}-us\d{1,2}",
    "Mailgun key": r"key-[0-9a-f]{32}(?!\w)",
    "Netlify token": r"nf[pcu]_[A-Za-z0-9]{36,}+",
    "New Relic key": r"NRAK-[A-Z0-9]{27}",
    "Notion token": r"ntn_\d{11}[A-Za-z0-9]{35}",
    "npm token": r"npm_[A-Za-z0-9]{36}(?!\w)",
    "PlanetScale password or token": r"pscale_(?:tkn|oauth|pw)_[\w.=-]{32,}+",
    "Postman key": r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    "Pulumi token": r"pul-[0-9a-f]{40}",
    "PyPI token": r"pypi-AgE[\w-]{70,}+",
    "RubyGems key": r"rubygems_[0-9a-f]{48}",
    "SendGrid key": r"SG\.[\w-]{22}\.[\w-]{43}",
    "Sentry token": r"sntr(?:ys_eyJ[\w+/=-]{60,}+|yu_[0-9a-f]{64})",
    "Shopify token": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "Slack token or webhook": r"(?:xox[abporse]-(?:\d{1,20}-){1,6}[A-Za-z0-9]+"
    r"|xapp-\d-[A-Z0-9]+-\d+-[0-9a-f]{32,}+|xoxe(?:\.xox[bp])?-\d-[\w-]{50,}+"
    r"|https://hooks\.slack\.com/services/T\w+/B\w+/\w+)",
    "Square OAuth secret": r"sq0csp-[\w-]{43}",
    "Stripe key": r"[rs]k_live_[0-9a-zA-Z]{24}",
    "Stripe webhook secret": r"whsec_[A-Za-z0-9+/=]{32,}+",
    "Supabase key": r"sb(?:p_[0-9a-f]{40}|_secret_[\w-]{31,}+)",
    "Telegram bot token": r"\d{8,10}:AA[\w-]{33}(?![\w-])",
    "Twilio key": r"(?:AC|SK)[0-9a-f]{32}(?!\w)",
}
"""Formats from the issuers' documentation, by the kind that findings name. They take linear time:
an unbounded repetition is possessive or cannot start within itself. They have no groups."""
_KINDS: Final = tuple(_FORMATS)
_START: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Where a token may begin: not within a word, except after `\\n` in a quoted string."""
_FORMAT: Final = re.compile(f"{_START}(?:({')|('.join(_FORMATS.values())}))", re.ASCII)
"""All formats, each as a group: searched together, they take less time."""
_WEB_TOKEN: Final = re.compile(
    r"(?:(?<![\w-])|(?<=\\[nrt]))eyJ[\w-]{10,}+\.[\w-]{8,}+(?:\.[\w-]*+)?", re.ASCII
)
"""A text in the format of a JSON web token: base64 of an object, a payload and a signature."""
_SAMPLE_PAYLOAD: Final = "eyJzdWIiOiIxMjM0NTY3ODkwI"
"""The beginning of the payload of the sample token on jwt.io."""
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


def _classify_format(match: re.Match[str]) -> str | None:
    return None if is_placeholder(match[0]) else _KINDS[(match.lastindex or 1) - 1]


def _is_web_token(match: re.Match[str]) -> bool:
    try:
        for part in match[0].split(".")[:2]:
            json.loads(from_base64url(part))
    except (ValueError, RecursionError):  # real claims are never nested so deeply
        return False
    return _SAMPLE_PAYLOAD not in match[0]


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


def _is_session(match: re.Match[str]) -> bool:
    values: list[str] = re.findall(_COOKIE, match["pairs"], re.ASCII)
    return any(len(value) >= _MIN_COOKIE_LENGTH and is_secret(value) for value in values)


SECRETS: Final = (
    Rule(_classify_format, (_FORMAT,)),
    Rule(when("JSON web token", _is_web_token), (_WEB_TOKEN,)),
    Rule(
        _classify_authorization,
        (_AUTHORIZATION,),
        hint=re.compile("basic|bearer|authorization", re.IGNORECASE),
    ),
    Rule(when("cookie", _is_session), (_COOKIES,), hint=re.compile("cookie|curl", re.IGNORECASE)),
    Rule(
        when("password in a URL", lambda m: not is_sample_password(m["value"], m["user"])), (_URL,)
    ),
    Rule(_classify_assignment, (_ASSIGNMENT,)),
    Rule(
        when("password in a command", lambda match: is_secret(match[1])),
        tuple(map(re.compile, _COMMANDS)),
        hint=re.compile(r"--[A-Za-z]| -[pawPuU]|\bpass:|\bsudo\b|\blogin\b"),
    ),
)
"""Rules for secrets in one line, the most specific first."""
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
