"""Sources are exported as Markdown files that follow the Open Knowledge Format."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
import yaml

from infra.export.markdown import (
    format_front_matter,
    format_index_entry,
    format_passage,
    get_file_name,
)
from shared.knowledge.chunk import Chunk
from shared.knowledge.knowledge_card import KnowledgeCard
from shared.knowledge.source_repository import StoredSource

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SOURCE = StoredSource(
    source_id="file-a",
    title='A "b" [c] \\: d #e',
    author="Zoë",
    category="books",
    tags=("x", "no"),
    source_url="https://example.com",
    chunk_count=2,
    updated_at=NOON,
)
CHUNK = Chunk(
    chunk_id="file-a-0", source_id="file-a", title=SOURCE.title, tags=("x", "no"),
    start=0, end=9, position=1, total=2, content="One. Two.",
)  # fmt: skip


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Über Käse / Vol. 2", "uber-kase-vol-2-file-a.md"),
        ("x" * 300, f"{'x' * 40}-file-a.md"),
        ("走れ", "source-file-a.md"),
    ],
)
def test_a_file_has_the_words_of_the_title_and_the_id(title: str, expected: str) -> None:
    assert get_file_name(replace(SOURCE, title=title)) == expected


def test_front_matter_has_the_fields_of_the_format() -> None:
    head = format_front_matter(SOURCE, "carrel/1.0")
    _, block, body = head.split("---\n", 2)

    assert yaml.safe_load(block) == {
        "type": "books",
        "title": SOURCE.title,
        "resource": "https://example.com",
        "tags": ["x", "no"],
        "generated": {"by": "carrel/1.0", "at": NOON.isoformat()},
        "author": "Zoë",
        "origin": "file",
        "source_id": "file-a",
    }
    assert body == f"\n# {SOURCE.title}\n"


def test_an_entry_of_the_index_is_a_link() -> None:
    assert format_index_entry(SOURCE) == (
        '* [A "b" \\[c\\] \\\\: d #e](sources/a-b-c-d-e-file-a.md) - Zoë, books\n'
    )  # fmt: skip


def test_a_passage_is_printed_with_its_card_date_tags_and_link() -> None:
    chunk = replace(
        CHUNK,
        tags=("x", "no", "own"),
        highlighted_at=NOON,
        highlight_url="https://example.com/#1",
        knowledge_card=KnowledgeCard("Sum\nmary.", ("First.",)),
    )

    assert format_passage(chunk, SOURCE, 0, UTC) == (
        "\nOne. Two.\n\n> 2026-01-31 · tags: own · https://example.com/#1\n"
        "> **Summary:** Sum mary.\n> - First.\n"
    )


def test_a_passage_is_dated_by_its_owners_day_and_overlaps_are_cut() -> None:
    chunk = replace(CHUNK, tags=(), highlighted_at=NOON)
    assert "> 2026-02-01\n" in format_passage(chunk, SOURCE, 0, ZoneInfo("Pacific/Kiritimati"))
    chunk = replace(CHUNK, start=5, end=16, content="Two. Three.")
    assert format_passage(chunk, SOURCE, 9, UTC) == "\nThree.\n"
