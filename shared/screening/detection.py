"""The type that all detectors yield."""

from __future__ import annotations

from typing import NamedTuple


class Detection(NamedTuple):
    """Where a line contains a secret or personal data.

    Attributes:
        kind: The kind in words, such as "AWS access key" or "e-mail address".
        start: The index of the first character in the line.
        end: The index after the last character.
    """

    kind: str
    start: int
    end: int

    def overlaps(self, other: Detection) -> bool:
        """Return whether two detections have a character in common."""
        return self.start < other.end and other.start < self.end
