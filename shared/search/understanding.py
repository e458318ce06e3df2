"""What a question says about time and order, apart from its subject.

`What did I note about bread in May 2024, newest first?` has the subject bread, the period May 2024
and the order by date.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from shared.core.dates import DateSpan
from shared.search.periods import find_periods
from shared.search.question_words import (
    EAST_ASIAN_REQUEST,
    NEWEST,
    REQUEST_PHRASES,
    REQUEST_WORDS,
)
from shared.text.terms import fold_letters

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, tzinfo

_WORD: Final = re.compile(r"\w+(?:[-'\u2019.+#/]+\w+)*[+#]*")
_PART: Final = re.compile(r"[a-z]+|[^a-z'\u2019-]+")


class DateOrder(StrEnum):
    """An order of documents by date, in which those without a date are last."""

    NEWEST = "newest"
    OLDEST = "oldest"


@dataclass(frozen=True, slots=True)
class Understanding:
    """What is understood of a question.

    Attributes:
        words: The words to search for: all but those that ask for an order. Passages may have those
            of the period, too.
        subject: What the question is about: its other words, without those that only ask for
            passages. The whole question if nothing is understood.
        dates: The words that name the period.
        period: The days that the question names, or None.
        order: The order that the question asks for, or None.
    """

    words: str
    subject: str
    dates: str = ""
    period: DateSpan | None = None
    order: DateOrder | None = None

    @property
    def is_listing(self) -> bool:
        """Whether the question only asks to list the newest passages, or those of a period."""
        is_by_date = self.order is DateOrder.NEWEST or (self.period and self.order is None)
        return not self.subject and bool(is_by_date)


def understand(question: str, now: datetime, zone: tzinfo) -> Understanding:
    """Read what a question says about time and order."""
    mentions = find_periods(question, now.astimezone(zone).date())
    spans = [(mention.start, mention.end) for mention in mentions]
    rest = _blank(question, spans)
    newest = [match.span() for match in NEWEST.finditer(fold_letters(rest))]
    if not (mentions or newest):
        return Understanding(question, question)
    period = None
    if mentions:
        first = min(mention.first for mention in mentions)
        period = DateSpan(first, max(mention.last for mention in mentions), zone)
    return Understanding(
        " ".join(_blank(question, newest).split()),
        find_subject(_blank(rest, newest)),
        " ".join(question[start:end] for start, end in spans),
        period,
        DateOrder.NEWEST if newest else None,
    )


def find_subject(question: str) -> str:
    """Return the words of a question, without those that only ask for passages."""
    words = _WORD.findall(REQUEST_PHRASES.sub(" ", question))
    return " ".join(word for word in words if not _is_request(word))


def _is_request(word: str) -> bool:
    parts = _PART.findall(fold_letters(word)) or [word]
    return REQUEST_WORDS.issuperset(parts) or bool(EAST_ASIAN_REQUEST.fullmatch(word))


def _blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text
