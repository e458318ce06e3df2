"""Detects personal data: e-mail addresses, names in paths, and numbers of cards and accounts.

Data that is reserved for examples, common in documentation or invented is not reported.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stdnum import iban, luhn
from stdnum.us import ssn

from shared.screening.detection import Detection

if TYPE_CHECKING:
    from collections.abc import Iterator

_ADDRESS: Final = re.compile(
    r"(?<![\w.+%-])(?P<local>[\w.+%-]{1,64})@(?P<domain>(?:[A-Za-z0-9-]{1,63}\.){1,8}"
    r"(?P<top>[A-Za-z]{2,24}|xn--[a-z0-9-]{2,59}))(?![\w(\[@/-]|\.\w)",
    re.ASCII,
)
"""An email address, unless a path, a call or an index follows, as in code."""
_MAIL_DOMAINS: Final = re.compile(
    r"[a-z]{2}|xn--.*|academy|agency|aero|app|art|biz|blog|cloud|club|codes|com|company|consulting"
    r"|coop|design|dev|digital|edu|email|engineering|finance|global|gmbh|gov|group|health|info|int"
    r"|jobs|life|live|ltd|media|mil|mobi|museum|name|net|network|news|one|online|org|page|post|pro"
    r"|science|services|shop|site|software|solutions|space|store|studio|systems|team|tech"
    r"|technology|today|tools|top|website|wiki|work|works|world|xyz|zone",
    re.IGNORECASE,
)
"""Top-level domains under which people have mailboxes. An `@` before any other suffix is code, such
as the matrix product `x@self.weight`."""
_RESERVED_DOMAIN: Final = re.compile(
    r"(?:^|\.)(?:example(?:\.[a-z]{2,3}){0,2}|test|invalid|localhost|local|internal|domain\.com"
    r"|(?:my|your|some)?-?(?:company|domain|host|server|email|mail|site)\.(?:com|org|net|io|dev)"
    r"|(?:email|test)\.com|foo\.(?:com|bar)|bar\.com|users\.noreply\.github\.com|gserviceaccount\.com)$",
    re.IGNORECASE,
)
"""Domains that are reserved by RFC 2606 and RFC 6761, common in samples, or without mailboxes of
people."""
_IMPERSONAL: Final = re.compile(
    r"git|hg|svn|root|ubuntu|ec2-user|.*no-?_?reply.*|do-?not-?reply|info|support|sales|contact"
    r"|marketing|abuse|noc|security|postmaster|hostmaster|usenet|news|webmaster|www|uucp|ftp"
    r"|mailer-daemon|admin|hello|help|team|billing|privacy|legal|press|feedback|jobs|careers|office"
    r"|bot|ci|j(?:ohn|ane)(?:[._-]?doe)?|foo|bar|test\w{0,9}|name|email|you|your[._-]?\w{0,20}|user(?:name)?\d{0,3}|someone|somebody|xxx+|.*\[bot\]",
    re.IGNORECASE,
)
"""Mailboxes of roles (RFC 2142), system accounts and samples."""
_VERSION: Final = re.compile(r"v?\d+\.\d")
"""The beginning of a version after an `@`, as in `package@1.2.io`."""
_HOME_FOLDER: Final = re.compile(
    r"(?:(?<![\w.-])/(?-i:home|Users)/(?=[^\s/]{1,99}/)"
    r"|\b[A-Z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/))"
    r"(?P<first>[^\W\d_]{2,30})(?P<between>[. ])(?P<last>[^\W\d_]{3,30}(?:-[^\W\d_]{2,30})?)"
    r"(?=[\\/>])",
    re.IGNORECASE,
)
"""A home folder whose name consists of two words, such as `/home/anna.meier/`."""
_ROLE_NAME: Final = re.compile(
    r"admin\w*|all|any|app|build|company|default|demo|dev|domain|doe|example|first(?:name)?|guest"
    r"|last(?:name)?|local\w*|my|name|net|network|public|root|sample|service|shared|some|surname"
    r"|test\w*|user\w*|your\w*",
    re.IGNORECASE,
)
"""Words that are not a person's name, such as those of roles, systems and samples."""


def detect_addresses(line: str) -> Iterator[Detection]:
    """Find e-mail addresses of people."""
    if "@" not in line:
        return
    for match in _ADDRESS.finditer(line):
        domain = match["domain"]
        is_exempt = _RESERVED_DOMAIN.search(domain) or _VERSION.match(domain)
        is_mail = _MAIL_DOMAINS.fullmatch(match["top"]) and not is_exempt
        if is_mail and not _IMPERSONAL.fullmatch(match["local"]):
            yield Detection("e-mail address", *match.span())


def detect_home_folders(line: str) -> Iterator[Detection]:
    """Find a first name and a surname in the path of a home folder.

    A single name is allowed, because almost every traceback contains one. Such a name may be common
    to many people (`/home/anna`, `/Users/hmeier`), or belong to a system (`/home/runner`) or a web
    page (`/home/dashboard`).
    """
    if "home/" not in line and "sers" not in line:  # a quick check for `Users` and `users`
        return
    for match in _HOME_FOLDER.finditer(line):
        names = match["first"], match["last"]
        is_site = match["between"] == "." and _MAIL_DOMAINS.fullmatch(match["last"])
        if not is_site and not any(map(_ROLE_NAME.fullmatch, names)):
            yield Detection("a person's name in a path", *match.span())


_CARD: Final = re.compile(r"(?<![\w.+-])(?<!\d )\d(?:[ -]?\d){12,18}(?![\w-]|[. ]\d)", re.ASCII)
"""A number with as many digits as a payment card (ISO/IEC 7812 allows up to 19)."""
_ISSUER_RANGES: Final = re.compile(
    r"4\d{15}"  # Visa
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|[689]\d)\d{11}"  # Diners Club
    r"|(?:6011|64[4-9]\d|65\d\d|352[89]|35[3-8]\d|62\d\d)\d{12}"  # Discover, JCB, UnionPay
)
"""The numbers that issuers of payment cards assign."""
_TEST_CARDS: Final = re.compile(
    r"4000[0-9]{4}\d{8}|4(?:242){5}|4111111111111111|4012888888881881|42222222222222\d\d"
    r"|4917610000000000|5[12]05105105105100|5200828282828210|55555555555\d{5}|5454545454545454"
    r"|2223003122003222|2223000048400011|378282246310005|371449635398431|378734493671000"
    r"|6011(?:1{11}7|000990139424|9{12})|6011981111111113|3056930009020004|30569309025904"
    r"|38520000023237|36227206271667|3530111333300000|35660020203605\d\d|6200000000000\d{3}"
    r"|6555900000604105"
)
"""Test cards from the documentation of payment services."""
_MAX_INVENTED_DIGITS: Final = 3
"""A card number with at most this many different digits counts as invented."""
_ACCOUNT: Final = re.compile(
    r"(?<![\w/+=-])[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}(?![\w/+=-])", re.ASCII
)
"""A text in the format of an IBAN (ISO 13616), with or without spaces."""
_SAMPLE_ACCOUNTS: Final = frozenset(
    {
        "DE89370400440532013000",
        "GB29NWBK60161331926819",
        "GB82WEST12345698765432",
        "GB33BUKB20201555555555",
        "FR1420041010050500013M02606",
        "NL91ABNA0417164300",
        "CH9300762011623852957",
        "ES9121000418450200051332",
        "IT60X0542811101000000123456",
        "AT611904300234573201",
        "BE68539007547034",
    }
)
"""Sample accounts from the IBAN registry and Wikipedia."""
_SOCIAL_SECURITY: Final = re.compile(r"(?<![\w.-])\d{3}-\d{2}-\d{4}(?![\w-])", re.ASCII)
_SAMPLE_SOCIAL_SECURITY: Final = frozenset(
    {"123-45-6789", "987-65-4321", "111-11-1111", "111-22-3333"}
)
"""US social security numbers that are common in documentation."""


def detect_numbers(line: str) -> Iterator[Detection]:
    """Find payment cards, bank accounts (IBAN) and US social security numbers."""
    for match in _CARD.finditer(line):
        if _is_card(re.sub(r"[ -]", "", match[0])):
            yield Detection("payment card number", *match.span())
    for match in _ACCOUNT.finditer(line):
        if _is_account(match[0].replace(" ", "")):
            yield Detection("bank account number (IBAN)", *match.span())
    for match in _SOCIAL_SECURITY.finditer(line):
        if match[0] not in _SAMPLE_SOCIAL_SECURITY and ssn.is_valid(match[0]):
            yield Detection("US social security number", *match.span())


def _is_card(digits: str) -> bool:
    """Return whether digits are the number of a real card: of an issuer, and with a valid check."""
    is_invented = len(set(digits)) <= _MAX_INVENTED_DIGITS or _TEST_CARDS.fullmatch(digits)
    return bool(_ISSUER_RANGES.fullmatch(digits)) and not is_invented and luhn.is_valid(digits)


def _is_account(compact: str) -> bool:
    return compact not in _SAMPLE_ACCOUNTS and iban.is_valid(compact)
