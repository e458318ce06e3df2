"""Rejects texts that contain secrets or personal data, before others can read them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_LISTED: Final = 20
"""The error lists at most this many findings of a field, to stay short."""


@dataclass(frozen=True, slots=True)
class ScreeningFinding:
    """The kind and the line of a secret or of personal data in a text, never the value itself.

    Attributes:
        field: The name of the text.
        line: The number of the line, from 1.
        kind: The kind in words, such as "AWS access key" or "e-mail address".
    """

    field: str
    line: int
    kind: str


async def require_shareable_texts(texts: Mapping[str, str]) -> None:
    """Screen texts that everyone can read, which are given by argument name.

    Raises:
        InvalidInput: A text contains a secret or personal data. The error names the lines, never
            the values.
    """
    if findings := await asyncio.to_thread(screen_texts, texts):
        raise make_screening_error(findings)


async def require_no_secrets(texts: Mapping[str, str]) -> None:
    """Screen texts that users of this server can read, which are given by argument name.

    Raises:
        InvalidInput: A text contains a secret. The error names the lines, never the values.
    """
    if findings := await asyncio.to_thread(screen_texts, texts, personal_data=False):
        raise make_screening_error(
            findings, "Others can read what you save, and it contains secrets"
        )


def screen_texts(texts: Mapping[str, str], *, personal_data: bool = True) -> list[ScreeningFinding]:
    """Find secrets, and personal data if asked, in texts, which are given by field name.

    Findings are sorted by field, line and kind, and a kind occurs once per line. Call this function
    in a thread: it takes a millisecond of CPU time for 2,000 characters, and a tenth of a
    second or more for 50,000. The first call imports the detectors.
    """
    from shared.screening.scan import scan_text

    return [
        ScreeningFinding(field, line, kind)
        for field, text in texts.items()
        for line, kind in scan_text(text, personal_data=personal_data)
    ]


def make_screening_error(
    findings: Sequence[ScreeningFinding],
    problem: str = "Everyone can read what you share, and it contains secrets or personal data",
) -> InvalidInput:
    """Return the error that tells the author the lines and kinds of findings, never the values."""
    by_field: dict[str, list[str]] = {}
    for finding in findings:
        by_field.setdefault(finding.field, []).append(f"line {finding.line}: {finding.kind}")
    return InvalidInput(
        f"{problem}: `details` lists the lines. Nothing was stored. Replace each with a"
        " placeholder, such as <API_KEY>, <PASSWORD> or user@example.com, and send it again. If a"
        " secret was in use, revoke it.",
        details={field: _format_list(lines) for field, lines in by_field.items()},
    )


def _format_list(lines: Sequence[str]) -> str:
    listed = list(lines[:MAX_LISTED])
    omitted_count = len(lines) - len(listed)
    if omitted_count:
        listed.append(f"and {omitted_count} more")
    return "; ".join(listed)
