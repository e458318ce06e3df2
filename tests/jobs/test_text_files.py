"""Markdown and text become sources; a broken file is named with what to mend."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from shared.domain.source import Section, Source
from tests.jobs.files import broken, only, written

if TYPE_CHECKING:
    from pathlib import Path


def test_front_matter_describes_the_text_below_it(tmp_path: Path) -> None:
    content = (
        "---\ntitle: 12:30 in Paris\nauthor: [Ann, Bob]\ntags: [travel, no, '#2024', travel]\n"
        "URL: https://example.com/paris\ncategory: essays\ndate: 2024-05-31\nlayout: post\n---\n"
        "\n# Heading\n\nWords.\n"
    )
    expected = Source(
        source_id=only(written(tmp_path, "paris.md", "x")).source_id,
        title="12:30 in Paris",
        author="Ann, Bob",
        category="essays",
        tags=("travel", "no", "2024"),
        source_url="https://example.com/paris",
        sections=(
            Section("# Heading\n\nWords.", highlighted_at=datetime(2024, 5, 31, tzinfo=UTC)),
        ),
    )
    assert expected == only(written(tmp_path, "paris.md", content))


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("---\ntitle: Given\n---\n# Heading\n", "Given"),
        ("---\ntitle:\nauthor: null\n---\n# Heading\n", "Heading"),
        ("---\n---\nWords.\n# Heading ##\n", "Heading"),
        ("# C#\n", "C#"),
        ("#hashtag\n\n# ##\n\n## Second level\n", "note"),
        ("```sh\n# a comment\n```\n# Heading\n", "Heading"),
        ("~~~\n# a comment, in a block that never ends\n", "note"),
        ("Words only.", "note"),
        ("# " + "long " * 100, "long " * 59 + "long…"),
    ],
)
def test_the_title_is_given_or_the_first_heading_or_the_file_name(
    tmp_path: Path, content: str, title: str
) -> None:
    assert title == only(written(tmp_path, "note.md", content)).title


@pytest.mark.parametrize(
    "text",
    ["---\nA rule, not front matter.\n---\nWords.", "---\nNo second rule.", "--- a: b ---\nWords."],
)
def test_a_rule_at_the_top_is_part_of_the_text(tmp_path: Path, text: str) -> None:
    assert text == only(written(tmp_path, "note.md", text)).text


def test_tags_may_be_one_line_with_commas(tmp_path: Path) -> None:
    path = written(tmp_path, "note.md", "---\ntags: 'one, two words,, #three'\n---\nWords.")
    assert only(path).tags == ("one", "two words", "three")


def test_line_ends_byte_order_mark_and_control_characters_are_normalised(tmp_path: Path) -> None:
    path = written(tmp_path, "note.txt", b"\xef\xbb\xbfone\r\ntwo\rthree\x0c\tfour\x1b\r\n")
    assert only(path).text == "one\ntwo\nthree\tfour"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "holds no text"),
        (b"---\ntitle: Empty\n---\n \n", "holds no text"),
        (b"abc\0def", "is not text: a NUL byte stands at position 3"),
        (b"\xef\xbb\xbfabc\xe9", "is not UTF-8: byte 0xe9 at position 6; save it as UTF-8"),
        ("Ünicode".encode("utf-16"), "is not text: a NUL byte stands at position 3"),
        (
            b"---\ntitle: a\nauthor: b: c\n---\nWords.",
            "has malformed front matter at line 3: mapping values are not allowed here",
        ),
        (
            b"---\ntitle: a\nauthor: \xef\xbf\xbe\n---\nWords.",
            "has malformed front matter at line 3: special characters are not allowed",
        ),
        (
            b"---\ntitle: " + b"[" * 20_000 + b"\n---\nWords.",
            "has malformed front matter at line 2: nested too deeply",
        ),
        (
            b"---\ndate: yesterday\n---\nWords.",
            "date: “yesterday” is not an ISO 8601 date such as 2024-05-31",
        ),
        (b"---\ntags: {a: b}\n---\nWords.", "tags: Tags are a list, or a text with commas"),
        (b"---\ntags: [[a]]\n---\nx", "tags: A tag is a text, or an object with a name"),
        (b"---\ntitle: {a: b}\n---\nWords.", "title: Input should be a valid string"),
    ],
)
def test_a_broken_text_file_is_named_with_what_to_mend(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    assert [("note.md", reason)] == broken(written(tmp_path, "note.md", content))


def test_front_matter_that_would_unfold_without_end_is_refused_at_once(tmp_path: Path) -> None:
    names = "abcdefghi"
    levels = [f"{name}: &{name} [{f'*{below}, ' * 9}]" for below, name in pairwise(names)]
    unfolding = "\n".join(["a: &a [x]", *levels, "date: *i"])
    path = written(tmp_path, "note.md", f"---\n{unfolding}\n---\nWords.")
    assert broken(path) == [("note.md", "date: A date is a text such as 2024-05-31")]


def test_a_file_name_that_is_not_utf_8_is_read_and_can_be_printed(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.md")
    try:
        path = written(tmp_path, name, "Words.")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert only(path).title == "caf\ufffd"
    path.write_text("")
    assert broken(path) == [("caf\ufffd.md", "holds no text")]
