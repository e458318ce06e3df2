"""Detects personal data: e-mail addresses, names in paths, and numbers of cards and accounts.

Data that is reserved for examples, common in documentation or invented is not reported.
"""

from __future__ import annotations

import re
from typing import Final

from stdnum import iban, luhn
from stdnum.us import ssn

from shared.screening.detection import Rule

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
    r"|(?:email|test)\.com|foo\.(?:com|bar)|bar\.com|users\.noreply\.github\.com"
    r"|gserviceaccount\.com)$|^v?\d+\.\d",
    re.IGNORECASE,
)
"""Domains that are reserved by RFC 2606 and RFC 6761, common in samples, or without mailboxes of
people, and versions, as in `package@1.2.io`."""
_IMPERSONAL: Final = re.compile(
    r"git|hg|svn|root|ubuntu|ec2-user|.*no-?_?reply.*|do-?not-?reply|info|support|sales|contact"
    r"|marketing|abuse|noc|security|postmaster|hostmaster|usenet|news|webmaster|www|uucp|ftp"
    r"|mailer-daemon|admin|hello|help|team|billing|privacy|legal|press|feedback|jobs|careers|office"
    r"|bot|ci|j(?:ohn|ane)(?:[._-]?doe)?|foo|bar|test\w{0,9}|name|email|you|your[._-]?\w{0,20}"
    r"|user(?:name)?\d{0,3}|someone|somebody|xxx+|.*\[bot\]",
    re.IGNORECASE,
)
"""Mailboxes of roles (RFC 2142), system accounts and samples."""
_HOME_FOLDER: Final = re.compile(
    r"(?:(?<![\w.-])/(?-i:home|Users)/(?=[^\s/]{1,99}/)"
    r"|\b[A-Z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/))"
    r"(?P<first>[^\W\d_]{2,30})(?P<between>[. ])(?P<last>[^\W\d_]{3,30}(?:-[^\W\d_]{2,30})?)"
    r"(?=[\\/>])",
    re.IGNORECASE,
)
"""A home folder whose name consists of two words, such as `/home/anna.meier/`. A single name is
allowed: almost every traceback contains one, and it is common to many people (`/home/anna`), or
belongs to a system (`/home/runner`) or a web page (`/home/dashboard`)."""
_ROLE_NAME: Final = re.compile(
    r"admin\w*|all|any|app|build|company|default|demo|dev|domain|doe|example|first(?:name)?|guest"
    r"|last(?:name)?|local\w*|my|name|net|network|public|root|sample|service|shared|some|surname"
    r"|test\w*|user\w*|your\w*",
    re.IGNORECASE,
)
"""Words that are not a person's name, such as those of roles, systems and samples."""
_CARD: Final = re.compile(r"(?<![\w.+-])(?<!\d )\d(?:[ -]?\d){12,18}(?![\w-]|[. ]\d)", re.ASCII)
"""A number with as many digits as a payment card (ISO/IEC 7812 allows up to 19)."""
_ISSUER_RANGES: Final = re.compile(
    r"(?:4\d|5[1-5]|2[2-7]|6[024-5]|35)\d{14}|3[47]\d{13}|3[0689]\d{12}"
)
"""The numbers that issuers of payment cards assign: Visa, Mastercard, Discover, JCB and UnionPay,
then American Express and Diners Club."""
_TEST_CARDS: Final = re.compile(
    r"4000\d{12}|4012888888881881|5200828282828210|22230031220032\d\d|2223000048400011"
    r"|378282246310005|371449635398431|378734493671000|6011000990139424|3056930009020004"
    r"|30569309025904|38520000023237|36227206271667|35660020203605\d\d|6555900000604105"
)
"""Test cards from the documentation of payment services."""
_MAX_INVENTED_DIGITS: Final = 3
"""A card number with at most this many different digits counts as invented."""
_ACCOUNT: Final = re.compile(
    r"(?<![\w/+=-])[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}(?![\w/+=-])", re.ASCII
)
"""A text in the format of an IBAN (ISO 13616), with or without spaces."""
_SAMPLE_ACCOUNTS: Final = (
    "DE89370400440532013000 GB29NWBK60161331926819 GB82WEST12345698765432 GB33BUKB20201555555555"
    " FR1420041010050500013M02606 NL91ABNA0417164300 CH9300762011623852957 ES9121000418450200051332"
    " IT60X0542811101000000123456 AT611904300234573201 BE68539007547034"
)
"""Sample accounts from the IBAN registry and Wikipedia."""
_SOCIAL_SECURITY: Final = re.compile(r"(?<![\w.-])\d{3}-\d{2}-\d{4}(?![\w-])", re.ASCII)
_SAMPLE_SOCIAL_SECURITY: Final = "123-45-6789 987-65-4321 111-11-1111 111-22-3333"
"""US social security numbers that are common in documentation."""


def _classify_address(match: re.Match[str]) -> str | None:
    is_mail = _MAIL_DOMAINS.fullmatch(match["top"])
    is_exempt = _RESERVED_DOMAIN.search(match["domain"]) or _IMPERSONAL.fullmatch(match["local"])
    return "e-mail address" if is_mail and not is_exempt else None


def _classify_home_folder(match: re.Match[str]) -> str | None:
    is_role = _ROLE_NAME.fullmatch(match["first"]) or _ROLE_NAME.fullmatch(match["last"])
    is_site = match["between"] == "." and _MAIL_DOMAINS.fullmatch(match["last"])
    return None if is_role or is_site else "a person's name in a path"


def _classify_card(match: re.Match[str]) -> str | None:
    digits = re.sub(r"[ -]", "", match[0])
    is_invented = len(set(digits)) <= _MAX_INVENTED_DIGITS or _TEST_CARDS.fullmatch(digits)
    is_assigned = _ISSUER_RANGES.fullmatch(digits) and luhn.is_valid(digits)
    return "payment card number" if is_assigned and not is_invented else None


def _classify_account(match: re.Match[str]) -> str | None:
    account = match[0].replace(" ", "")
    is_real = iban.is_valid(account) and account not in _SAMPLE_ACCOUNTS
    return "bank account number (IBAN)" if is_real else None


def _classify_social_security(match: re.Match[str]) -> str | None:
    is_real = ssn.is_valid(match[0]) and match[0] not in _SAMPLE_SOCIAL_SECURITY
    return "US social security number" if is_real else None


PERSONAL_DATA: Final = (
    Rule(_classify_address, _ADDRESS, hint=re.compile("@")),
    Rule(_classify_home_folder, _HOME_FOLDER, hint=re.compile("home/|sers")),
    Rule(_classify_card, _CARD),
    Rule(_classify_account, _ACCOUNT),
    Rule(_classify_social_security, _SOCIAL_SECURITY),
)
