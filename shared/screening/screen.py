"""Screening: refuse texts that contain secrets or personal data before others can read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_LISTED: Final = 20
"""How many findings of a field the error lists: enough to fix the text, and still short."""


@dataclass(frozen=True, slots=True)
class ScreeningFinding:
    """A secret or personal data in a text; never the value itself.

    Attributes:
        field: The name of the text.
        line: The number of the line, from 1.
        kind: What it is, in words: "AWS access key", "e-mail address".
    """

    field: str
    line: int
    kind: str


def screen_texts(texts: Mapping[str, str]) -> list[ScreeningFinding]:
    """Find secrets and personal data in texts, given by field name.

    Findings are ordered by field, then line, then kind, with each kind once per line. Screening
    takes a millisecond for 2,000 characters, and a tenth of a second or more for 50,000, all of it
    processor time: call it in a thread. The first call imports the detectors.
    """
    from shared.screening.scan import scan_text

    return [
        ScreeningFinding(field, line, kind)
        for field, text in texts.items()
        for line, kind in scan_text(text)
    ]


def refusal(findings: Sequence[ScreeningFinding]) -> InvalidInput:
    """Return the error for the author of the texts: the lines and kinds, never the values."""
    by_field: dict[str, list[str]] = {}
    for finding in findings:
        by_field.setdefault(finding.field, []).append(f"line {finding.line}: {finding.kind}")
    return InvalidInput(
        "Everyone can read what you share, and it contains secrets or personal data: `details`"
        " lists the lines. Nothing was stored. Replace each with a placeholder, such as <API_KEY>,"
        " <PASSWORD> or user@example.com, and send it again. If a secret was in use, revoke it.",
        details={field: _listed(lines) for field, lines in by_field.items()},
    )


def _listed(lines: Sequence[str]) -> str:
    more = len(lines) - MAX_LISTED
    return "; ".join([*lines[:MAX_LISTED], *([f"and {more} more"] if more > 0 else [])])
