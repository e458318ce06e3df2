"""Exports of other programs are named, and data files in a folder are only counted."""

from pathlib import Path

import pytest

from functions.jobs.ingest.listing import list_files
from tests.support.epub_files import make_zip
from tests.support.source_files import (
    make_readwise_book,
    read_only_source,
    read_problems,
    read_warnings,
    write_export,
    write_file,
)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("package.json", '{"name": "vault", "dependencies": {}}'),
        ("data.json", "[1, 2, 3]"),
        ("broken.json", "{name: no}"),
        ("prices.csv", "date;price\n2024-05-31;7\n"),
        ("empty.csv", ""),
        ("empty.json", ""),
        ("pictures.zip", make_zip({"a.md": "Words.", "b.png": "x"})),
        ("search.json", '{"results": [{"name": "Keel"}], "count": 1}'),
        ("chat.html", "<html><head><title>ChatGPT Data Export</title><script>var jsonData = ["),
    ],
)
def test_a_data_file_in_a_folder_is_counted(
    tmp_path: Path, name: str, content: str | bytes
) -> None:
    write_file(tmp_path, "note.md", "Words.")
    file = write_file(tmp_path, name, content)
    assert read_problems(tmp_path) == read_warnings(tmp_path) == []
    assert list_files(tmp_path).not_read == f"1 {file.suffix}"
    assert read_problems(file), "a file that the user named is an error"


@pytest.mark.parametrize(
    ("name", "content", "program"),
    [
        ("a.csv", "Title,Authors,Contributors,ISBN/UID,Format,Read Status\n", "StoryGraph"),
        ("a.csv", "Book Id,Title,Author,Author l-f\n", "Goodreads"),
        ("a.csv", '"Key","Item Type","Publication Year","Author","Title"\n', "Zotero"),
        ("a.csv", "BookmarkID;VolumeID;Text;Annotation\n", "Kobo"),
        ("a.csv", "Book Title,Author,Clipping\n", "not Readwise's"),
        ("a.csv", "Highlight,Title,Author,URL,Note,Location,Date\na,b,c\n", "not Readwise's"),
        ("a.json", '[{"id": "http://zotero.org/users/1/items/A"}]', "Zotero"),
        ("a.json", '{"asin": "B", "highlights": [{"isNoteOnly": false}]}', "Bookcision"),
        ("a.json", '{"readingJourney": {}, "highlights": []}', "Libby"),
        ("a.json", '{"isTrashed": false, "userEditedTimestampUsec": 1}', "Google Keep"),
        ("a.json", '{"highlights": [{"text": "Reef early."}]}', "not Readwise's"),
    ],
)
def test_a_known_export_is_named(tmp_path: Path, name: str, content: str, program: str) -> None:
    file = write_file(tmp_path, f"vault/{name}", content)
    write_file(tmp_path, "vault/note.md", "Words.")
    assert read_problems(tmp_path / "vault") == []
    [(warned_name, warning)] = read_warnings(tmp_path / "vault")
    assert warned_name == name
    assert program in warning
    assert "not read yet: " in warning
    assert read_problems(file) == [(name, warning)]


def test_a_damaged_readwise_export_is_still_a_failure(tmp_path: Path) -> None:
    write_file(tmp_path, "cut.json", '{"results": [{"user_book_id": 7, "title": "On')
    write_file(tmp_path, "less.csv", "Highlight,Location Type,Highlighted at\nReef early.,,\n")
    assert [name for name, _ in read_problems(tmp_path)] == ["cut.json", "less.csv"]


def test_an_export_of_readwise_is_not_foreign(tmp_path: Path) -> None:
    write_export(tmp_path, make_readwise_book(highlights=[{"text": "Reef early."}]))
    assert read_only_source(tmp_path).text == "Reef early."
