"""A few words of a passage, to recognise it by."""

from __future__ import annotations

from typing import Final

LENGTH: Final = 280
"""Characters of a snippet, at most."""


def snippet(content: str) -> str:
    """How a passage begins, on one line, cut between words; `…` says that it goes on."""
    line = " ".join(content.split())
    if len(line) <= LENGTH:
        return line
    cut = line[:LENGTH].rpartition(" ")[0] or line[: LENGTH - 1]
    return cut.rstrip(" ,;:.") + "…"
