"""Quotes of a finding, held against the text that they are from.

Quotes: where the words stand that a model says it quotes.

A model changes white space, dashes, quotation marks, accents and case, cuts words at both ends and
leaves out a middle. So letters and digits alone are compared, and what is kept are the passage's
own words. What is not there at all was made up.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from shared.extractions.model import LONGEST_QUOTE, Content, Extraction, Pattern, extraction_id
from shared.extractions.topic_names import normal_topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from shared.extractions.prompt import Findings, Found
    from shared.knowledge.queue import PendingChunk

    Entry = Found[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What extractions rest on.

    Attributes:
        chunk: The passage.
        aliases: Other names of topics to their own, beside those that Carrel knows.
        model: The model that read it.
        now: When.
    """

    chunk: PendingChunk
    aliases: Mapping[str, str]
    model: str
    now: datetime

    def extractions(self, findings: Findings) -> list[Extraction]:
        """The findings whose quotes stand in the passage, each once, with its words for quotes.

        What cannot be quoted is left out: it was made up, or the passage told the model to say it.
        """
        quoted = [(each, find_quote(each.quote, self.chunk.content)) for each in _entries(findings)]
        made = [self._extraction(found, quote) for found, quote in quoted if quote]
        return list({each.extraction_id: each for each in made}.values())

    def _extraction(self, found: Entry, quote: str) -> Extraction:
        content = _with_own_code(found.content, self.chunk.content)
        return Extraction(
            extraction_id=extraction_id(self.chunk.chunk_id, content),
            content=content,
            topics=normal_topics(found.topics, self.aliases),
            quote=quote,
            source_id=self.chunk.source_id,
            chunk_id=self.chunk.chunk_id,
            confidence=found.confidence,
            model=self.model,
            extracted_at=self.now,
        )


def count(findings: Findings) -> int:
    """How many entries there are."""
    return sum(1 for _ in _entries(findings))


def _entries(findings: Findings) -> Iterator[Entry]:
    return chain(findings.decisions, findings.patterns, findings.warnings, findings.methodologies)


def _with_own_code(content: Content, text: str) -> Content:
    """A content whose code is the passage's own, or has none: models complete what they read."""
    if not isinstance(content, Pattern) or content.code_example is None:
        return content
    return content.model_copy(update={"code_example": find_code(content.code_example, text)})


LEAST: Final = 12
"""Letters and digits that a quote must have: fewer stand in any passage."""
LEAST_CODE: Final = 3
"""Characters that code must have."""

_LEFT_OUT: Final = re.compile(r"\s*[\[(]?(?:\u2026|\.{3,})[\])]?\s*")
_REST_OF_WORD: Final = re.compile(
    r"\w*(?:[.,'\u2019]\w+)*[.!?\u2026]*[\"'\u201c\u201d\u2019\u00bb)\]}`]*"
)
_OPENING: Final = "\"'\u201c\u201d\u201e\u2018\u00ab([{`"
_FENCE: Final = re.compile(r"^\s*```.*$", re.MULTILINE)


def find_quote(quote: str, text: str) -> str | None:
    """The words of a text that a quote stands for, as they stand there; None if they do not.

    Where a quote leaves something out, that is put back, unless it is too long to be kept: then
    what comes before it is the quote.
    """
    exact = quote.strip()
    if exact in text and len(_letters(exact)[0]) >= LEAST:
        return exact
    text_letters, places = _letters(text)
    whole = _span(exact, text_letters, places, 0)
    spans = [whole] if whole else _spans(_LEFT_OUT.split(exact), text_letters, places)
    if not spans:
        return None
    start, end = spans[0][0], spans[-1][1]
    if end - start > LONGEST_QUOTE:
        end = spans[0][1]
    return _whole_words(text, start, end)


def find_code(code: str, text: str) -> str | None:
    """Code as it stands in a text, whatever its white space and its fences; None if it does not."""
    wanted = "".join(_FENCE.sub("", code).split())
    places = [place for place, each in enumerate(text) if not each.isspace()]
    found = "".join(text[place] for place in places).find(wanted)
    if len(wanted) < LEAST_CODE or found < 0:
        return None
    start, end = places[found], places[found + len(wanted) - 1] + 1
    indented = text.rfind("\n", 0, start) + 1
    return text[start:end] if text[indented:start].strip() else text[indented:end]


def _spans(parts: list[str], letters: str, places: list[int]) -> list[tuple[int, int]]:
    """Where each part of a quote stands, one after the other; nothing if one does not."""
    spans: list[tuple[int, int]] = []
    for part in filter(str.strip, parts):
        span = _span(part, letters, places, spans[-1][1] if spans else 0)
        if span is None:
            return []
        spans.append(span)
    return spans


def _span(part: str, letters: str, places: list[int], after: int) -> tuple[int, int] | None:
    """Where a text whose letters and their places are given holds those of a part."""
    wanted, _ = _letters(part)
    if len(wanted) < LEAST:
        return None
    found = letters.find(wanted, bisect_left(places, after))
    return None if found < 0 else (places[found], places[found + len(wanted) - 1] + 1)


def _letters(text: str) -> tuple[str, list[int]]:
    """A text's letters and digits, without case and accents, and where each of them stands."""
    found = [
        (letter, place)
        for place, each in enumerate(text)
        for letter in unicodedata.normalize("NFKD", each).casefold()
        if letter.isalnum()
    ]
    return "".join(letter for letter, _ in found), [place for _, place in found]


def _whole_words(text: str, start: int, end: int) -> str:
    """A stretch of a text, with the rest of words that it cuts and the marks that close it."""
    while start and (text[start - 1].isalnum() or unicodedata.combining(text[start - 1])):
        start -= 1
    while start and text[start - 1] in _OPENING:
        start -= 1
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    rest = _REST_OF_WORD.match(text, end)
    return text[start : rest.end() if rest else end].strip()
