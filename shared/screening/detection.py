"""A detection: the kind of a secret or of personal data, and its position in a line."""

from __future__ import annotations

from typing import NamedTuple


class Detection(NamedTuple):
    """A secret or personal data in one line, at the characters from `start` up to `end`.

    The kind is in words, such as "AWS access key" or "e-mail address".
    """

    kind: str
    start: int
    end: int

    def overlaps(self, other: Detection) -> bool:
        """Return whether two detections have a character in common."""
        return self.start < other.end and other.start < self.end
