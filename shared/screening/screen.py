"""Refusing texts that hold secrets or personal data, before anybody else can read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shared.core.errors import InvalidInput
from shared.screening.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TOLD: Final = 20
"""How many findings of a field are told: enough to mend the text, and an answer stays short."""


def findings(texts: Mapping[str, str]) -> list[Finding]:
    """Find the secrets and the personal data in texts, by their fields' names.

    They come in the order of the fields, then of lines, then of kinds, each line's kind once. It
    takes a millisecond for 2,000 characters and a tenth of a second and more for 50,000, all of it
    computing: call it in a thread. The first call imports the scanners.
    """
    from shared.screening.scan import found_in

    return [
        Finding(field, line, kind) for field, text in texts.items() for line, kind in found_in(text)
    ]


def refusal(found: Sequence[Finding]) -> InvalidInput:
    """What to tell who sent the texts: where what stands, never the value, and what to do."""
    by_field: dict[str, list[str]] = {}
    for finding in found:
        by_field.setdefault(finding.field, []).append(f"line {finding.line}: {finding.kind}")
    return InvalidInput(
        "What you share is read by everybody, and this holds secrets or personal data: `details` "
        "says in which lines. Nothing was stored. Put a placeholder in place of each, such as "
        "<API_KEY>, <PASSWORD> or user@example.com, and send it again. A secret that was in use "
        "should also be revoked where it came from.",
        details={field: _told(places) for field, places in by_field.items()},
    )


def _told(places: Sequence[str]) -> str:
    more = len(places) - _TOLD
    return "; ".join([*places[:_TOLD], *([f"and {more} more"] if more > 0 else [])])
