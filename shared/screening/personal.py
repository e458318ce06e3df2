"""E-mail addresses and phone numbers of people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from phonenumbers import (
    PhoneNumberMatcher,
    PhoneNumberType,
    national_significant_number,
    number_type,
)

from shared.screening.finding import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from phonenumbers import PhoneNumber

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

_CALLED: Final = re.compile(r"\+ ?\(?[1-9](?:[ ().-]{0,3}\d){6}")
_NATIONAL: Final = re.compile(
    r"(?<![a-z])(?:phone|mobile|cell|tel|call|fax|sms|whatsapp)(?![a-z]).{0,40}?"
    r"(?<!\d)\(?[2-9]\d\d\)?[ .-]{0,2}\d{3}[ .-]?\d{4}(?!\d)",
    re.IGNORECASE,
)
_OF_A_PERSON: Final = frozenset(
    {
        PhoneNumberType.FIXED_LINE,
        PhoneNumberType.MOBILE,
        PhoneNumberType.FIXED_LINE_OR_MOBILE,
        PhoneNumberType.PERSONAL_NUMBER,
        PhoneNumberType.PAGER,
        PhoneNumberType.VOIP,
    }
)
_FICTITIOUS: Final = {
    1: re.compile(r"\d{3}555\d{4}"),
    33: re.compile(r"[1-5]9900\d{5}|6399[89]\d{5}|[1-5]\d55\d{6}"),
    44: re.compile(r"7700900\d{3}|1632960\d{3}|2079460\d{3}|1\d\d49[68]0\d{3}|2920180\d{3}"),
    49: re.compile(r"(?:3023125|6990009|4066969|22147107|8999998)\d{2,4}"),
    61: re.compile(r"491570\d{3}|[2378]5550\d{4}|[2378]7010\d{4}"),
}
"""By country code, what regulators keep for films and documentation: NANPA (whose other 555
numbers are nobody's either), Arcep, Ofcom, Bundesnetzagentur, ACMA."""
_MADE_UP: Final = re.compile(r"123456|234567|(\d)\1{5}")


def addresses_in(line: str) -> Iterator[Place]:
    """Find the e-mail addresses of people."""
    if "@" not in line:
        return
    for match in _ADDRESS.finditer(line):
        exempt = _RESERVED.search(match["domain"]) or _VERSION.match(match["domain"])
        mail = _TOPS.fullmatch(match["top"]) and not exempt
        if mail and not _OF_NOBODY.fullmatch(match["local"]):
            yield Place("e-mail address", *match.span())


def phone_numbers_in(line: str) -> Iterator[Place]:
    """Find phone numbers of people: with their country's code, or American ones called a phone's.

    Other national forms are not to be told from any number in code.
    """
    called = _CALLED.search(line)
    if not (called or _NATIONAL.search(line)):
        return
    for match in PhoneNumberMatcher(line, None if called else "US"):
        if number_type(match.number) in _OF_A_PERSON and not _is_fictitious(match.number):
            yield Place("phone number", match.start, match.end)


def _is_fictitious(number: PhoneNumber) -> bool:
    digits = national_significant_number(number)
    fictitious = _FICTITIOUS.get(number.country_code or 0)
    return bool(_MADE_UP.search(digits) or (fictitious and fictitious.fullmatch(digits)))
