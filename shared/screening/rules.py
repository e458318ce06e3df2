"""The form of the rules by which a line is screened."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator

    Classify = Callable[[re.Match[str]], str | None]
    """A function that returns the kind of a match in words, such as "e-mail address", or None if
    the match is a placeholder or something harmless."""
    Detection = tuple[str, int, int]
    """The kind of a secret or of personal data, and the range of a line's characters."""


class Rule(NamedTuple):
    """Detects what matches one of several patterns.

    A hint is a pattern that every line with a match contains, and that is searched faster.
    """

    classify: Classify
    patterns: tuple[re.Pattern[str], ...]
    hint: re.Pattern[str] | None = None

    def __call__(self, line: str) -> Iterator[Detection]:
        """Yield the detections in a line."""
        if self.hint is None or self.hint.search(line):
            for pattern in self.patterns:
                for match in pattern.finditer(line):
                    if kind := self.classify(match):
                        yield (kind, *match.span())


def when(kind: str, is_real: Callable[[re.Match[str]], object]) -> Classify:
    """Return a function that classifies real matches as `kind`, and ignores placeholders."""
    return lambda match: kind if is_real(match) else None
