"""Scans a text with all detectors."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import regex

from shared.screening.personal import PERSONAL_DATA
from shared.screening.secrets import SECRETS, find_private_keys

if TYPE_CHECKING:
    from shared.screening.rules import Detection

_MIN_LINE_LENGTH: Final = len("a@b.io")
"""Shorter lines, of which a text can have 50,000, are skipped."""
_LINE_BREAK: Final = regex.compile(r"\r\n|\r|\n")
_INVISIBLE: Final = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}]+")
"""Zero-width characters, soft hyphens, variation selectors and other invisible characters."""


def scan_text(text: str, *, personal_data: bool = True) -> list[tuple[int, str]]:
    """Find secrets and, if requested, personal data in a text.

    Returns:
        The line number, from 1, and the kind of each detection, sorted and without duplicates.
    """
    # As editors do: U+2028, for example, does not end a line.
    lines = [line if line.isascii() else _normalize(line) for line in _LINE_BREAK.split(text)]
    detections = {(number, "private key") for number in find_private_keys(lines)}
    for number, line in enumerate(lines, start=1):
        if len(line) >= _MIN_LINE_LENGTH:
            detections.update((number, kind) for kind in _scan_line(line, personal_data))
    return sorted(detections)


def _scan_line(line: str, personal_data: bool) -> set[str]:  # noqa: FBT001 - private
    """Return the kinds in a line. Of detections that overlap, the first counts."""
    detections: list[Detection] = []
    for detect in (*SECRETS, *PERSONAL_DATA) if personal_data else SECRETS:
        detections += [
            (kind, start, end)
            for kind, start, end in detect(line)
            if all(end <= first or last <= start for _, first, last in detections)
        ]
    return {kind for kind, _, _ in detections}


def _normalize(line: str) -> str:
    """Undo disguises: remove invisible characters, and make full-width and similar ones plain."""
    return "".join(map(_normalize_character, _INVISIBLE.sub("", line)))


@lru_cache(maxsize=4096)
def _normalize_character(character: str) -> str:
    """Apply NFKC where the result is a single character, so that no line grows."""
    normalized = unicodedata.normalize("NFKC", character)
    return normalized if len(normalized) == 1 else character
