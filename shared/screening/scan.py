"""Scans a text with all detectors."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import regex

from shared.screening.credentials import (
    detect_assigned_secrets,
    detect_command_passwords,
    detect_headers,
    find_private_keys,
)
from shared.screening.personal import detect_addresses, detect_home_folders, detect_numbers
from shared.screening.phones import detect_phone_numbers
from shared.screening.tokens import detect_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shared.screening.detection import Detection

    Detector = Callable[[str], Iterable[Detection]]

_SECRET_DETECTORS: Final = (
    detect_tokens,
    detect_headers,
    detect_assigned_secrets,
    detect_command_passwords,
)
"""Detectors that find secrets in one line, in order: those with the most specific kinds first."""
_PERSONAL_DATA_DETECTORS: Final = (
    detect_addresses,
    detect_home_folders,
    detect_phone_numbers,
    detect_numbers,
)
"""Detectors that find personal data in one line. What overlaps a secret is not reported again."""
_MIN_LINE_LENGTH: Final = len("a@b.io")
"""Lines with fewer characters are skipped, because they are too short for a secret or personal
data. A text can have 50,000 of them."""
_LINE_BREAK: Final = regex.compile(r"\r\n|\r|\n")
_INVISIBLE: Final = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}]+")
"""Zero-width characters, soft hyphens, variation selectors and other invisible characters."""


def scan_text(text: str, *, personal_data: bool = True) -> list[tuple[int, str]]:
    """Find secrets and, if requested, personal data in a text.

    Args:
        personal_data: Whether to find personal data, too.

    Returns:
        The line number, from 1, and the kind of each detection, sorted and without duplicates.
    """
    detectors: Sequence[Detector] = _SECRET_DETECTORS
    if personal_data:
        detectors = _SECRET_DETECTORS + _PERSONAL_DATA_DETECTORS
    lines = _normalize_lines(text)
    detections = {(index, "private key") for index in find_private_keys(lines)}
    for index, line in enumerate(lines):
        if len(line) >= _MIN_LINE_LENGTH:
            detections.update((index, detection.kind) for detection in _scan_line(line, detectors))
    return sorted((index + 1, kind) for index, kind in detections)


def _scan_line(line: str, detectors: Sequence[Detector]) -> list[Detection]:
    """Return the detections in a line.

    If detections overlap, only the one of the first detector is kept.
    """
    detections: list[Detection] = []
    for detect in detectors:
        detections += [
            detection for detection in detect(line) if not any(map(detection.overlaps, detections))
        ]
    return detections


def _normalize_lines(text: str) -> list[str]:
    """Split a text into lines as editors do, and undo disguises of characters.

    Invisible characters are removed, and full-width and mathematical letters and digits become
    plain. NFKC is applied to each character by itself, and only where the result is a single
    character, so that no line grows.
    """
    return [line if line.isascii() else _normalize(line) for line in _LINE_BREAK.split(text)]


def _normalize(line: str) -> str:
    return "".join(map(_normalize_character, _INVISIBLE.sub("", line)))


@lru_cache(maxsize=4096)
def _normalize_character(character: str) -> str:
    normalized = unicodedata.normalize("NFKC", character)
    return normalized if len(normalized) == 1 else character
