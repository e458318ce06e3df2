"""Notion's pages and their properties are read from a folder or an archive."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from functions.jobs.ingest.listing import list_files
from shared.knowledge.source import Source
from tests.support.epub_files import make_zip
from tests.support.source_files import (
    read_only_source,
    read_problems,
    read_sources,
    read_warnings,
    write_file,
)

ROOT, BOATS, KEEL, GULL = (f"{number:032x}" for number in (0xA1, 0xB2, 0xC3, 0xD4))
HARBOUR = f"""# Harbour

Boats are [here](Harbour%20{ROOT}/Boats%20{BOATS}.csv), and first of all
[Keel & Co (old)](Harbour%20{ROOT}/Boats%20{BOATS}/Keel%20&%20Co%20(old)%20{KEEL}.md).
See [the web](https://example.org/{ROOT}).

<aside>
💡 Moor well.

</aside>

![A quay](Harbour%20{ROOT}/quay.png)
"""
KEEL_PAGE = f"""# Keel & Co: (old)

Tags: oak, sea
URL: https://example.org/keel
Author: Ann Helm
Created: May 31, 2024 4:41 PM
Status: Done
Sister: Gull (Gull%20{GULL}.md), Tern (of 1920)

A keel of oak lasts: longer than a sail.
"""
TABLE = """Name,Tags,Status,Created
Keel & Co: (old),"oak, sea",Done,"May 31, 2024 4:41 PM"
Gull,,,
Tern,"elm, sea",Lost,"June 1, 2024"
"""
PAGES: dict[str, str | bytes] = {
    f"Harbour {ROOT}.md": HARBOUR,
    f"Harbour {ROOT}/Boats {BOATS}.csv": "Name,Tags\nGull,\n",
    f"Harbour {ROOT}/Boats {BOATS}_all.csv": TABLE.replace("\n", "\r\n").encode("utf-8-sig"),
    f"Harbour {ROOT}/Boats {BOATS}/Keel & Co (old) {KEEL}.md": KEEL_PAGE,
    f"Harbour {ROOT}/Boats {BOATS}/Gull {GULL}.md": "# Gull\n\nRelated: soon\n",
    f"Harbour {ROOT}/quay.png": "PNG",
}


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        write_file(folder, name, content)
    return folder


def write_archive(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    return write_file(folder, "Export-0123.zip", make_zip(files))


def write_parts(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write an archive of two archives, as Notion does for a large export."""
    names = list(files)
    one, two = (make_zip({name: files[name] for name in half}) for half in (names[:3], names[3:]))
    members = {"ExportBlock-01-Part-1.zip": one, "ExportBlock-01-Part-2.zip": two}
    return write_file(folder, "aabb_ExportBlock-01.zip", make_zip(members))


@pytest.fixture(params=[write_files, write_archive, write_parts])
def sources(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Source]:
    """The sources of an export in a folder, in an archive, and in an archive of archives."""
    request.param(tmp_path, PAGES)
    assert read_problems(tmp_path) == read_warnings(tmp_path) == []
    return {source.title: source for source in read_sources(tmp_path)}


def test_the_list_of_an_unpacked_export_is_counted(tmp_path: Path) -> None:
    write_files(tmp_path, PAGES | {"index.html": "<ul><li>Harbour</ul>"})
    assert read_problems(tmp_path) == []
    assert list_files(tmp_path).not_read == "1 .html, 1 .png"


def test_titles_are_without_ids_and_rows_not_read_twice(sources: dict[str, Source]) -> None:
    assert sources.keys() == {"Harbour", "Keel & Co: (old)", "Gull", "Boats"}
    assert {source.origin for source in sources.values()} == {"notion"}


def test_properties_of_a_page_are_fields(sources: dict[str, Source]) -> None:
    keel = sources["Keel & Co: (old)"]
    assert keel.tags == ("oak", "sea")
    assert (keel.author, keel.source_url) == ("Ann Helm", "https://example.org/keel")
    assert keel.sections[0].written_at == datetime(2024, 5, 31, 16, 41, tzinfo=UTC)
    assert keel.text == (
        "# Keel & Co: (old)\n\nStatus: Done\nSister: Gull, Tern (of 1920)\n\n"
        "A keel of oak lasts: longer than a sail."
    )


def test_links_lead_to_pages_and_texts_have_no_ids(sources: dict[str, Source]) -> None:
    harbour, keel = sources["Harbour"], sources["Keel & Co: (old)"]
    assert harbour.links_to is not None
    assert keel.source_id in harbour.links_to
    assert keel.links_to == (sources["Gull"].source_id,)
    assert harbour.text == (
        "# Harbour\n\nBoats are here, and first of all\nKeel & Co (old).\n"
        f"See [the web](https://example.org/{ROOT}).\n\n💡 Moor well."
    )


def test_rows_without_a_page_are_a_source(sources: dict[str, Source]) -> None:
    [section] = sources["Boats"].sections
    assert section.text == "Tern\nStatus: Lost"
    assert section.tags == ("elm", "sea")
    assert section.written_at == datetime(2024, 6, 1, tzinfo=UTC)


def test_a_table_whose_rows_are_pages_is_read_silently(tmp_path: Path) -> None:
    folder = f"Boats {BOATS}"
    write_files(
        tmp_path,
        {f"{folder}.csv": "Name\nGull\n" + "x" * 60, f"Boats/Gull {GULL}.md": "# Gull\n"}
        | {f"{folder}/{'x' * 50} {KEEL}.md": "# A long title that Notion cut\n"},
    )
    titles = [source.title for source in read_sources(tmp_path)]
    assert sorted(titles) == ["A long title that Notion cut", "Gull"]
    assert read_problems(tmp_path) == read_warnings(tmp_path) == []


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("Date: soon", "Date: soon"),
        ("Date: 06/01/2024", "Date: 06/01/2024"),
        ("Date: May 31, 2024 → June 2, 2024", ""),
        ("Source: a letter", "Source: a letter"),
        ("Erstellt am: 31. Mai 2024", ""),
        ("Author: ", ""),
    ],
)
def test_a_property_that_is_no_field_stays_in_the_text(
    tmp_path: Path, line: str, rest: str
) -> None:
    path = write_file(tmp_path, f"Keel {KEEL}.md", f"# Keel\n\n{line}\n\nOak.\n")
    parts = ["# Keel", rest, "Oak."]
    assert read_only_source(path).text == "\n\n".join(filter(None, parts))
    assert read_warnings(path) == []


def test_pages_keep_their_ids_when_they_are_renamed(tmp_path: Path) -> None:
    write_archive(tmp_path / "a", {f"Gull {GULL}.md": "# Gull\n"})
    write_archive(tmp_path / "b", {f"Boats {BOATS}/Tern {GULL}.md": "# Tern\n"})
    (tmp_path / "b").rename(tmp_path / "c")
    (tmp_path / "a").rename(tmp_path / "b")
    before = read_only_source(tmp_path / "b").source_id
    (tmp_path / "b").rename(tmp_path / "a")
    (tmp_path / "c").rename(tmp_path / "b")
    assert read_only_source(tmp_path / "b").source_id == before


def test_other_archives_are_counted_and_broken_exports_refused(tmp_path: Path) -> None:
    write_file(tmp_path, "note.md", "Words.")
    other = write_file(tmp_path, "other.zip", make_zip({"a.md": "Words."}))
    assert list_files(tmp_path).not_read == "1 .zip"
    assert read_problems(other) == [
        ("other.zip", "is neither Notion's “Markdown & CSV” nor an export of conversations")
    ]
    names = ["0a-b1_ExportBlock-2.zip", "Export-0123.zip", "data-2024.zip"]
    for name in names:
        write_file(tmp_path, name, make_zip(PAGES)[:-40])
    reason = "is not a ZIP archive, or was cut off: download it again"
    assert read_problems(tmp_path) == [(name, reason) for name in names]


def test_a_large_archive_is_refused_only_if_its_name_is_notions(tmp_path: Path) -> None:
    write_file(tmp_path, "note.md", "Words.")
    many = make_zip({f"{number}.jpg": "" for number in range(10_001)})
    write_file(tmp_path, "photos.zip", many)
    write_file(tmp_path, "0a-b1_Export-2.zip", many)
    assert list_files(tmp_path).not_read == "1 .zip"
    assert [name for name, _ in read_problems(tmp_path)] == ["0a-b1_Export-2.zip"]


def test_a_page_that_cannot_be_read_loses_only_itself(tmp_path: Path) -> None:
    pages: dict[str, str | bytes] = {
        f"Gull {GULL}.md": b"\x01\x02\xff",
        f"Keel {KEEL}.md": "# Keel\n",
    }
    path = write_archive(tmp_path, pages)
    assert read_only_source(path).title == "Keel"
    [(name, reason)] = read_problems(path)
    assert name == f"Export-0123.zip: Gull {GULL}.md"
    assert reason.startswith("is not text")
