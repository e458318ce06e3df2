"""Detects personal data: e-mail addresses, names in paths, card, account and phone numbers.

Data that is reserved for examples, common in documentation or invented is not reported. A phone
number with a country code is recognized by itself. Without one, only a number after a word for a
phone is recognized, because it cannot be distinguished from other numbers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from phonenumbers import (
    NumberParseException,
    PhoneNumberMatcher,
    PhoneNumberType,
    national_significant_number,
    number_type,
    parse,
)
from stdnum import iban, luhn
from stdnum.us import ssn

from shared.screening.rules import Rule, when

if TYPE_CHECKING:
    from collections.abc import Iterator

    from phonenumbers import PhoneNumber

    from shared.screening.rules import Detection

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
_DIGITS: Final = re.compile(r"\d(?:[^\w\n]{0,4}\d){6}")
"""Every phone number contains a match, so that a quick check rules out most lines."""
_INTERNATIONAL: Final = re.compile(r"\+ ?\(?[1-9](?:[ ().-]{0,3}\d){6}")
"""The beginning of a number with `+` and a country code."""
_END: Final = r"(?![\w-]|[ .:/,]\d)"
"""Where a number ends: not before more digits or a word."""
_DIALLED_ABROAD: Final = re.compile(
    r"(?<![\w.+/-])(?<![0-9a-f]{4} )(00 ?[1-9]\d{0,2}[ /(-]{1,3}\d(?:[ /()-]{0,3}\d){5,12})"
    rf"{_END}(?! [0-9a-f]{{4}}\b)"
)
"""A number such as `0049 171 ...`. The space after the country code distinguishes phone numbers
from dumps and padded numbers."""
_PHONE_WORDS: Final = (
    r"phone|t[eé]l[eé](?:phone|fono?|fone|foon|fax)|mobil[eo]?|mobiel|m[oó]vil|celular|cellulare"
    r"|handy|rufnummer|fax|whatsapp|телефон|(?<![^\W_])(?:tel|gsm|sms|тел|моб)"
)
_WEAK_PHONE_WORDS: Final = (
    r"(?<![^\W_])(?:durchwahl|cell|call(?: (?:me|us|back|him|her))?(?: (?:at|on|under))?|signal"
    r"|portable|telegram)"
)
"""Words that often precede other numbers, too. After them, a phone number has a leading zero or is
grouped as in North America."""
_BETWEEN: Final = (
    r"(?:[ _-]?(?:numbers?|nummer|num|no|nr))?(?![^\W\d_])"
    r"[^\w\s]{0,3}\s{0,20}[\W_]{0,4}(?<![+-])"
)
"""What may stand between the word and the phone number: the word "number" and punctuation."""
_ZERO_NUMBER: Final = (
    rf"\(?(?:0[1-9](?:[ ./()-]{{0,3}}\d){{7,10}}|00[1-9](?:[ /()-]{{0,3}}\d){{8,13}}){_END}"
)
"""A number with a leading zero (national) or two (international)."""
_PLAIN_NUMBER: Final = (
    r"(?!\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d))"  # not an IP address
    r"(?:[2-9]\d{8,9}|1[3-9]\d{9}|\(?[2-9]\d\d?\)?(?:[ .-]{1,2}\d{2,4}){2,4}|[6-9]\d{4} \d{5}"
    rf"|8[ -]?\(?9\d\d\)?[ -]?\d{{3}}(?:[ -]?\d\d){{2}}){_END}"
)
"""A number without a leading zero, in a length and grouping that is usual in some country."""
_AMERICAN_NUMBER: Final = rf"\(?[2-9]\d\d\)?[ .-]{{1,2}}\d{{3}}[ .-]\d{{4}}{_END}"
_NATIONAL: Final = tuple(
    re.compile(rf"(?:{words}){_BETWEEN}({numbers})", re.IGNORECASE)
    for words, numbers in (
        (_PHONE_WORDS, f"{_ZERO_NUMBER}|{_PLAIN_NUMBER}"),
        (_WEAK_PHONE_WORDS, f"{_ZERO_NUMBER}|{_AMERICAN_NUMBER}"),
    )
)
_PERSONAL: Final = (
    PhoneNumberType.FIXED_LINE,
    PhoneNumberType.MOBILE,
    PhoneNumberType.FIXED_LINE_OR_MOBILE,
    PhoneNumberType.PERSONAL_NUMBER,
    PhoneNumberType.VOIP,
)
"""The types of numbers that may belong to a person, unlike toll-free or premium-rate numbers."""
_FICTITIOUS: Final = {
    1: r"\d{3}555\d{4}",
    44: r"7700900\d{3}|1632960\d{3}|2079460\d{3}|1\d\d49[68]0\d{3}|2920180\d{3}",
    49: r"(?:3023125|6990009|4066969|22147107|8999998)\d{2,4}",
}
"""Numbers that regulators reserve for films and documentation, by country code: NANPA (whose other
555 numbers are not in use either), Ofcom and Bundesnetzagentur."""
_FICTITIOUS_ANYWHERE: Final = re.compile("|".join(_FICTITIOUS.values()))
_INVENTED: Final = re.compile(r"123456|234567|987654|(\d)\1{5}")
"""Runs of digits that only invented numbers contain."""
_NATIONAL_LENGTHS: Final = range(9, 13)
"""How many digits a national number may have, including the leading zero."""
_TOLL_FREE: Final = re.compile(r"[89]00")
"""The beginning of toll-free and premium-rate numbers."""


def _is_address(match: re.Match[str]) -> bool:
    is_mail = _MAIL_DOMAINS.fullmatch(match["top"])
    is_exempt = _RESERVED_DOMAIN.search(match["domain"]) or _IMPERSONAL.fullmatch(match["local"])
    return bool(is_mail and not is_exempt)


def _is_name(match: re.Match[str]) -> bool:
    is_role = _ROLE_NAME.fullmatch(match["first"]) or _ROLE_NAME.fullmatch(match["last"])
    is_site = match["between"] == "." and _MAIL_DOMAINS.fullmatch(match["last"])
    return not (is_role or is_site)


def _is_card(match: re.Match[str]) -> bool:
    digits = re.sub(r"[ -]", "", match[0])
    is_invented = len(set(digits)) <= _MAX_INVENTED_DIGITS or _TEST_CARDS.fullmatch(digits)
    is_assigned = _ISSUER_RANGES.fullmatch(digits) and luhn.is_valid(digits)
    return bool(is_assigned and not is_invented)


def _is_account(match: re.Match[str]) -> bool:
    account = match[0].replace(" ", "")
    return iban.is_valid(account) and account not in _SAMPLE_ACCOUNTS


def _is_social_security(match: re.Match[str]) -> bool:
    return ssn.is_valid(match[0]) and match[0] not in _SAMPLE_SOCIAL_SECURITY


def _is_phone(match: re.Match[str]) -> bool:
    """Judge a number without `+`, whose country is known only after two zeros."""
    digits = "".join(filter(str.isdigit, match[1]))
    if digits.startswith("00"):
        try:
            return _is_personal(parse(f"+{match[1].lstrip('(0 ')}"))
        except NumberParseException:
            return False
    national = digits.removeprefix("0")
    is_invented = len(set(national)) <= _MAX_INVENTED_DIGITS or _INVENTED.search(digits)
    is_impersonal = _FICTITIOUS_ANYWHERE.fullmatch(national) or _TOLL_FREE.match(national)
    return len(digits) in _NATIONAL_LENGTHS and not is_invented and not is_impersonal


def _is_personal(number: PhoneNumber) -> bool:
    """Return whether a valid number may belong to a person, by its type and its digits."""
    digits = national_significant_number(number)
    fictitious = _FICTITIOUS.get(number.country_code or 0)
    is_fictitious = fictitious and re.fullmatch(fictitious, digits)
    return number_type(number) in _PERSONAL and not (_INVENTED.search(digits) or is_fictitious)


def _detect_with_country_code(line: str) -> Iterator[Detection]:
    if _INTERNATIONAL.search(line):
        # Without a region, the matcher finds only numbers with a country code.
        for phone in PhoneNumberMatcher(line, None):
            if _is_personal(phone.number):
                yield "phone number", phone.start, phone.end


PERSONAL_DATA: Final = (
    Rule(when("e-mail address", _is_address), (_ADDRESS,), hint=re.compile("@")),
    Rule(
        when("a person's name in a path", _is_name), (_HOME_FOLDER,), hint=re.compile("home/|sers")
    ),
    Rule(when("payment card number", _is_card), (_CARD,)),
    Rule(when("bank account number (IBAN)", _is_account), (_ACCOUNT,)),
    Rule(when("US social security number", _is_social_security), (_SOCIAL_SECURITY,)),
    _detect_with_country_code,
    Rule(when("phone number", _is_phone), (_DIALLED_ABROAD, *_NATIONAL), hint=_DIGITS),
)
