"""Rejects texts that contain secrets or personal data, before others can read them.

A finding is a line with a secret or personal data of one kind. The detectors are imported late, to
keep cold starts short.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_LISTED: Final = 20
"""The error lists at most this many findings for each field, which are enough to act on."""


@dataclass(frozen=True, slots=True)
class ScreeningFinding:
    """Where a text contains a secret or personal data. The value itself is never part of it.

    Attributes:
        field: The name of the argument with the text.
        line: The number of the line, from 1.
        kind: The kind in words, such as "AWS access key" or "e-mail address".
    """

    field: str
    line: int
    kind: str


async def require_shareable_texts(texts: Mapping[str, str]) -> None:
    """Check that texts that everyone will be able to read contain no secrets or personal data.

    Args:
        texts: The texts by argument name.

    Raises:
        InvalidInput: A text contains a secret or personal data. The error names the lines, never
            the values.
    """
    if findings := await asyncio.to_thread(screen_texts, texts):
        raise make_screening_error(findings)


async def require_no_secrets(texts: Mapping[str, str]) -> None:
    """Check that texts that the users of this server will be able to read contain no secrets.

    Args:
        texts: The texts by argument name.

    Raises:
        InvalidInput: A text contains a secret. The error names the lines, never the values.
    """
    if findings := await asyncio.to_thread(screen_texts, texts, personal_data=False):
        raise make_screening_error(
            findings, "Others can read what you save, and it contains secrets"
        )


def screen_texts(texts: Mapping[str, str], *, personal_data: bool = True) -> list[ScreeningFinding]:
    """Find secrets and, if requested, personal data in texts.

    Call this function in a thread: it takes a millisecond of CPU time for 2,000 characters, and a
    tenth of a second or more for 50,000. The first call also imports the detectors.

    Args:
        texts: The texts by argument name.
        personal_data: Whether to find personal data, too.

    Returns:
        The findings, sorted by the order of the texts, then by line, then by kind. A line has at
        most one finding of each kind.
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
    """Make the error that lists the lines and kinds of the findings, never the values.

    Args:
        findings: The findings, at least one.
        problem: The beginning of the message, which says why findings are not allowed.
    """
    lines_by_field: dict[str, list[str]] = {}
    for finding in findings:
        lines_by_field.setdefault(finding.field, []).append(f"line {finding.line}: {finding.kind}")
    return InvalidInput(
        f"{problem}: `details` lists the lines. Nothing was stored. Replace each with a"
        " placeholder, such as <API_KEY>, <PASSWORD> or user@example.com, and send it again. If a"
        " secret was in use, revoke it.",
        details={field: _format_list(lines) for field, lines in lines_by_field.items()},
    )


def _format_list(lines: Sequence[str]) -> str:
    parts = list(lines[:MAX_LISTED])
    omitted_count = len(lines) - len(parts)
    if omitted_count:
        parts.append(f"and {omitted_count} more")
    return "; ".join(parts)
