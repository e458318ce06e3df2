"""E-mail addresses of people, and their names in paths."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from shared.screening.finding import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

_ADDRESS: Final = re.compile(
    r"(?<![\w.+%-])(?P<local>[\w.+%-]{1,64})@(?P<domain>(?:[A-Za-z0-9-]{1,63}\.){1,8}"
    r"(?P<top>[A-Za-z]{2,24}|xn--[a-z0-9-]{2,59}))(?![\w(\[@/-]|\.\w)",
    re.ASCII,
)
_TOPS: Final = re.compile(
    r"[a-z]{2}|xn--.*|academy|agency|aero|app|art|biz|blog|cloud|club|codes|com|company|consulting"
    r"|coop|design|dev|digital|edu|email|engineering|finance|global|gmbh|gov|group|health|info|int"
    r"|jobs|life|live|ltd|media|mil|mobi|museum|name|net|network|news|one|online|org|page|post|pro"
    r"|science|services|shop|site|software|solutions|space|store|studio|systems|team|tech"
    r"|technology|today|tools|top|website|wiki|work|works|world|xyz|zone",
    re.IGNORECASE,
)
"""Where mail comes from, as far as it is more than two letters: `x@self.weight` is a product."""
_RESERVED: Final = re.compile(
    r"(?:^|\.)(?:example(?:\.[a-z]{2,3}){0,2}|test|invalid|localhost|local|internal|domain\.com"
    r"|(?:my|your|some)?-?(?:company|domain|host|server|email|mail|site)\.(?:com|org|net|io|dev)"
    r"|(?:email|test)\.com|foo\.(?:com|bar)|bar\.com|users\.noreply\.github\.com|gserviceaccount\.com)$",
    re.IGNORECASE,
)
"""RFC 2606 and RFC 6761, what people write in their place, and what never reaches a person."""
_OF_NOBODY: Final = re.compile(
    r"git|hg|svn|root|ubuntu|ec2-user|.*no-?_?reply.*|do-?not-?reply|info|support|sales|contact"
    r"|marketing|abuse|noc|security|postmaster|hostmaster|usenet|news|webmaster|www|uucp|ftp"
    r"|mailer-daemon|admin|hello|help|team|billing|privacy|legal|press|feedback|jobs|careers|office"
    r"|bot|ci|j(?:ohn|ane)(?:[._-]?doe)?|foo|bar|test\w{0,9}|name|email|you|your[._-]?\w{0,20}|user(?:name)?\d{0,3}|someone|somebody|xxx+|.*\[bot\]",
    re.IGNORECASE,
)
"""Mailboxes of a role (RFC 2142), of a system's accounts, and of the documentation."""
_VERSION: Final = re.compile(r"v?\d+\.\d")
_HOME: Final = re.compile(
    r"(?:(?<![\w.-])/(?-i:home|Users)/(?=[^\s/]{1,99}/)"
    r"|\b[A-Z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/))"
    r"(?P<first>[^\W\d_]{2,30})(?P<between>[. ])(?P<last>[^\W\d_]{3,30}(?:-[^\W\d_]{2,30})?)"
    r"(?=[\\/>])",
    re.IGNORECASE,
)
_ROLE: Final = re.compile(
    r"admin\w*|all|any|app|build|company|default|demo|dev|domain|doe|example|first(?:name)?|guest"
    r"|last(?:name)?|local\w*|my|name|net|network|public|root|sample|service|shared|some|surname"
    r"|test\w*|user\w*|your\w*",
    re.IGNORECASE,
)


def addresses_in(line: str) -> Iterator[Place]:
    """Find the e-mail addresses of people."""
    if "@" not in line:
        return
    for match in _ADDRESS.finditer(line):
        exempt = _RESERVED.search(match["domain"]) or _VERSION.match(match["domain"])
        mail = _TOPS.fullmatch(match["top"]) and not exempt
        if mail and not _OF_NOBODY.fullmatch(match["local"]):
            yield Place("e-mail address", *match.span())


def home_folders_in(line: str) -> Iterator[Place]:
    """Find a first name and a surname in the path of somebody's home folder.

    One name alone (`/home/anna`, `/Users/hmeier`) may be anybody's, a system's (`/home/runner`) or
    a web page's (`/home/dashboard`), and is in almost every traceback: it is let through.
    """
    if "home/" not in line and "sers" not in line:
        return
    for match in _HOME.finditer(line):
        parts = match["first"], match["last"]
        site = match["between"] == "." and _TOPS.fullmatch(match["last"])
        if not site and not any(map(_ROLE.fullmatch, parts)):
            yield Place("a person's name in a path", *match.span())
