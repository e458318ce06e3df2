"""What detectors find, and the rules that most of them are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator


class Detection(NamedTuple):
    """The kind of a secret or of personal data, and the range of a line's characters."""

    kind: str
    start: int
    end: int


class Rule:
    """Detects what matches one of several patterns.

    A hint is a pattern that every line with a match contains, and that is searched faster.
    `classify` returns the kind of a match in words, such as "e-mail address", or None if the match
    is a placeholder or something harmless.
    """

    def __init__(
        self,
        classify: Callable[[re.Match[str]], str | None],
        *patterns: re.Pattern[str],
        hint: re.Pattern[str] | None = None,
    ) -> None:
        self._classify = classify
        self._patterns = patterns
        self._hint = hint

    def __call__(self, line: str) -> Iterator[Detection]:
        """Yield the detections in a line."""
        if self._hint is None or self._hint.search(line):
            for pattern in self._patterns:
                for match in pattern.finditer(line):
                    if kind := self._classify(match):
                        yield Detection(kind, *match.span())
