"""An EPUB becomes a book of chapters; a protected or hostile one is refused with advice."""

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


def test_metadata_describe_the_book(tmp_path: Path) -> None:
    source = read_epub(tmp_path, make_epub({"one.xhtml": ONE}))
    assert source.title == "A Handbook of Sails"
    assert source.author == "Ann Helm, Bob Reef"
    assert source.language == "en-GB"
    assert source.category == "books"
    assert source.source_url == "https://example.org/sails"
    assert source.sections[0].published_at == datetime(2019, 3, 1, tzinfo=UTC)


EPUB_2_ROLES = (
    '<dc:creator opf:role="trl">Tom Trans</dc:creator>'
    '<dc:creator opf:role="aut">Ann Helm</dc:creator><dc:creator>Bob Reef</dc:creator>'
)
EPUB_3_ROLES = (
    '<dc:creator id="a">Ann Helm</dc:creator><dc:creator id="b">Ida Ill</dc:creator>'
    '<dc:creator id="c">Bob Reef</dc:creator>'
    '<meta refines="#a" property="role">http://id.loc.gov/vocabulary/relators/aut</meta>'
    '<meta refines="#b" property="role" scheme="marc:relators">ill</meta>'
)


@pytest.mark.parametrize(
    ("creators", "author"),
    [
        (EPUB_2_ROLES, "Ann Helm, Bob Reef"),
        (EPUB_3_ROLES, "Ann Helm, Bob Reef"),
        ('<dc:creator opf:role="edt">Ed Itor</dc:creator>', "Ed Itor"),
        ("<dc:creator>Unknown</dc:creator>", None),
        ("", None),
    ],
)
def test_translators_and_illustrators_are_not_authors(
    tmp_path: Path, creators: str, author: str | None
) -> None:
    """A collection has its editor; and a book without a title the name of its file."""
    source = read_epub(tmp_path, make_epub({"one.xhtml": ONE}, metadata=creators))
    assert (source.title, source.author, source.language) == ("sails", author, None)


@pytest.mark.parametrize("event", ["modification", "conversion"])
def test_the_date_of_a_book_is_that_of_publication(tmp_path: Path, event: str) -> None:
    metadata = (
        f'<dc:date opf:event="{event}">2024-05-31</dc:date>'
        '<dc:date opf:event="publication">2019-03-01</dc:date>'
    )
    source = read_epub(tmp_path, make_epub({"one.xhtml": ONE}, metadata=metadata))
    assert source.sections[0].published_at == datetime(2019, 3, 1, tzinfo=UTC)


def make_nested_nav(address: str) -> str:
    """Return a navigation document with a part and its first chapter, at this address."""
    return make_xhtml(
        '<nav epub:type="toc"><ol><li><a href="text/1.xhtml">Part One</a>'
        f'<ol><li><a href="{address}">Wind</a></li></ol></li></ol></nav>'
    )


NESTED_NCX = (
    '<?xml version="1.0"?><ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint>'
    '<navLabel><text>Part One</text></navLabel><content src="text/1.xhtml"/><navPoint>'
    '<navLabel><text>Wind</text></navLabel><content src="text/1.xhtml"/></navPoint></navPoint>'
    "</navMap></ncx>"
)
TO_BO, BLOWS = "<p>To Bo.</p>", "<p>It blows.</p>"
PREFACE_AND_WIND = make_nav(("text/1.xhtml", "Preface"), ("text/2.xhtml#x", "Wind"))


@pytest.mark.parametrize(
    ("bodies", "contents", "chapters"),
    [
        pytest.param(
            [ONE, TWO],
            make_ncx(("text/1.xhtml", "I. Wind"), ("text/2.xhtml", "II. Reefs")),
            [
                ("I. Wind", "Wind\n\nThe wind fills the sail."),
                ("II. Reefs", "Reefs\n\nReef early."),
            ],
            id="the NCX of an older book",
        ),
        pytest.param(
            [f'{TO_BO}<h1 id="a">Wind</h1><p>Blows.</p><p><a name="b"/>Reefs.</p><p>Hold.</p>'],
            make_nav(("text/1.xhtml#a", "Wind"), ("text/1.xhtml#b", "Reefs")),
            [(None, "To Bo."), ("Wind", "Wind\n\nBlows."), ("Reefs", "Reefs.\n\nHold.")],
            id="chapters in one document",
        ),
        *(
            pytest.param(
                [f'<section id="one">{BLOWS}</section>'],
                contents,
                [("Wind", "It blows.")],
                id="the first chapter of a part",
            )
            for contents in (
                *(make_nested_nav(f"text/1.xhtml{at}") for at in ("", "#one")),
                NESTED_NCX,
            )
        ),
        pytest.param(
            [BLOWS],
            make_xhtml('<nav epub:type="toc"><p><a href="text/1.xhtml">Wind</a></p></nav>'),
            [("Wind", "It blows.")],
            id="a table of contents without a list",
        ),
        *(
            pytest.param(
                [TO_BO, body],
                PREFACE_AND_WIND,
                [("Preface", "To Bo."), ("Wind", "It blows.")],
                id="an id that has no text",
            )
            for body in (
                BLOWS,
                f'<span epub:type="pagebreak" id="x"/>{BLOWS}',
                f'<p><img id="x" src="a.png"/></p>{BLOWS}',
            )
        ),
        pytest.param(
            [BLOWS],
            make_nav(("text/1.xhtml", "Wind"), ("text/1.xhtml", "A picture")),
            [("Wind", "It blows.")],
            id="the first of two titles at one place",
        ),
        pytest.param(
            [TO_BO, BLOWS],
            make_nav(("text/1.xhtml", "Preface")),
            [("Preface", "To Bo."), ("Preface", "It blows.")],
            id="a chapter continues in the next document",
        ),
        pytest.param(
            [
                f"{TO_BO}<h1>Part I</h1><h2>Wind</h2>{BLOWS}<h3>Why</h3>So.<h2>Reefs</h2><p>R.</p>",
                "<p>Or late.</p>",
            ],
            "",
            [
                (None, "To Bo."),
                ("Wind", "Part I\n\nWind\n\nIt blows.\n\nWhy\n\nSo."),
                ("Reefs", "Reefs\n\nR."),
                ("Reefs", "Or late."),
            ],
            id="headings without a table of contents",
        ),
        pytest.param(  # as Calibre splits long chapters
            [f"<h1>Wind</h1>{BLOWS}<h2>Why</h2>", "<h2>When</h2><p>At noon.</p>", TWO],
            make_nav(("text/1.xhtml", "I. Wind"), ("text/3.xhtml", "II. Reefs")),
            [
                ("I. Wind", "Wind\n\nIt blows.\n\nWhy"),
                ("I. Wind", "When\n\nAt noon."),
                ("II. Reefs", "Reefs\n\nReef early."),
            ],
            id="headings with a table of contents",
        ),
    ],
)
def test_chapters_are_those_of_the_table_of_contents_or_headings(
    tmp_path: Path, bodies: list[str], contents: str, chapters: list[tuple[str | None, str]]
) -> None:
    documents = {f"{number}.xhtml": body for number, body in enumerate(bodies, start=1)}
    is_ncx = "<ncx" in contents
    data = make_epub(documents, nav="" if is_ncx else contents, ncx=contents if is_ncx else "")
    assert list_chapters(read_epub(tmp_path, data)) == chapters


def test_chapters_are_in_the_order_of_the_spine(tmp_path: Path) -> None:
    """A list of contents in the spine is left out."""
    documents = {"two.xhtml": TWO, "one.xhtml": ONE}
    data = make_epub(documents, nav=NAV, spine=["nav", "one.xhtml", "two.xhtml"])
    assert list_chapters(read_epub(tmp_path, data)) == [
        ("Wind", "Wind\n\nThe wind fills the sail."),
        ("Reefs", "Reefs\n\nReef early."),
    ]


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


def test_verse_and_code_keep_their_lines(tmp_path: Path) -> None:
    body = "<p>Red sky at night,<br/>sailor's delight.</p><pre>  def reef():\n    pass\n</pre>"
    source = read_epub(tmp_path, make_epub({"one.xhtml": body}))
    assert source.text == "Red sky at night,\nsailor's delight.\n\n  def reef():\n    pass"


LATIN_1 = (
    '<?xml version="1.0" encoding="iso-8859-1"?><html><body><p>“Größe” — Länge</p></body></html>'
)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (
            b"<html><p>Reef <b>early.</p><p>Then wait.<br>And rest.</html>",
            "Reef early.\n\nThen wait.\nAnd rest.",
        ),
        ("<html><body><p>Größe & “Länge”</p></body></html>".encode(), "Größe & “Länge”"),
        # What declares Latin-1 may be in Windows-1252, or in UTF-8 after a conversion.
        (LATIN_1.encode("cp1252"), "“Größe” — Länge"),
        (LATIN_1.encode(), "“Größe” — Länge"),
    ],
)
def test_a_document_is_read_as_browsers_do(tmp_path: Path, document: bytes, text: str) -> None:
    data = make_epub({"one.xhtml": ""}, others={PATH_OF_ONE: document})
    assert read_epub(tmp_path, data).text == text


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
    assert get_refusal(tmp_path, data) == "declares XML entities, which no document needs"


def test_a_zip_bomb_is_refused_by_its_ratio(tmp_path: Path) -> None:
    data = make_epub({"one.xhtml": "a" * 10_000_000})
    path = write_file(tmp_path, "sails.epub", data)
    reason = f"has a part that unpacks to 200 times its size: {PATH_OF_ONE}"
    assert read_problems(path) == [("sails.epub", f"has no chapter that can be read: {reason}")]
    assert len(data) < 20_000
    text = "a" * 900_000  # too little to be a bomb
    assert read_epub(tmp_path, make_epub({"one.xhtml": text})).text == text


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (8, 1, "is encrypted: save a copy without a password"),
        (10, 99, "is packed in an unusual way: pack it again as ZIP"),
        (24, 100, "is damaged: download it again"),
        (24, 16_000_001, "has a part of more than 16 MB: META-INF/container.xml"),
        (24, 500_000_001, "unpacks to more than 500 MB"),
    ],
)
def test_what_an_archive_declares_of_a_member_is_checked(
    tmp_path: Path, offset: int, value: int, reason: str
) -> None:
    """Its flags, its method of compression, and its unpacked size, which may be too small."""
    data = bytearray(make_zip({"META-INF/container.xml": "x" * 1_000_000}))
    field = data.find(b"PK\x01\x02") + offset  # in the first entry of the central directory
    layout = "<L" if offset == 24 else "<H"
    data[field : field + struct.calcsize(layout)] = struct.pack(layout, value)
    assert get_refusal(tmp_path, bytes(data)) == reason


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    files = {f"{number}": b"" for number in range(MAX_ENTRIES)}
    reason = "lacks META-INF/container.xml: download it again"
    assert get_refusal(tmp_path, make_zip(files)) == reason
    assert get_refusal(tmp_path, make_zip({**files, "x": b""})) == "has more than 10,000 entries"


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
        (make_zip({"META-INF/container.xml": "<a/>"})[1:], "is damaged: download it again"),
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
