"""Phone numbers of people."""

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

from shared.screening.finding import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from phonenumbers import PhoneNumber

_DIGITS: Final = re.compile(r"\d(?:[^\w\n]{0,4}\d){6}")
"""What every number has; a search for it is quick, and most lines end there."""
_CALLED: Final = re.compile(r"\+ ?\(?[1-9](?:[ ().-]{0,3}\d){6}")
_AMERICAN: Final = re.compile(
    r"(?<![a-z])(?:phone|mobile|cell|tel|call|fax|sms|whatsapp)(?![a-z]).{0,40}?"
    r"(?<!\d)\(?[2-9]\d\d\)?[ .-]{0,2}\d{3}[ .-]?\d{4}(?!\d)",
    re.IGNORECASE,
)
_END: Final = r"(?![\w-]|[ .:/,]\d)"
_ABROAD: Final = re.compile(
    r"(?<![\w.+/-])(?<![0-9a-f]{4} )00 ?[1-9]\d{0,2}[ /(-]{1,3}\d(?:[ /()-]{0,3}\d){5,12}"
    rf"{_END}(?! [0-9a-f]{{4}}\b)"
)
"""`0049 171 ...` with a blank after the country's code, unlike in dumps and in padded numbers."""
_SURELY: Final = (
    r"phone|t[eé]l[eé](?:phone|fono?|fone|foon|fax)|mobil[eo]?|mobiel|m[oó]vil|celular|cellulare"
    r"|handy|rufnummer|fax|whatsapp|телефон|(?<![^\W_])(?:tel|gsm|sms|тел|моб)"
)
_MAYBE: Final = (
    r"(?<![^\W_])(?:durchwahl|cell|call(?: (?:me|us|back|him|her))?(?: (?:at|on|under))?|signal"
    r"|portable|telegram)"
)
_THEN: Final = (
    r"(?:[ _-]?(?:numbers?|nummer|num|no|nr))?(?![^\W\d_])"
    r"[^\w\s]{0,3}\s{0,20}[\W_]{0,4}(?<![+-])"
)
_WITH_ZERO: Final = (
    rf"\(?(?:0[1-9](?:[ ./()-]{{0,3}}\d){{7,10}}|00[1-9](?:[ /()-]{{0,3}}\d){{8,13}}){_END}"
)
_WITHOUT: Final = (
    r"(?!\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d))"
    r"(?:[2-9]\d{8,9}|1[3-9]\d{9}|[2-9]\d\d?(?:[ .-]\d{2,4}){2,4}|[6-9]\d{4} \d{5}"
    rf"|8[ -]?\(?9\d\d\)?[ -]?\d{{3}}(?:[ -]?\d\d){{2}}){_END}"
)
_NATIONAL: Final = re.compile(
    rf"(?:{_SURELY}){_THEN}(?P<sure>{_WITH_ZERO}|{_WITHOUT})"
    rf"|(?:{_MAYBE}){_THEN}(?P<maybe>{_WITH_ZERO})",
    re.IGNORECASE,
)
"""After a word for a phone: what begins with the zero of most countries, or has its length."""
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
_MADE_UP: Final = re.compile(r"123456|234567|987654|(\d)\1{5}")
_LENGTHS: Final = range(9, 13)
_FREE: Final = re.compile(r"[89]00")
_FEWEST: Final = 3
"""A number of no more different digits is nobody's."""


def phone_numbers_in(line: str) -> Iterator[Place]:
    """Find phone numbers of people: with their country's code, or right after a word for a phone.

    Other national forms are not to be told from any number in code.
    """
    if not _DIGITS.search(line):
        return
    called = _CALLED.search(line)
    if called or _AMERICAN.search(line):
        for match in PhoneNumberMatcher(line, None if called else "US"):
            if _is_of_a_person(match.number):
                yield Place("phone number", match.start, match.end)
    for abroad in _ABROAD.finditer(line):
        if _rings(abroad[0]):
            yield Place("phone number", *abroad.span())
    for national in _NATIONAL.finditer(line):
        if _rings(national["sure"] or national["maybe"]):
            yield Place("phone number", *national.span())


def _rings(written: str) -> bool:
    """Tell whether what looks like a number without `+` may be a person's."""
    digits = "".join(filter(str.isdigit, written))
    if digits.startswith("00"):
        try:
            return _is_of_a_person(parse(f"+{written.lstrip('(0 ')}"))
        except NumberParseException:
            return False
    if len(digits) not in _LENGTHS:
        return False
    own = digits.removeprefix("0")
    made_up = len(set(own)) <= _FEWEST or _MADE_UP.search(digits) or _FREE.match(own)
    return not made_up and not any(form.fullmatch(own) for form in _FICTITIOUS.values())


def _is_of_a_person(number: PhoneNumber) -> bool:
    digits = national_significant_number(number)
    fictitious = _FICTITIOUS.get(number.country_code or 0)
    kept = _MADE_UP.search(digits) or (fictitious and fictitious.fullmatch(digits))
    return number_type(number) in _OF_A_PERSON and not kept
