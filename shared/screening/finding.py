"""What screening says of a text: the kind of secret and the line, never the value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be shared.

    Attributes:
        field: Which text holds it.
        line: Where it stands, from 1.
        kind: What it is, in words: "AWS access key", "e-mail address".
    """

    field: str
    line: int
    kind: str


class Place(NamedTuple):
    """Where something of a kind stands in one line, from character `start` up to `end`."""

    kind: str
    start: int
    end: int

    def overlaps(self, other: Place) -> bool:
        """Tell whether the two share a character."""
        return self.start < other.end and other.start < self.end
