"""Word documents are read with headings, lists and tables. Comments become notes."""

import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.docx_files import make_docx, make_paragraph, make_run
from tests.support.source_files import read_only_source, read_problems, write_file

PROPERTIES = (
    "<dc:title>On Sails</dc:title><dc:creator>Ann Helm</dc:creator><dc:language>en-GB</dc:language>"
    "<dcterms:created>2024-05-31T16:41:53Z</dcterms:created>"
)
CELLS = "".join(
    f"<w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in cells)}</w:tr>"
    for cells in (
        (make_paragraph("Wind"), make_paragraph("Reefs")),
        (make_paragraph("15 kn") + make_paragraph("steady"), make_paragraph("one")),
    )
)
TITLE, WORDS = make_paragraph("On Sails", "T"), make_paragraph("Words.")
BODY = (
    TITLE
    + make_paragraph("The wind fills the sail.")
    + make_paragraph("Reefs", "berschrift1")
    + make_paragraph(
        f'{make_run("Reef ")}<w:commentRangeStart w:id="7"/>{make_run("early")}'
        f'<w:commentRangeEnd w:id="7"/><w:r><w:commentReference w:id="7"/></w:r>'
        f'{make_run(", always.")}<w:r><w:footnoteReference w:id="2"/></w:r>'
        f'<w:del w:id="1"><w:r><w:delText>Or never.</w:delText></w:r></w:del>'
    )
    + make_paragraph("canvas", is_item=True)
    + make_paragraph("rope", is_item=True)
    + f"<w:tbl>{CELLS}</w:tbl>"
)
COMMENTS = (
    '<w:comment w:id="7" w:author="Bo Sea" w:date="2024-06-01T10:00:00Z">'
    f"{make_paragraph('Is it so?')}{make_paragraph('Yes.')}</w:comment>"
    f'<w:comment w:id="8">{make_paragraph("Of the whole.")}</w:comment>'
)
FOOTNOTES = f'<w:footnote w:id="2">{make_paragraph("Says my father.")}</w:footnote>'


def test_a_document_has_its_structure_and_its_comments(tmp_path: Path) -> None:
    data = make_docx(BODY, comments=COMMENTS, footnotes=FOOTNOTES, properties=PROPERTIES)
    source = read_only_source(write_file(tmp_path, "sails.docx", data))
    assert (source.title, source.author, source.language) == ("On Sails", "Ann Helm", "en-GB")
    text, *notes = source.sections
    assert text.text == (
        "The wind fills the sail.\n\nReefs\n\nReef early, always.\n\ncanvas\n\nrope\n\n"
        "Wind | Reefs\n\n15 kn steady | one\n\nSays my father."
    )
    assert text.find_locator(0).chapter is None
    assert text.find_locator(len(text.text)).chapter == "Reefs"
    assert text.written_at == datetime(2024, 5, 31, 16, 41, 53, tzinfo=UTC)
    assert [note.find_locator(0).chapter for note in notes] == ["Reefs", None]
    assert [(note.text, note.highlighted_at) for note in notes] == [
        ("early\n\nBo Sea: Is it so?\nYes.", datetime(2024, 6, 1, 10, tzinfo=UTC)),
        ("Of the whole.", None),
    ]


def test_the_letters_of_an_equation_are_text(tmp_path: Path) -> None:
    math = "http://schemas.openxmlformats.org/officeDocument/2006/math"
    power = "<m:r><m:t>E=mc</m:t></m:r><m:sSup><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    equation = f'<m:oMath xmlns:m="{math}">{power}</m:oMath>'
    alone = f'<m:oMathPara xmlns:m="{math}">{equation}</m:oMathPara>'
    runs = make_run("So ") + equation + make_run(" holds.")
    data = make_docx(make_paragraph(runs) + f"<w:p>{alone}</w:p>")
    source = read_only_source(write_file(tmp_path, "a.docx", data))
    assert source.text == "So E=mc2 holds.\n\nE=mc2"


@pytest.mark.parametrize(
    ("properties", "body", "title", "author"),
    [
        ("<dc:title>Microsoft Word - a.docx</dc:title>", TITLE + WORDS, "On Sails", None),
        ("<dc:creator>Administrator</dc:creator>", WORDS, "Reefs", None),
        ("", WORDS + make_paragraph("Late", "berschrift1"), "Reefs", None),
        (PROPERTIES, WORDS, "On Sails", "Ann Helm"),
    ],
)
def test_a_title_is_a_property_or_a_heading_or_the_name(
    tmp_path: Path, properties: str, body: str, title: str, author: str | None
) -> None:
    file = write_file(tmp_path, "Reefs.docx", make_docx(body, properties=properties))
    source = read_only_source(file)
    assert (source.title, source.author) == (title, author)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not a ZIP archive, or was cut off: download it again"),
        (make_docx(BODY)[:300], "is not a ZIP archive, or was cut off: download it again"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            "needs a password, or is an old .doc file: save a copy as .docx",
        ),
        (make_docx(""), "has no text: it may consist of pictures"),
        (make_docx("</w:body>"), "contains malformed XML: download it again"),
        (
            make_docx(BODY).replace(b"word/document", b"word/documend"),
            "is damaged or not a Word document",
        ),
        (make_docx(make_paragraph("x" * 17_000_000)), "has a part of more than 16 MB"),
        (make_docx(make_paragraph("x" * 2_000_000)), "has a part that unpacks to 200 times"),
    ],
)
def test_a_broken_or_hostile_document_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    [(_, problem)] = read_problems(write_file(tmp_path, "a.docx", data))
    assert problem.startswith(reason)


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>'
    file = write_file(tmp_path, "a.docx", make_docx(BODY))
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("word/settings.xml", bomb)
    [(_, reason)] = read_problems(file)
    assert reason == "declares XML entities, which no document needs"
