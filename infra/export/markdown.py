"""Formats sources as Markdown for people, as a bundle of the Open Knowledge Format 0.2.

In the format's terms, each source is a concept: a file with YAML front matter, in which `type` is
required. `index.md` lists the files.
https://github.com/GoogleCloudPlatform/knowledge-catalog/blob/main/okf/SPEC.md
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

import yaml

from shared.core.dates import format_day

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from typing import Any

    from shared.knowledge.chunk import Chunk
    from shared.knowledge.source_repository import StoredSource

INDEX_HEAD: Final = '---\nokf_version: "0.2"\n---\n\n# Sources\n\n'
"""The beginning of `index.md`, before the line of each source."""
_WORD: Final = re.compile(r"[a-z0-9]+")
"""A word in a file name, of characters that every file system accepts."""
_MAX_WORDS: Final = 40
"""The maximum length of a title in a file name, in characters."""
_SPECIAL_IN_LINK_TEXT: Final = re.compile(r"([\\\[\]])")
"""The characters that Markdown requires to be escaped in the text of a link."""


def get_file_name(source: StoredSource) -> str:
    """Return the name of a source's file, from its title and its id: `walden-fk3vq2nbx5ta.md`."""
    letters = unicodedata.normalize("NFKD", source.title).encode("ascii", "ignore").decode()
    title = "-".join(_WORD.findall(letters.lower()))[:_MAX_WORDS]
    return f"{title or 'source'}-{source.source_id}.md"


def format_index_entry(source: StoredSource) -> str:
    """Format the line of a source in the index."""
    title = _SPECIAL_IN_LINK_TEXT.sub(r"\\\1", source.title)
    author = f"{source.author}, " if source.author else ""
    return f"* [{title}](sources/{get_file_name(source)}) - {author}{source.category}\n"


def format_front_matter(source: StoredSource, producer: str) -> str:
    """Format the front matter and the heading of a source."""
    fields: dict[str, Any] = {
        "type": source.category,
        "title": source.title,
        "resource": source.source_url or source.readwise_url,
        "tags": list(source.tags),
        "generated": {"by": producer, "at": source.updated_at.isoformat()},
        "author": source.author,
        "language": source.language,
        "origin": source.origin,
        "source_id": source.source_id,
    }
    present = {name: value for name, value in fields.items() if value}
    block = yaml.safe_dump(present, allow_unicode=True, sort_keys=False, width=10_000)
    return f"---\n{block}---\n\n# {source.title}\n"


def format_passage(chunk: Chunk, source: StoredSource, previous_end: int, zone: tzinfo) -> str:
    """Format a passage, and as a quotation its date, tags, link and knowledge card.

    Passages may overlap. Text that the previous passage already contained is left out.

    Args:
        chunk: The passage.
        source: The source of the passage.
        previous_end: The offset in the source's text at which the previous passage ends.
        zone: The time zone of the owner's days.
    """
    text = chunk.content[max(0, previous_end - chunk.start) :].strip()
    details = "\n".join(_quote_details(chunk, source, zone))
    parts = "\n\n".join(filter(None, [text, details]))
    return f"\n{parts}\n"


def _quote_details(chunk: Chunk, source: StoredSource, zone: tzinfo) -> Iterator[str]:
    """Yield the date, tags, links and card of a passage, as lines of a quotation."""
    tags = [tag for tag in chunk.tags if tag not in source.tags]
    own_readwise_url = chunk.readwise_url if chunk.readwise_url != source.readwise_url else None
    facts = [
        format_day(chunk.highlighted_at, zone) if chunk.highlighted_at else None,
        f"tags: {', '.join(tags)}" if tags else None,
        chunk.highlight_url or own_readwise_url,
    ]
    if line := " · ".join(filter(None, facts)):
        yield f"> {line}"
    if card := chunk.knowledge_card:
        yield f"> **Summary:** {' '.join(card.summary.split())}"
        for takeaway in card.takeaways:
            yield f"> - {' '.join(takeaway.split())}"
