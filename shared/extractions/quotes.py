"""Checks a model's quotes against the passage, and builds extractions from confirmed findings.

A finding is a possible extraction in the model's answer, with a quote that is to support it. The
model may change white space, dashes, quotation marks, accents and case, cut words at both ends and
omit the middle. So only letters and digits are compared, and the passage's own words are stored as
the quote. A quote that the passage does not contain was made up.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from shared.extractions.model import MAX_QUOTE, Content, Extraction, Pattern, compute_extraction_id
from shared.extractions.topic_names import canonicalize_topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from shared.extractions.prompt import Finding, Findings
    from shared.knowledge.queue import PendingChunk

MIN_QUOTE: Final = 12
"""A quote must have at least this many letters and digits, because a shorter one may occur in a
passage by chance."""
MIN_CODE: Final = 3
"""A code example must have at least this many characters, not counting white space."""

# An omission, possibly in brackets: `...`, `[…]`.
_ELLIPSIS: Final = re.compile(r"\s*[\[(]?(?:\u2026|\.{3,})[\])]?\s*")
# The rest of a word, such as `n't` or `5.3`, and the punctuation that closes a sentence.
_REST_OF_WORD: Final = re.compile(
    r"\w*(?:[.,'\u2019]\w+)*[.!?\u2026]*[\"'\u201c\u201d\u2019\u00bb)\]}`]*"
)
_OPENING: Final = "\"'\u201c\u201d\u201e\u2018\u00ab([{`"
"""Quotation marks and brackets that may open a quote."""
_FENCE: Final = re.compile(r"^\s*```.*$", re.MULTILINE)


def build_extractions(
    findings: Findings,
    chunk: PendingChunk,
    *,
    aliases: Mapping[str, str],
    model: str,
    now: datetime,
) -> list[Extraction]:
    """Build extractions from the findings whose quotes the passage contains, without repetitions.

    Other findings are dropped, because the model made them up or the passage instructed the model
    to report them.

    Args:
        aliases: The configured canonical topic names by alias.
    """
    extractions = {}
    for finding in _iterate_findings(findings):
        if quote := find_quote(finding.quote, chunk.content):
            content = _replace_code(finding.content, chunk.content)
            extraction_id = compute_extraction_id(chunk.chunk_id, content)
            extraction = Extraction(
                extraction_id=extraction_id,
                content=content,
                topics=canonicalize_topics(finding.topics, aliases),
                quote=quote,
                source_id=chunk.source_id,
                chunk_id=chunk.chunk_id,
                confidence=finding.confidence,
                model=model,
                extracted_at=now,
                group=chunk.extracted.get(extraction_id, extraction_id),
            )
            extractions[extraction_id] = extraction
    return list(extractions.values())


def count_findings(findings: Findings) -> int:
    """Return the number of findings of all types."""
    return sum(1 for _ in _iterate_findings(findings))


def _iterate_findings(findings: Findings) -> Iterator[Finding[Any]]:
    return chain(findings.decisions, findings.patterns, findings.warnings, findings.methodologies)


def _replace_code(content: Content, text: str) -> Content:
    """Replace a code example by the passage's own code or None, because models complete code."""
    if not isinstance(content, Pattern) or content.code_example is None:
        return content
    return content.model_copy(update={"code_example": find_code(content.code_example, text)})


def find_quote(quote: str, text: str) -> str | None:
    """Return the passage's own words for a quote, or None if the quote is not in the passage.

    The result includes words that the quote omits in the middle. If it would then be too long to
    store, only the words before the first omission are returned.
    """
    exact = quote.strip()
    if exact in text and len(_extract_letters(exact)[0]) >= MIN_QUOTE:
        return exact
    letters, offsets = _extract_letters(text)
    # An ellipsis may be the passage's own, so the quote is first searched for as a whole.
    whole = _find_span(exact, letters, offsets, 0)
    spans = [whole] if whole else _find_spans(_ELLIPSIS.split(exact), letters, offsets)
    if not spans:
        return None
    start, first_end = spans[0]
    _, last_end = spans[-1]
    end = last_end if last_end - start <= MAX_QUOTE else first_end
    return _extend_to_words(text, start, end)


def find_code(code: str, text: str) -> str | None:
    """Return code as a text contains it, or None if the text does not contain it.

    White space and fences are ignored in the comparison. Code that begins a line is returned with
    its indentation.
    """
    pattern = "".join(_FENCE.sub("", code).split())
    offsets = [offset for offset, character in enumerate(text) if not character.isspace()]
    index = "".join(text[offset] for offset in offsets).find(pattern)
    if len(pattern) < MIN_CODE or index < 0:
        return None
    start = offsets[index]
    end = offsets[index + len(pattern) - 1] + 1
    line_start = text.rfind("\n", 0, start) + 1
    return text[start:end] if text[line_start:start].strip() else text[line_start:end]


def _find_spans(parts: list[str], letters: str, offsets: list[int]) -> list[tuple[int, int]]:
    """Return where a text contains the parts of a quote one after the other.

    Args:
        parts: The parts between the omissions.
        letters: The letters and digits of the text.
        offsets: The offset of each of them in the text.

    Returns:
        The start and the end of each part, or an empty list if a part is missing.
    """
    spans: list[tuple[int, int]] = []
    for part in filter(str.strip, parts):
        span = _find_span(part, letters, offsets, spans[-1][1] if spans else 0)
        if span is None:
            return []
        spans.append(span)
    return spans


def _find_span(part: str, letters: str, offsets: list[int], after: int) -> tuple[int, int] | None:
    """Return the start and the end of a part of a quote in a text, or None if it is missing.

    Args:
        after: The offset from which to search.
    """
    pattern, _ = _extract_letters(part)
    if len(pattern) < MIN_QUOTE:
        return None
    index = letters.find(pattern, bisect_left(offsets, after))
    return None if index < 0 else (offsets[index], offsets[index + len(pattern) - 1] + 1)


def _extract_letters(text: str) -> tuple[str, list[int]]:
    """Return a text's letters and digits, without case and accents, and the offset of each."""
    pairs = [
        (letter, offset)
        for offset, character in enumerate(text)
        for letter in unicodedata.normalize("NFKD", character).casefold()
        if letter.isalnum()
    ]
    return "".join(letter for letter, _ in pairs), [offset for _, offset in pairs]


def _extend_to_words(text: str, start: int, end: int) -> str:
    """Return a span of a text, extended to whole words and to enclosing punctuation."""
    while start and (text[start - 1].isalnum() or unicodedata.combining(text[start - 1])):
        start -= 1
    while start and text[start - 1] in _OPENING:
        start -= 1
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    rest_of_word = _REST_OF_WORD.match(text, end)
    return text[start : rest_of_word.end() if rest_of_word else end].strip()
