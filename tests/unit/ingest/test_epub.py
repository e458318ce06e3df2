"""An EPUB becomes a book of chapters; a protected or hostile one is refused with advice."""

from __future__ import annotations

import io
import struct
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from functions.jobs.ingest.readers.archives import MAX_ENTRIES
from functions.jobs.ingest.readers.epub.book import MAX_BYTES
from shared.knowledge.source import Source
from tests.support.epub_files import make_epub, make_nav, make_ncx, make_xhtml, make_zip
from tests.support.source_files import read_only_source, read_problems, read_warnings, write_file

ONE, TWO = "<h1>Wind</h1><p>The wind fills the sail.</p>", "<h1>Reefs</h1><p>Reef early.</p>"
NAV = make_nav(("text/one.xhtml", "Wind"), ("text/two.xhtml", "Reefs"))
PATH_OF_ONE = "OEBPS/text/one.xhtml"


def read_epub(folder: Path, data: bytes) -> Source:
    return read_only_source(write_file(folder, "sails.epub", data))


def get_refusal(folder: Path, data: bytes) -> str:
    """Return the reason why a book is refused."""
    ((name, reason),) = read_problems(write_file(folder, "sails.epub", data))
    assert name == "sails.epub"
    return reason


def read_members(data: bytes) -> dict[str, bytes]:
    """Return the contents of an archive by their names."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def list_chapters(source: Source) -> list[tuple[str | None, str]]:
    """Return the chapter and the text of each section."""
    return [(section.find_locator(0).chapter, section.text) for section in source.sections]


def test_chapters_are_sections_in_reading_order(tmp_path: Path) -> None:
    documents = {"two.xhtml": TWO, "one.xhtml": ONE}
    source = read_epub(tmp_path, make_epub(documents, nav=NAV, spine=["one.xhtml", "two.xhtml"]))
    assert list_chapters(source) == [
        ("Wind", "Wind\n\nThe wind fills the sail."),
        ("Reefs", "Reefs\n\nReef early."),
    ]


def test_metadata_describe_the_book(tmp_path: Path) -> None:
    source = read_epub(tmp_path, make_epub({"one.xhtml": ONE}))
    assert source.title == "A Handbook of Sails"
    assert source.author == "Ann Helm, Bob Reef"
    assert source.language == "en-GB"
    assert source.category == "books"
    assert source.source_url == "https://example.org/sails"
    assert source.sections[0].written_at == datetime(2019, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "creators",
    [
        (
            '<dc:creator opf:role="trl">Tom Trans</dc:creator>'
            '<dc:creator opf:role="aut">Ann Helm</dc:creator><dc:creator>Bob Reef</dc:creator>'
        ),
        (
            '<dc:creator id="a">Ann Helm</dc:creator><dc:creator id="b">Ida Ill</dc:creator>'
            '<dc:creator id="c">Bob Reef</dc:creator>'
            '<meta refines="#a" property="role">http://id.loc.gov/vocabulary/relators/aut</meta>'
            '<meta refines="#b" property="role" scheme="marc:relators">ill</meta>'
        ),
    ],
)
def test_translators_and_illustrators_are_not_authors(tmp_path: Path, creators: str) -> None:
    metadata = f"<dc:title>Sails</dc:title>{creators}"
    source = read_epub(tmp_path, make_epub({"one.xhtml": ONE}, metadata=metadata))
    assert source.author == "Ann Helm, Bob Reef"


def test_a_collection_has_its_editor(tmp_path: Path) -> None:
    metadata = '<dc:creator opf:role="edt">Ed Itor</dc:creator>'
    assert read_epub(tmp_path, make_epub({"one.xhtml": ONE}, metadata=metadata)).author == "Ed Itor"


@pytest.mark.parametrize("event", ["modification", "conversion"])
def test_the_date_of_a_book_is_that_of_publication(tmp_path: Path, event: str) -> None:
    metadata = (
        f'<dc:date opf:event="{event}">2024-05-31</dc:date>'
        '<dc:date opf:event="publication">2019-03-01</dc:date>'
    )
    source = read_epub(tmp_path, make_epub({"one.xhtml": ONE}, metadata=metadata))
    assert source.sections[0].written_at == datetime(2019, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize("metadata", ["", "<dc:creator>Unknown</dc:creator>"])
def test_a_book_without_metadata_has_its_files_name(tmp_path: Path, metadata: str) -> None:
    source = read_epub(tmp_path, make_epub({"one.xhtml": ONE}, metadata=metadata))
    assert source.title == "sails"
    assert source.author is None
    assert source.language is None


def test_an_ncx_names_the_chapters_of_older_books(tmp_path: Path) -> None:
    ncx = make_ncx(("text/one.xhtml", "I. Wind"), ("text/two.xhtml", "II. Reefs"))
    source = read_epub(tmp_path, make_epub({"one.xhtml": ONE, "two.xhtml": TWO}, ncx=ncx))
    assert [chapter for chapter, _ in list_chapters(source)] == ["I. Wind", "II. Reefs"]


def test_chapters_in_one_document_begin_at_their_ids(tmp_path: Path) -> None:
    body = '<p>Preface.</p><h1 id="a">Wind</h1><p>Blows.</p><p><a name="b"/>Reefs.</p><p>Hold.</p>'
    nav = make_nav(("text/one.xhtml#a", "Wind"), ("text/one.xhtml#b", "Reefs"))
    source = read_epub(tmp_path, make_epub({"one.xhtml": body}, nav=nav))
    assert list_chapters(source) == [
        (None, "Preface."),
        ("Wind", "Wind\n\nBlows."),
        ("Reefs", "Reefs.\n\nHold."),
    ]


def make_nested_nav(address: str) -> str:
    """Return a navigation document with a part and its first chapter, at this address."""
    return make_xhtml(
        '<nav epub:type="toc"><ol><li><a href="text/one.xhtml">Part One</a>'
        f'<ol><li><a href="{address}">Wind</a></li></ol></li></ol></nav>'
    )


NESTED_NCX = (
    '<?xml version="1.0"?><ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint>'
    '<navLabel><text>Part One</text></navLabel><content src="text/one.xhtml"/><navPoint>'
    '<navLabel><text>Wind</text></navLabel><content src="text/one.xhtml"/></navPoint></navPoint>'
    "</navMap></ncx>"
)


@pytest.mark.parametrize(
    ("nav", "ncx"),
    [
        (make_nested_nav("text/one.xhtml"), ""),
        (make_nested_nav("text/one.xhtml#one"), ""),
        ("", NESTED_NCX),
    ],
)
def test_the_first_chapter_of_a_part_has_its_own_title(tmp_path: Path, nav: str, ncx: str) -> None:
    body = f'<section id="one">{ONE}</section>'
    source = read_epub(tmp_path, make_epub({"one.xhtml": body}, nav=nav, ncx=ncx))
    assert list_chapters(source) == [("Wind", "Wind\n\nThe wind fills the sail.")]


@pytest.mark.parametrize(
    "body",
    [
        "<p>It blows.</p>",
        '<span epub:type="pagebreak" id="x"/><p>It blows.</p>',
        '<p><img id="x" src="a.png"/></p><p>It blows.</p>',
    ],
)
def test_a_chapter_may_begin_at_an_id_that_has_no_text(tmp_path: Path, body: str) -> None:
    nav = make_nav(("text/one.xhtml", "Preface"), ("text/two.xhtml#x", "Wind"))
    documents = {"one.xhtml": "<p>To Bo.</p>", "two.xhtml": body}
    source = read_epub(tmp_path, make_epub(documents, nav=nav))
    assert list_chapters(source) == [("Preface", "To Bo."), ("Wind", "It blows.")]


def test_a_table_of_contents_may_have_no_list(tmp_path: Path) -> None:
    nav = make_xhtml('<nav epub:type="toc"><p><a href="text/one.xhtml">Wind</a></p></nav>')
    source = read_epub(tmp_path, make_epub({"one.xhtml": ONE}, nav=nav))
    assert [chapter for chapter, _ in list_chapters(source)] == ["Wind"]


def test_a_chapter_continues_in_the_next_document(tmp_path: Path) -> None:
    nav = make_nav(("text/one.xhtml", "Wind"))
    source = read_epub(
        tmp_path, make_epub({"one.xhtml": ONE, "two.xhtml": "<p>It blows.</p>"}, nav=nav)
    )
    assert [chapter for chapter, _ in list_chapters(source)] == ["Wind", "Wind"]


def test_headings_are_the_chapters_of_a_book_without_a_table(tmp_path: Path) -> None:
    documents = {
        "one.xhtml": "<p>To Bo.</p><h1>Part I</h1><h2>Wind</h2><p>It fills.</p><h3>Why</h3>"
        "<p>So.</p><h2>Reefs</h2><p>Reef early.</p>",
        "two.xhtml": "<p>Or late.</p>",
    }
    source = read_only_source(write_file(tmp_path, "sails.epub", make_epub(documents)))
    assert list_chapters(source) == [
        (None, "To Bo."),
        ("Wind", "Part I\n\nWind\n\nIt fills.\n\nWhy\n\nSo."),
        ("Reefs", "Reefs\n\nReef early."),
        ("Reefs", "Or late."),
    ]


def test_headings_begin_no_chapter_if_there_is_a_table(tmp_path: Path) -> None:
    """Programs such as Calibre split long chapters into documents that the table does not list."""
    documents = {
        "one.xhtml": "<h1>Wind</h1><p>It fills.</p><h2>Why</h2><p>So.</p>",
        "one_split_001.xhtml": "<h2>When</h2><p>At noon.</p>",
        "two.xhtml": "<h1>Reefs</h1><p>Reef early.</p>",
    }
    nav = make_nav(("text/one.xhtml", "I. Wind"), ("text/two.xhtml", "II. Reefs"))
    source = read_epub(tmp_path, make_epub(documents, nav=nav))
    assert [chapter for chapter, _ in list_chapters(source)] == ["I. Wind", "I. Wind", "II. Reefs"]


def test_notes_pictures_and_page_numbers_are_left_out(tmp_path: Path) -> None:
    body = (
        '<p>Reef&nbsp;early<sup><a href="#n1">1</a></sup>, m<sup>2</sup> by m<sup>2</sup>.'
        '<span epub:type="pagebreak" title="7">7</span> <img src="a.png" alt="A boat"/>'
        '<a epub:type="noteref" href="#n2">2</a>Then wait.</p>'
        '<aside epub:type="footnote" id="n1"><p>Says Bob.</p></aside>'
        '<section role="doc-endnotes"><p>Says Ann.</p></section><script>x()</script>'
    )
    source = read_epub(tmp_path, make_epub({"one.xhtml": body}))
    assert source.text == "Reef early, m^2 by m^2. Then wait."


def test_lists_of_contents_are_left_out(tmp_path: Path) -> None:
    data = make_epub({"one.xhtml": ONE}, nav=NAV, spine=["nav", "one.xhtml"])
    assert read_epub(tmp_path, data).text == "Wind\n\nThe wind fills the sail."


def test_verse_and_code_keep_their_lines(tmp_path: Path) -> None:
    body = "<p>Red sky at night,<br/>sailor's delight.</p><pre>  def reef():\n    pass\n</pre>"
    source = read_epub(tmp_path, make_epub({"one.xhtml": body}))
    assert source.text == "Red sky at night,\nsailor's delight.\n\n  def reef():\n    pass"


def test_malformed_xhtml_is_read(tmp_path: Path) -> None:
    data = make_epub({"one.xhtml": "<p>Reef <b>early.</p><p>Then wait.<br>And rest."})
    assert read_epub(tmp_path, data).text == "Reef early.\n\nThen wait.\nAnd rest."


def test_a_document_without_a_declared_encoding_is_utf_8(tmp_path: Path) -> None:
    document = "<html><body><p>Größe & “Länge”</p></body></html>"
    data = make_epub({"one.xhtml": ""}, others={PATH_OF_ONE: document})
    assert read_epub(tmp_path, data).text == "Größe & “Länge”"


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8"])
def test_latin_1_is_read_as_web_browsers_read_it(tmp_path: Path, encoding: str) -> None:
    """A document that declares it may be in Windows-1252, or in UTF-8 after a conversion."""
    declaration = '<?xml version="1.0" encoding="iso-8859-1"?>'
    document = f"{declaration}<html><body><p>“Größe” — Länge</p></body></html>"
    data = make_epub({"one.xhtml": ""}, others={PATH_OF_ONE: document.encode(encoding)})
    assert read_epub(tmp_path, data).text == "“Größe” — Länge"


def test_blank_lines_before_a_declaration_do_no_harm(tmp_path: Path) -> None:
    members = read_members(make_epub({"one.xhtml": ONE}, ncx=make_ncx(("text/one.xhtml", "Sea"))))
    data = make_zip({name: b"\n" + content for name, content in members.items()})
    assert list_chapters(read_epub(tmp_path, data)) == [("Sea", "Wind\n\nThe wind fills the sail.")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", "Sails/"),  # a folder that was packed again
        ("text/One", "text/one"),
        ("text/One", "text\\One"),
        ("é", "e\u0301"),
        (" ", "%20"),
    ],
)
def test_differently_written_names_of_members_are_found(tmp_path: Path, old: str, new: str) -> None:
    members = read_members(make_epub({"One é 1.xhtml": ONE}))
    data = make_zip(
        {name.replace(old, new, 1): content for name, content in members.items()}
        | {"__MACOSX/._x": ""}
    )
    assert read_epub(tmp_path, data).text == "Wind\n\nThe wind fills the sail."


def test_a_link_may_begin_at_the_root_of_the_archive(tmp_path: Path) -> None:
    members = read_members(make_epub({"one.xhtml": ONE}))
    package = members["OEBPS/content.opf"].replace(b"text/one", b"/OEBPS/text/one")
    data = make_zip({**members, "OEBPS/content.opf": package})
    assert read_epub(tmp_path, data).text == "Wind\n\nThe wind fills the sail."


def test_auxiliary_documents_and_odd_media_types_are_read(tmp_path: Path) -> None:
    members = read_members(make_epub({"one.xhtml": ONE, "two.xhtml": TWO}))
    package = members["OEBPS/content.opf"].replace(b"<itemref", b'<itemref linear="no"', 1)
    package = package.replace(b"application/xhtml+xml", b"text/x-oeb1-document")
    source = read_epub(tmp_path, make_zip({**members, "OEBPS/content.opf": package}))
    assert [chapter for chapter, _ in list_chapters(source)] == ["Wind", "Reefs"]


def test_a_missing_chapter_loses_only_itself(tmp_path: Path) -> None:
    data = make_epub({"one.xhtml": ONE, "gone.xhtml": TWO})
    data = data.replace(b"text/gone.xhtml", b"text/lost.xhtml")  # only in the archive's directory
    path = write_file(tmp_path, "sails.epub", data)
    assert read_only_source(path).text == "Wind\n\nThe wind fills the sail."
    reason = "lacks OEBPS/text/gone.xhtml: download it again"
    assert read_warnings(path) == [("sails.epub", f"{reason}; the other chapters are kept")]


def test_an_encrypted_document_is_not_read_as_text(tmp_path: Path) -> None:
    """Some stores encrypt documents and do not say so in the archive."""
    data = make_epub({"one.xhtml": ""}, others={PATH_OF_ONE: bytes(range(256)) * 8})
    reason = f"{PATH_OF_ONE} is not XHTML, and may be encrypted"
    assert get_refusal(tmp_path, data) == f"has no chapter that can be read: {reason}"


def make_encryption(algorithm: str) -> dict[str, str | bytes]:
    method = f'<EncryptedData><EncryptionMethod Algorithm="{algorithm}"/></EncryptedData>'
    return {"META-INF/encryption.xml": f"<encryption>{method}</encryption>"}


def test_a_book_with_drm_is_refused(tmp_path: Path) -> None:
    others = make_encryption("http://www.w3.org/2001/04/xmlenc#aes128-cbc")
    reason = get_refusal(tmp_path, make_epub({"one.xhtml": ONE}, others=others))
    assert reason == "is protected by DRM: only the app of the store that sold it can open it"


def test_obfuscated_fonts_do_not_protect_a_book(tmp_path: Path) -> None:
    others = make_encryption("http://www.idpf.org/2008/embedding")
    assert read_epub(tmp_path, make_epub({"one.xhtml": ONE}, others=others)).text


BILLION_LAUGHS = (
    f'<!DOCTYPE html [<!ENTITY a "ha"><!ENTITY b "{"&a;" * 100}"><!ENTITY c "{"&b;" * 100}">]>'
)
"""Entities that refer to each other, so that `&c;` expands to 10,000 times "ha"."""


def test_entities_of_a_document_are_not_expanded(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("a secret")
    external = f'<!DOCTYPE html [<!ENTITY c SYSTEM "file://{tmp_path}/secret.txt">]>'
    for doctype in (BILLION_LAUGHS, external):
        others = {PATH_OF_ONE: make_xhtml("<p>Before &c; after</p>", doctype=doctype)}
        source = read_epub(tmp_path, make_epub({"one.xhtml": "", "two.xhtml": TWO}, others=others))
        assert "haha" not in source.text
        assert "a secret" not in source.text


def test_entities_of_a_package_are_refused(tmp_path: Path) -> None:
    package = f"{BILLION_LAUGHS.replace('html', 'package')}<package><title>&c;</title></package>"
    data = make_epub({"one.xhtml": ONE}, others={"OEBPS/content.opf": package})
    assert get_refusal(tmp_path, data) == "declares XML entities, which no book needs"


def test_a_zip_bomb_is_refused_by_its_ratio(tmp_path: Path) -> None:
    data = make_epub({"one.xhtml": "a" * 10_000_000})
    path = write_file(tmp_path, "sails.epub", data)
    reason = f"has a part that unpacks to 200 times its size: {PATH_OF_ONE}"
    assert read_problems(path) == [("sails.epub", f"has no chapter that can be read: {reason}")]
    assert len(data) < 20_000


def declare_size(archive: bytes, size: int) -> bytes:
    """Change the unpacked size, in bytes, that a ZIP archive declares for its first member."""
    changed = bytearray(archive)
    entry = changed.find(b"PK\x01\x02")  # the first entry of the central directory
    changed[entry + 24 : entry + 28] = struct.pack("<L", size)
    return bytes(changed)


def test_a_zip_bomb_is_refused_by_its_total_size(tmp_path: Path) -> None:
    data = declare_size(make_epub({"one.xhtml": ONE}), 500_000_000)
    assert get_refusal(tmp_path, data) == "unpacks to more than 500 MB"


def test_a_member_larger_than_declared_is_damaged(tmp_path: Path) -> None:
    data = declare_size(make_zip({"META-INF/container.xml": b"x" * 1_000_000}), 100)
    assert get_refusal(tmp_path, data) == "is damaged: download it again"


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    files = {f"{number}": b"" for number in range(MAX_ENTRIES + 1)}
    assert get_refusal(tmp_path, make_zip(files)) == "has more than 10,000 entries"


def test_a_large_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    data = bytearray(make_epub({"one.xhtml": ONE}))
    end = data.find(b"PK\x05\x06")  # the record that has the size of the central directory
    data[end + 12 : end + 16] = struct.pack("<L", 100_000_000)
    assert get_refusal(tmp_path, bytes(data)) == "has more than 10,000 entries"


def test_members_with_parent_paths_do_not_leave_the_archive(tmp_path: Path) -> None:
    (tmp_path / "evil.xhtml").write_text(make_xhtml("<p>Outside.</p>"))
    climbing = make_xhtml("<p>A member with an odd name.</p>")
    data = make_epub({"../../../evil.xhtml": "", "two.xhtml": TWO}, others={"../x": climbing})
    book = write_file(tmp_path, "books/sails.epub", data)
    assert read_only_source(book).text == "Reefs\n\nReef early."
    names = sorted(path.name for path in tmp_path.rglob("*"))
    assert names == ["books", "evil.xhtml", "sails.epub"]


def test_deep_nesting_does_not_exhaust_the_stack(tmp_path: Path) -> None:
    body = "<div>" * 3_000 + "<p>Deep.</p>" + "</div>" * 3_000
    data = make_epub({"one.xhtml": body, "two.xhtml": TWO})
    assert "Reef early." in read_epub(tmp_path, data).text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not a ZIP archive, or was cut off: download it again"),
        (b"%PDF-1.7", "is not a ZIP archive, or was cut off: download it again"),
        (
            make_epub({"one.xhtml": ONE})[:-30],
            "is not a ZIP archive, or was cut off: download it again",
        ),
        (make_zip({"a": "b"}), "lacks META-INF/container.xml: download it again"),
        (make_zip({"META-INF/container.xml": "<a"}), "contains malformed XML: download it again"),
        (
            make_zip({"META-INF/container.xml": "<a/>"}),
            "is not an EPUB: its container names no package document",
        ),
        (make_epub({}), "has no text: its pages may be images"),
    ],
)
def test_files_that_are_not_books_are_refused_with_advice(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    assert get_refusal(tmp_path, data) == reason


def test_a_large_file_is_not_opened(tmp_path: Path) -> None:
    with (tmp_path / "sails.epub").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert read_problems(tmp_path) == [("sails.epub", "is larger than 100 MB: split it")]
