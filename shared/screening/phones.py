"""Detects phone numbers of people.

A number with a country code is recognized by itself. Without one, only a number after a word for a
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

from shared.screening.detection import Detection, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from phonenumbers import PhoneNumber

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
_INVENTED: Final = re.compile(r"123456|234567|987654|(\d)\1{5}")
"""Runs of digits that only invented numbers contain."""
_NATIONAL_LENGTHS: Final = range(9, 13)
"""How many digits a national number may have, including the leading zero."""
_TOLL_FREE: Final = re.compile(r"[89]00")
"""The beginning of toll-free and premium-rate numbers."""
_MAX_INVENTED_DIGITS: Final = 3
"""A number with at most this many different digits counts as invented."""


def _classify_number(match: re.Match[str]) -> str | None:
    """Judge a number without `+`, whose country is known only after two zeros."""
    digits = "".join(filter(str.isdigit, match[1]))
    if digits.startswith("00"):
        try:
            number = parse(f"+{match[1].lstrip('(0 ')}")
        except NumberParseException:
            return None
        return "phone number" if _is_personal(number) else None
    national = digits.removeprefix("0")
    is_invented = len(set(national)) <= _MAX_INVENTED_DIGITS or _INVENTED.search(digits)
    is_impersonal = re.fullmatch("|".join(_FICTITIOUS.values()), national) or _TOLL_FREE.match(
        national
    )
    is_personal = len(digits) in _NATIONAL_LENGTHS and not is_invented and not is_impersonal
    return "phone number" if is_personal else None


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
                yield Detection("phone number", phone.start, phone.end)


PHONE_NUMBERS: Final = (
    _detect_with_country_code,
    Rule(_classify_number, _DIALLED_ABROAD, *_NATIONAL, hint=_DIGITS),
)
