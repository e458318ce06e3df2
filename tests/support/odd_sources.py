"""Random sources with unusual characters, for tests that no text is changed when it is stored."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from shared.core.ids import IdKind, make_id
from shared.knowledge.source import Section, Source

_PIECES: Final = (
    "sea", "Ship's", "“reef”", "näïve", "チーズ 🧀",
    "👩🏽‍🍳", "مرحبا", "e\u0301", "\u202eabc\u202c",
    "a\\nb", '"', "{}", "[x](y)", "---", "...", "# H", "> q", "- i", "| t |", "```", "\t", "\u2028",
    "\x7f", "\x1b[2J", "null", "no", "1e9", "~", "%20", "../..", "C:\\", "<b>", "&amp;", "\u00a0",
    "\ufeff", "\U0010fffe",
)  # fmt: skip
"""Pieces that careless code would change: scripts, controls, Markdown, JSON, YAML, paths, HTML."""
_START: Final = datetime(2019, 2, 28, 23, 59, 59, 999_999, UTC)
"""The earliest date: a microsecond before midnight and the end of the month."""
_MAX_MICROSECONDS: Final = 10**15
"""The span of dates in microseconds: 31 years."""


def make_odd_text(random: Random, pieces: int) -> str:
    """Return a text of random pieces that does not begin or end with white space."""
    separators = (" ", " ", " ", ". ", "\n", "\n\n", "\r\n")
    words = [random.choice(_PIECES) + random.choice(separators) for _ in range(pieces)]
    return ("".join(words).strip() or "x").strip()


def _make_line(random: Random) -> str:
    return " ".join(make_odd_text(random, random.randint(1, 4)).split()) or "x"


def _make_moment(random: Random) -> datetime | None:
    if random.random() < 0.5:
        return None
    return _START + timedelta(microseconds=random.randrange(_MAX_MICROSECONDS))


def _drop_at_random(random: Random, value: str) -> str | None:
    return value if random.random() < 0.5 else None


def _make_tags(random: Random) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_make_line(random) for _ in range(random.randrange(3))))


def _make_section(random: Random, number: int) -> Section:
    # A few sections have more text than fits into a chunk.
    pieces = 900 if random.random() < 0.02 else random.choice((1, 5, 30))
    return Section(
        make_odd_text(random, pieces),
        tags=_make_tags(random),
        readwise_url=_drop_at_random(random, f"https://readwise.io/open/{number}"),
        highlight_url=_drop_at_random(random, f"https://example.com/#{number}"),
        highlighted_at=_make_moment(random),
        written_at=_make_moment(random),
    )


def make_odd_sources(random: Random, count: int) -> list[Source]:
    """Return sources, of which some link to others."""
    ids = [make_id(IdKind.FILE, f"{number}") for number in range(count)]
    sources: list[Source] = []
    for number, source_id in enumerate(ids):
        sections = [_make_section(random, number) for _ in range(random.randint(1, 3))]
        if random.random() < 0.2:
            sections.append(sections[0])  # a repeated text has another id
        sources.append(
            Source(
                source_id=source_id,
                title=_make_line(random),
                author=_drop_at_random(random, _make_line(random)),
                origin=random.choice(("file", "kindle", _make_line(random))),
                category=random.choice(("books", "note", _make_line(random))),
                tags=_make_tags(random),
                readwise_url=_drop_at_random(random, f"https://readwise.io/{number}"),
                source_url=_drop_at_random(random, f"https://example.com/{number}"),
                language=_drop_at_random(random, "de"),
                links_to=tuple(random.sample(ids, 2)) if random.random() < 0.3 else None,
                sections=tuple(sections),
            )
        )
    return sources
