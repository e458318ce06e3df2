"""From what a model says it found to extractions that rest on the passage's own words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from shared.domain.extraction import Content, Extraction, Pattern, extraction_id
from shared.domain.topics import normal_topics
from shared.extracting.quotes import find_code, find_quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from shared.extracting.findings import Findings, Found
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
