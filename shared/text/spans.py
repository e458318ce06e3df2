"""The type with which the functions of this package refer to a part of a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text: `text[start:end]`, in code points."""

    start: int
    end: int
