"""What a person has on disk becomes sources; what is broken is named, and the rest goes in."""

from __future__ import annotations

import json
import os
import re
import tempfile
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.jobs.ingest.readers.reading import BrokenInput, read
from shared.domain.source import Section, Source
from shared.errors import InvalidInput


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def sources(path: Path) -> list[Source]:
    return [each for each in read(path) if isinstance(each, Source)]


def broken(path: Path) -> list[tuple[str, str]]:
    return [(each.name, each.reason) for each in read(path) if isinstance(each, BrokenInput)]


def only(path: Path) -> Source:
    (source,) = read(path)
    assert isinstance(source, Source)
    return source


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def book(**fields: Any) -> dict[str, Any]:
    return {"user_book_id": 7, "title": "Walden", "highlights": [{"text": "Simplify."}], **fields}


def export(folder: Path, *books: Any) -> Path:
    return written(folder, "export.json", json.dumps({"count": len(books), "results": books}))


# Readwise exports


def test_a_readwise_book_becomes_a_source_with_a_section_for_each_highlight(tmp_path: Path) -> None:
    path = export(
        tmp_path,
        {
            "user_book_id": 12345,
            "is_deleted": False,
            "title": "walden; or, life in the woods",
            "author": "Henry David Thoreau",
            "readable_title": "Walden",
            "source": "kindle",
            "cover_image_url": "https://example.com/cover.jpg",
            "unique_url": None,
            "summary": None,
            "book_tags": [{"id": 1, "name": "nature"}],
            "category": "books",
            "document_note": None,
            "readwise_url": "https://readwise.io/bookreview/12345",
            "source_url": "https://example.com/walden",
            "asin": "B000000000",
            "highlights": [
                {
                    "id": 10,
                    "is_deleted": False,
                    "text": " Simplify, simplify. ",
                    "location": 1831,
                    "location_type": "location",
                    "note": "Twice!",
                    "color": "yellow",
                    "highlighted_at": "2024-05-31T16:41:53.186Z",
                    "created_at": "2024-05-31T16:41:53.186Z",
                    "updated_at": "2024-05-31T16:41:53.186Z",
                    "external_id": None,
                    "end_location": None,
                    "url": "https://example.com/walden#1831",
                    "book_id": 12345,
                    "tags": [{"id": 2, "name": "simplicity"}],
                    "is_favorite": False,
                    "is_discard": False,
                    "readwise_url": "https://readwise.io/open/10",
                }
            ],
        },
    )
    expected = Source(
        source_id="readwise-12345",
        title="Walden",
        author="Henry David Thoreau",
        origin="kindle",
        category="books",
        tags=("nature",),
        readwise_url="https://readwise.io/bookreview/12345",
        source_url="https://example.com/walden",
        sections=(
            Section(
                "Simplify, simplify.\n\nNote: Twice!",
                tags=("simplicity",),
                readwise_url="https://readwise.io/open/10",
                highlight_url="https://example.com/walden#1831",
                highlighted_at=datetime(2024, 5, 31, 16, 41, 53, 186000, tzinfo=UTC),
            ),
        ),
    )
    assert expected == only(path)


def test_highlights_come_in_reading_order_and_those_without_a_place_last(tmp_path: Path) -> None:
    highlights = [
        {"id": 4, "text": "nowhere", "location": None},
        {"id": 3, "text": "later", "location": 20},
        {"id": 2, "text": "second here", "location": 10},
        {"id": 1, "text": "first here", "location": 10},
    ]
    source = only(export(tmp_path, book(highlights=highlights)))
    expected = ["first here", "second here", "later", "nowhere"]
    assert expected == [section.text for section in source.sections]


def test_deleted_discarded_and_empty_highlights_are_left_out(tmp_path: Path) -> None:
    highlights = [
        {"text": "kept"},
        {"text": "deleted", "is_deleted": True},
        {"text": "discarded", "is_discard": True},
        {"text": None, "note": ""},
        {"text": "", "note": "only a note"},
    ]
    source = only(export(tmp_path, book(highlights=highlights)))
    assert [section.text for section in source.sections] == ["kept", "Note: only a note"]


@pytest.mark.parametrize(
    "fields",
    [
        {"is_deleted": True},
        {"is_deleted": True, "highlights": None},
        {"highlights": []},
        {"highlights": [{"text": "gone", "is_deleted": True}]},
    ],
)
def test_a_book_that_was_deleted_or_emptied_has_no_sections(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    assert only(export(tmp_path, book(**fields))).sections == ()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"highlights": None}, "has no `highlights`"),
        ({"highlights": [{"text": " "}]}, "holds no text: all its highlights are empty"),
        ({"highlights": [{"text": []}]}, "highlights.0.text: Input should be a valid string"),
        ({"user_book_id": None}, "user_book_id: String should have at least 1 character"),
        ({"book_tags": "a, b", "highlights": 3}, "highlights: Input should be a valid list"),
        (
            {"highlights": [{"text": "x", "highlighted_at": "May 31"}]},
            "highlights.0.highlighted_at: “May 31” is not an ISO 8601 date such as 2024-05-31",
        ),
    ],
)
def test_a_broken_book_is_named_and_the_others_go_in(
    tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    path = export(tmp_path, book(**fields), book(user_book_id=8))
    assert [("export.json: Walden", reason)] == broken(path)
    assert [source.source_id for source in sources(path)] == ["readwise-8"]


def test_a_book_that_cannot_be_named_is_counted(tmp_path: Path) -> None:
    path = export(tmp_path, book(), None, {"user_book_id": 9})
    expected = [
        ("export.json: book 2", "is not a JSON object"),
        ("export.json: 9", "has no `highlights`"),
    ]
    assert expected == broken(path)


def test_only_the_first_few_faults_of_a_book_are_listed(tmp_path: Path) -> None:
    ((_, reason),) = broken(export(tmp_path, book(highlights=[{"text": []}] * 9)))
    assert reason.endswith("highlights.2.text: Input should be a valid string; and 6 more")


def test_a_bare_list_of_books_is_an_export_too(tmp_path: Path) -> None:
    path = written(tmp_path, "books.json", json.dumps([book()]))
    assert only(path).source_id == "readwise-7"


def test_a_book_with_nothing_but_its_id_and_highlights_gets_a_name(tmp_path: Path) -> None:
    source = only(export(tmp_path, {"user_book_id": "7", "highlights": [{"text": "x"}]}))
    expected = Source("readwise-7", "Readwise book 7", origin="readwise", sections=(Section("x"),))
    assert expected == source


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{}", "is not a Readwise export: neither a list of books nor `results` with one"),
        (b'"text"', "is not a Readwise export: neither a list of books nor `results` with one"),
        (b'{"results":\n[,]}', "is not JSON: Expecting value (line 2, column 2)"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"", "is not JSON: Expecting value (column 1)"),
        (b'["\xff"]', "is not UTF-8: byte 0xff at position 2; save it as UTF-8"),
    ],
)
def test_a_json_file_that_is_no_export_is_broken(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    assert [("export.json", reason)] == broken(written(tmp_path, "export.json", content))


def test_a_number_too_long_for_python_breaks_its_file_only(tmp_path: Path) -> None:
    written(tmp_path, "export.json", "[" + "9" * 5000 + "]")
    written(tmp_path, "note.md", "Words.")
    ((name, reason),) = broken(tmp_path)
    assert (name, reason.startswith("holds a number that is too long")) == ("export.json", True)
    assert len(sources(tmp_path)) == 1


# Markdown and text


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
            b"---\ntitle: a\nauthor: \xc2\x80\n---\nWords.",
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


def test_a_source_keeps_its_id_when_its_folder_moves(tmp_path: Path) -> None:
    before = only(written(tmp_path, "old/a/b.md", "Words.").parents[1])
    after = only(written(tmp_path, "new/place/a/b.md", "Words.").parents[1])
    assert before == after


def test_paths_that_differ_in_punctuation_only_get_ids_of_their_own(tmp_path: Path) -> None:
    for name in ("a/b.md", "a-b.md", "a_b.md", "a b.md", "a.b.md", "a/b.txt"):
        written(tmp_path, name, "Words.")
    ids = {source.source_id for source in sources(tmp_path)}
    assert (len(ids), all(re.fullmatch(r"[\w-]{1,64}", each) for each in ids)) == (6, True)


def test_a_file_name_that_is_not_utf_8_is_read_and_can_be_printed(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.md")
    try:
        path = written(tmp_path, name, "Words.")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert only(path).title == "caf\ufffd"
    path.write_text("")
    assert broken(path) == [("caf\ufffd.md", "holds no text")]


# JSON Lines


def test_a_line_becomes_a_source(tmp_path: Path) -> None:
    line = {
        "id": "doc-1",
        "title": "A title",
        "text": "Some\r\ntext.",
        "author": "Ann",
        "tags": ["a", {"name": "b"}, 3, None],
        "source": "wiki",
        "category": "articles",
        "url": "https://example.com",
        "highlight_url": "https://example.com#1",
        "readwise_url": "https://readwise.io/open/1",
        "date": "2024-05-31T12:00:00+02:00",
        "unknown": {"is": "ignored"},
    }
    section = Section(
        "Some\ntext.",
        readwise_url="https://readwise.io/open/1",
        highlight_url="https://example.com#1",
        highlighted_at=datetime(2024, 5, 31, 10, tzinfo=UTC),
    )
    expected = Source(
        source_id="doc-1",
        title="A title",
        author="Ann",
        origin="wiki",
        category="articles",
        tags=("a", "b", "3"),
        source_url="https://example.com",
        sections=(section,),
    )
    assert expected == only(written(tmp_path, "docs.jsonl", lines(line)))


def test_a_corpus_in_beirs_format_is_read(tmp_path: Path) -> None:
    line = {"_id": 31715818, "title": "", "text": "New opportunities. " * 9, "metadata": {}}
    source = only(written(tmp_path, "corpus.jsonl", lines(line)))
    opening = "New opportunities. " * 4 + "New…"
    assert ("31715818", opening, "jsonl") == (source.source_id, source.title, source.origin)


def test_broken_lines_are_numbered_and_the_others_go_in(tmp_path: Path) -> None:
    content = b"\n".join(
        [
            b'\xef\xbb\xbf{"id": "first", "text": "x"}',
            b'{"id": "cut", "text": "x',
            b"",
            b'{"id": "latin", "text": "caf\xe9"}',
            b'{"text": "x"}',
            b'{"id": " ", "text": "x"}',
            b'{"id": "empty", "title": "Only a title"}',
            b'["a", "list"]',
            b'{"id": "when", "text": "x", "date": 2024}',
            b'{"id": "first", "text": "again"}',
            b'{"id": "last", "text": "x"}',
        ]
    )
    path = written(tmp_path, "file.jsonl", content)
    expected = [
        ("file.jsonl line 2", "is not JSON: Unterminated string starting at (column 23)"),
        ("file.jsonl line 4", "is not UTF-8: byte 0xe9 at position 28; save it as UTF-8"),
        ("file.jsonl line 5", "id: Field required"),
        ("file.jsonl line 6", "id: String should have at least 1 character"),
        ("file.jsonl line 7", "holds no text"),
        ("file.jsonl line 8", "is not a JSON object"),
        ("file.jsonl line 9", "date: “2024” is not an ISO 8601 date such as 2024-05-31"),
        ("file.jsonl line 10", "has the id of file.jsonl line 1; keep one of the two"),
    ]
    assert expected == broken(path)
    assert [source.source_id for source in sources(path)] == ["first", "last"]


def test_half_a_surrogate_pair_becomes_a_replacement_character(tmp_path: Path) -> None:
    content = (
        r'{"id": "1", "title": "\ud83d", "text": "\ud83d\ude00 \ude00\u0000", "tags": ["\udfff"]}'
    )
    source = only(written(tmp_path, "docs.jsonl", content))
    assert (source.title, source.text, source.tags) == ("\ufffd", "\U0001f600 \ufffd", ("\ufffd",))


@pytest.mark.parametrize(
    ("date", "moment"),
    [
        ("2024-05-31", datetime(2024, 5, 31, tzinfo=UTC)),
        ("2024-05-31 12:30", datetime(2024, 5, 31, 12, 30, tzinfo=UTC)),
        ("2024-05-31T12:30:00Z", datetime(2024, 5, 31, 12, 30, tzinfo=UTC)),
        ("2024-05-31T12:30:00.5-05:30", datetime(2024, 5, 31, 18, 0, 0, 500000, tzinfo=UTC)),
        ("", None),
        (None, None),
    ],
)
def test_dates_are_utc_where_nothing_else_is_said(
    tmp_path: Path, date: str | None, moment: datetime | None
) -> None:
    path = written(tmp_path, "docs.jsonl", lines({"id": "1", "text": "x", "date": date}))
    assert moment == only(path).sections[0].highlighted_at


def test_a_date_outside_the_calendar_in_utc_is_broken(tmp_path: Path) -> None:
    line = {"id": "1", "text": "x", "date": "0001-01-01T00:00:00+14:00"}
    ((_, reason),) = broken(written(tmp_path, "docs.jsonl", lines(line)))
    assert "0001-01-01" in reason


def test_a_file_is_read_as_far_as_it_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, "docs.jsonl", lines({"id": "1", "text": "x"}))
    reading = read(path)
    path.write_text(lines({"id": "2", "text": "written before the first was asked for"}))
    assert [each.source_id for each in reading if isinstance(each, Source)] == ["2"]


# Folders


def test_a_folder_is_read_in_the_order_of_its_paths_and_the_same_way_twice(tmp_path: Path) -> None:
    for name in ("c.md", "b/z.TXT", "b/a.markdown", "a.md"):
        written(tmp_path, name, name)
    written(tmp_path, "b/docs.jsonl", lines({"id": "1", "text": "x"}, {"id": "2", "text": "y"}))
    written(tmp_path, "d.md", "")
    expected = ["a.md", "b/a.markdown", "x", "y", "b/z.TXT", "c.md"]
    assert expected == [source.text for source in sources(tmp_path)]
    assert list(read(tmp_path)) == list(read(tmp_path))


def test_hidden_files_and_other_kinds_are_passed_over(tmp_path: Path) -> None:
    for name in (".hidden.md", ".obsidian/app.json", "a/.trash/old.md", "picture.png", "README"):
        written(tmp_path, name, "Words.")
    written(tmp_path, "note.md", "Words.")
    assert only(tmp_path).title == "note"


def test_links_are_followed_once_and_circles_end(tmp_path: Path) -> None:
    root = tmp_path / "root"
    written(root, "real/note.md", "Inside.")
    written(tmp_path, "elsewhere/far.md", "Outside.")
    (root / "a-link-to-real").symlink_to(root / "real")
    (root / "real/up").symlink_to(root)
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/back").symlink_to(root)
    assert [source.text for source in sources(root)] == ["Outside.", "Inside."]


def test_what_cannot_be_opened_is_named_and_the_rest_goes_in(tmp_path: Path) -> None:
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle.jsonl").symlink_to(tmp_path / "circle.jsonl")
    os.mkfifo(tmp_path / "pipe.json")
    written(tmp_path, "note.md", "Words.")
    expected = [
        ("circle.jsonl", "cannot be opened: Too many levels of symbolic links"),
        ("gone.md", "cannot be opened: No such file or directory"),
        ("pipe.json", "is not a regular file"),
    ]
    assert expected == broken(tmp_path)
    assert len(sources(tmp_path)) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may open everything")
def test_a_closed_folder_is_named_and_the_rest_goes_in(tmp_path: Path) -> None:
    written(tmp_path, "closed/note.md", "Words.").parent.chmod(0)
    written(tmp_path, "note.md", "Words.")
    found = list(read(tmp_path))
    (tmp_path / "closed").chmod(0o700)
    assert BrokenInput("closed", "cannot be opened: Permission denied") == found[0]
    assert len(found) == 2


def test_an_id_that_another_file_has_is_reported_with_both_places(tmp_path: Path) -> None:
    written(tmp_path, "a.jsonl", lines({"id": "readwise-7", "text": "x"}))
    export(tmp_path, book())
    expected = [("export.json: Walden", "has the id of a.jsonl line 1; keep one of the two")]
    assert expected == broken(tmp_path)


@pytest.mark.parametrize("name", ["missing", "missing.md", "image.png", "empty", "a\0b"])
def test_a_path_with_nothing_to_read_is_refused_at_once(tmp_path: Path, name: str) -> None:
    written(tmp_path, "image.png", b"\x89PNG")
    written(tmp_path, "empty/other.png", b"\x89PNG")
    with pytest.raises(InvalidInput, match=r"Give a folder or a file: .*\.jsonl"):
        read(tmp_path / name)


# Whatever stands in the file

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_KEYS = st.sampled_from(
    [
        "id",
        "_id",
        "title",
        "text",
        "tags",
        "date",
        "url",
        "author",
        "source",
        "results",
        "name",
        "highlights",
        "user_book_id",
        "location",
        "note",
        "book_tags",
        "is_deleted",
    ]
)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=8),
    max_leaves=20,
)
_BOOKS = st.lists(
    st.fixed_dictionaries(
        {"user_book_id": _JSON, "highlights": st.lists(st.dictionaries(_KEYS, _JSON)) | _JSON},
        optional={"title": _JSON, "author": _JSON, "book_tags": _JSON, "is_deleted": _JSON},
    ),
    max_size=3,
)
_LINES = st.dictionaries(_KEYS, _JSON | st.text(), max_size=8)
_FRONT_MATTER = st.text(alphabet="ab:-[]{}&*!|>'\"#%@,?\\xuU0\n \t\x85\ud800", max_size=40)


def assert_readable(name: str, content: bytes) -> None:
    """Every entry can be stored and printed, and a second reading finds the same."""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), name, content)
        found = list(read(path))
        assert list(read(path)) == found
    for each in found:
        shown = [each.title, each.text] if isinstance(each, Source) else [each.name]
        assert not re.search(r"[\x00-\x08\x0b-\x1f]", "".join(shown))
        f"{each}{shown}".encode()
        if isinstance(each, Source):
            assert re.fullmatch(r"[\w-]{1,64}", each.source_id, re.ASCII)
            assert each.title.strip()
            assert all(section.text.strip() for section in each.sections)


@settings(deadline=None)
@given(st.sampled_from(["a.md", "a.txt", "a.jsonl", "a.json"]), st.binary(max_size=200))
def test_no_bytes_stop_the_reading(name: str, content: bytes) -> None:
    assert_readable(name, content)


@settings(deadline=None)
@given(st.lists(_LINES | _JSON, max_size=3))
def test_no_json_stops_the_reading_of_lines(values: list[Any]) -> None:
    assert_readable("a.jsonl", "\n".join(map(json.dumps, values)).encode())


@settings(deadline=None)
@given(value=_BOOKS | _JSON, paged=st.booleans())
def test_no_json_stops_the_reading_of_an_export(*, value: Any, paged: bool) -> None:
    assert_readable("a.json", json.dumps({"results": value} if paged else value).encode())


@settings(deadline=None)
@given(st.sampled_from(["", "title: ", "tags: ", "date: "]), _FRONT_MATTER)
def test_no_front_matter_stops_the_reading(key: str, block: str) -> None:
    content = f"---\n{key}{block}\n---\nWords.\n"
    assert_readable("a.md", content.encode("utf-8", "surrogatepass"))
