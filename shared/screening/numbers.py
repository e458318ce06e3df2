"""Numbers with a check digit that money or a person stands behind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from stdnum import iban, luhn
from stdnum.us import ssn

from shared.screening.finding import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

_CARD: Final = re.compile(r"(?<![\w.+-])(?<!\d )\d(?:[ -]?\d){12,18}(?![\w-]|[. ]\d)", re.ASCII)
_ISSUED: Final = re.compile(
    r"4\d{15}"  # Visa
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-5]|[689]\d)\d{11}"  # Diners Club
    r"|(?:6011|64[4-9]\d|65\d\d|352[89]|35[3-8]\d|62\d\d)\d{12}"  # Discover, JCB, UnionPay
)
_FOR_TESTS: Final = re.compile(
    r"4000[0-9]{4}\d{8}|4(?:242){5}|4111111111111111|4012888888881881|42222222222222\d\d"
    r"|4917610000000000|5[12]05105105105100|5200828282828210|55555555555\d{5}|5454545454545454"
    r"|2223003122003222|2223000048400011|378282246310005|371449635398431|378734493671000"
    r"|6011(?:1{11}7|000990139424|9{12})|6011981111111113|3056930009020004|30569309025904"
    r"|38520000023237|36227206271667|3530111333300000|35660020203605\d\d|6200000000000\d{3}"
    r"|6555900000604105"
)
"""Numbers of payment services' documentation: they pay nothing."""
_FEWEST: Final = 3
_ACCOUNT: Final = re.compile(
    r"(?<![\w/+=-])[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}(?![\w/+=-])", re.ASCII
)
_OF_THE_DOCUMENTATION: Final = frozenset(
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
"""The registry's own examples, and those of Wikipedia."""
_SOCIAL: Final = re.compile(r"(?<![\w.-])\d{3}-\d{2}-\d{4}(?![\w-])", re.ASCII)
_NOBODYS: Final = frozenset({"123-45-6789", "987-65-4321", "111-11-1111", "111-22-3333"})


def numbers_in(line: str) -> Iterator[Place]:
    """Find payment cards, bank accounts (IBAN) and US social security numbers."""
    for match in _CARD.finditer(line):
        if _is_card(re.sub(r"[ -]", "", match[0])):
            yield Place("payment card number", *match.span())
    for match in _ACCOUNT.finditer(line):
        if _is_account(match[0].replace(" ", "")):
            yield Place("bank account number (IBAN)", *match.span())
    for match in _SOCIAL.finditer(line):
        if match[0] not in _NOBODYS and ssn.is_valid(match[0]):
            yield Place("US social security number", *match.span())


def _is_card(digits: str) -> bool:
    made_up = len(set(digits)) <= _FEWEST or _FOR_TESTS.fullmatch(digits)
    return bool(_ISSUED.fullmatch(digits)) and not made_up and luhn.is_valid(digits)


def _is_account(compact: str) -> bool:
    return compact not in _OF_THE_DOCUMENTATION and iban.is_valid(compact)
