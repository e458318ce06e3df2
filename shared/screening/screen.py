"""Rejects texts that contain secrets or personal data, before others can read them.

The detectors are imported late, to keep cold starts short.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Findings = Sequence[tuple[int, str]]
    """The number of a line, from 1, and the kind in words of what it contains: never the value."""

MAX_LISTED: Final = 20
"""The error lists at most this many findings for each field, which are enough to act on."""


async def require_shareable_texts(texts: Mapping[str, str]) -> None:
    """Check that texts that everyone will be able to read contain no secrets or personal data.

    Raises:
        InvalidInput: A text does. The error names the lines by argument, never the values.
    """
    if findings := await asyncio.to_thread(screen_texts, texts):
        problem = "Everyone can read what you share, and it contains secrets or personal data"
        raise make_screening_error(findings, problem)


async def require_no_secrets(texts: Mapping[str, str]) -> None:
    """Check that texts that the users of this server will be able to read contain no secrets.

    Raises:
        InvalidInput: A text does. The error names the lines by argument, never the values.
    """
    if findings := await asyncio.to_thread(screen_texts, texts, personal_data=False):
        problem = "Others can read what you save, and it contains secrets"
        raise make_screening_error(findings, problem)


def screen_texts(texts: Mapping[str, str], *, personal_data: bool = True) -> dict[str, Findings]:
    """Find secrets and, if requested, personal data in texts. Return the findings by argument.

    Call this function in a thread: it takes a millisecond of CPU time for 2,000 characters, and a
    tenth of a second or more for 50,000. The first call also imports the detectors.
    """
    from shared.screening.scan import scan_text

    findings = {
        field: scan_text(text, personal_data=personal_data) for field, text in texts.items()
    }
    return {field: listed for field, listed in findings.items() if listed}


def make_screening_error(findings: Mapping[str, Findings], problem: str) -> InvalidInput:
    """Make the error that lists the lines and kinds of the findings, never the values."""
    return InvalidInput(
        f"{problem}: `details` lists the lines. Nothing was stored. Replace each with a"
        " placeholder, such as <API_KEY>, <PASSWORD> or user@example.com, and send it again. If a"
        " secret was in use, revoke it.",
        details={field: _format_findings(listed) for field, listed in findings.items()},
    )


def _format_findings(findings: Findings) -> str:
    parts = [f"line {line}: {kind}" for line, kind in findings[:MAX_LISTED]]
    omitted = findings[MAX_LISTED:]
    return "; ".join([*parts, f"and {len(omitted)} more"] if omitted else parts)
