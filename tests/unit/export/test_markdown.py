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


def test_names_differ_on_file_systems_that_ignore_case() -> None:
    names = [get_file_name(source_id) for source_id in ("file-a", "file-A", "FILE-A", "File-a")]
    assert names[0] == "file-a.md"
    assert len({name.lower() for name in names}) == 4


@pytest.mark.parametrize("reserved_name", ["index", "log", "con", "CON", "lpt1", "-a", "_a"])
def test_reserved_names_are_avoided(reserved_name: str) -> None:
    name = get_file_name(reserved_name)
    assert name.startswith(f"{reserved_name.lower()}-")
    assert name.endswith(".md")


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
        '* [A "b" \\[c\\] \\\\: d #e](sources/file-a.md) - Zoë, books\n'
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
