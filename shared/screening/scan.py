"""One text, scanned for everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.screening.commands import commands_in
from shared.screening.credentials import credentials_in
from shared.screening.headers import headers_in
from shared.screening.lines import lines_of
from shared.screening.numbers import numbers_in
from shared.screening.personal import addresses_in, home_folders_in
from shared.screening.phones import phone_numbers_in
from shared.screening.private_keys import private_keys_in
from shared.screening.tokens import tokens_in

if TYPE_CHECKING:
    from shared.screening.finding import Place

_SCANS: Final = (
    tokens_in,
    headers_in,
    credentials_in,
    commands_in,
    addresses_in,
    home_folders_in,
    phone_numbers_in,
    numbers_in,
)
"""What knows its finds most exactly comes first."""
_SHORTEST: Final = len("a@b.io")
"""No line that is shorter holds anything, and a text may have 50,000 of them."""


def found_in(text: str) -> list[tuple[int, str]]:
    """The lines, from 1, and the kinds of what must not be shared, in order and without doubles."""
    lines = lines_of(text)
    found = {(number, "private key") for number in private_keys_in(lines)}
    for number, line in enumerate(lines):
        if len(line) >= _SHORTEST:
            found.update((number, place.kind) for place in _places_in(line))
    return sorted((number + 1, kind) for number, kind in found)


def _places_in(line: str) -> list[Place]:
    found: list[Place] = []
    for scan in _SCANS:
        found += [new for new in scan(line) if not any(map(new.overlaps, found))]
    return found
