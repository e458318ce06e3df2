"""A PDF becomes text with pages and highlights; an unreadable one is refused with advice."""

import os
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from functions.jobs.ingest.readers.pdf import document, program
from functions.jobs.ingest.readers.pdf.chapters import find_chapters
from functions.jobs.ingest.readers.pdf.document import make_pdf_source
from functions.jobs.ingest.readers.pdf.metadata import parse_metadata
from functions.jobs.ingest.readers.source_file import Unreadable
from shared.knowledge.source import Source
from tests.support.pdf_files import Annotation, make_pdf
from tests.support.source_files import read_only_source, read_problems, read_warnings, write_file

WIND = ("The wind fills the sail and heels the boat until the helm grows heavy", "in your hand.")
REEFS = ("Reef early, for a reef taken early costs a minute and one taken late", "costs a sail.")
INFO = {
    "Title": "A Handbook of Säils",
    "Author": "Ann Helm",
    "CreationDate": "D:20240531164153+02'00'",
}
DAMAGED = "is damaged, or not a PDF: open it in a PDF viewer and save it again"
HOSTILE = "is damaged, or too large when unpacked: open it in a PDF viewer and save it"
HIGHLIGHTED_AT = datetime(2024, 6, 1, 10, tzinfo=UTC)
FILE_TIME = datetime(2024, 6, 2, 12, tzinfo=UTC)


def read_pdf(folder: Path, data: bytes) -> Source:
    return read_only_source(write_file(folder, "sails.pdf", data))


def get_refusal(folder: Path, data: bytes) -> str:
    """Return the reason why a PDF is refused."""
    ((name, reason),) = read_problems(write_file(folder, "sails.pdf", data))
    assert name == "sails.pdf"
    return reason


class PageStart(NamedTuple):
    """The place where a page, or a chapter within a page, begins."""

    text: str
    """Its first four characters."""
    page: int | None
    chapter: str | None


def read_page_starts(source: Source) -> list[PageStart]:
    section = source.sections[0]
    return [
        PageStart(section.text[start : start + 4], locator.page, locator.chapter)
        for start, locator in section.locators
    ]


def test_a_paragraph_continues_on_the_next_page(tmp_path: Path) -> None:
    source = read_pdf(tmp_path, make_pdf([*REEFS, WIND[0]], [WIND[1], *REEFS]))
    assert source.text == "\n".join(REEFS) + "\n\n" + "\n".join(WIND) + "\n\n" + "\n".join(REEFS)
    assert read_page_starts(source) == [("Reef", 1, None), ("in y", 2, None)]


def test_words_divided_at_line_ends_are_joined(tmp_path: Path) -> None:
    lines = ("The sail is large-", "ly made in Baden-", "Baden by Ann - and", "Bob.")
    source = read_pdf(tmp_path, make_pdf(lines))
    assert source.text == "The sail is largely\nmade in Baden-Baden\nby Ann - and\nBob."


def test_a_word_divided_at_the_end_of_a_page_is_joined(tmp_path: Path) -> None:
    """Its rest moves to the page on which it begins, past the running heads between them."""
    pages = [
        ("On Sails", "The sail is large-", "", "1"),
        ("On Sails", "ly made in the har-", "", "2"),
        ("On Sails", "bour of Baden-", "", "3"),
        ("On Sails", "Baden by Ann."),
    ]
    source = read_pdf(tmp_path, make_pdf(*pages))
    assert source.text.splitlines() == [
        "On Sails",
        "The sail is largely",
        "made in the harbour",
        "of Baden-",
        "Baden by Ann.",
    ]
    assert [start.text for start in read_page_starts(source)] == ["On S", "made", "of B", "Bade"]


def test_metadata_of_the_file_describe_the_source(tmp_path: Path) -> None:
    source = read_pdf(tmp_path, make_pdf(WIND, info=INFO, language="en-GB"))
    assert (source.title, source.author) == ("A Handbook of Säils", "Ann Helm")
    assert (source.language, source.category) == ("en-GB", "documents")
    moment = datetime(2024, 5, 31, 14, 41, 53, tzinfo=UTC)
    assert [section.written_at for section in source.sections] == [moment]


@pytest.mark.parametrize(
    ("given_title", "title"),
    [
        ("", "Sails"),
        ("Untitled", "Sails"),
        ("Microsoft Word - Reefs.doc", "Sails"),
        ("Microsoft Word - Dokument1", "Sails"),
        ("Microsoft Word - On Reefs", "On Reefs"),
        ("PowerPoint Presentation", "Sails"),
        ("PowerPoint-Präsentation", "Sails"),
        ("Report_final.docx", "Sails"),
        ("Presentation of Sails", "Presentation of Sails"),
        ("1984", "1984"),
    ],
)
def test_a_placeholder_is_no_title(given_title: str, title: str) -> None:
    metadata = parse_metadata({"Title": given_title}, "", None)
    assert (metadata.title or "Sails") == title


@pytest.mark.parametrize("author", ["Administrator", "user", "(anonymous)"])
def test_a_user_account_is_not_an_author(author: str) -> None:
    assert parse_metadata({"Author": author}, "", None).author is None


def test_a_file_without_metadata_has_its_name_and_date(tmp_path: Path) -> None:
    data = make_pdf(WIND, info={"Title": "Untitled", "CreationDate": "yesterday"})
    path = write_file(tmp_path, "sails.pdf", data)
    os.utime(path, (FILE_TIME.timestamp(), FILE_TIME.timestamp()))
    source = read_only_source(path)
    assert (source.title, source.sections[0].saved_at) == ("sails", FILE_TIME)


def test_a_hyphen_that_the_document_uses_is_kept(tmp_path: Path) -> None:
    first = ("A long-term plan is not a large plan, nor a longterm-", "ist's. It is long-", "term.")
    second = ("A plan is long-term if it is large, co-", "operative or pre-", "and postwar.")
    source = read_pdf(
        tmp_path, make_pdf(first, ["Cooperative or co-operative, cooperative."], second)
    )
    assert "It is long-term." in source.text
    assert "large, cooperative\nor pre-\nand postwar." in source.text


def test_highlights_are_sections_with_notes_and_dates(tmp_path: Path) -> None:
    annotations = [
        Annotation("Highlight", 1, (2, 3), "Yes!", "D:20240601100000Z"),
        Annotation("Underline", 1, (0,)),
        Annotation("Text", 1, (5,), "Ask Bob."),
        Annotation("Link", 1, (0,), "no note"),
        Annotation("Highlight", 1, (1,), WIND[1]),  # some viewers repeat the text as the note
    ]
    data = make_pdf(["A title page."], [*WIND, *REEFS], annotations=annotations)
    body, *sections = read_pdf(tmp_path, data).sections
    assert body.text.startswith("A title page.")
    assert [(section.text, section.highlighted_at) for section in sections] == [
        (WIND[0], None),
        (WIND[1], None),
        (f"{REEFS[0]} {REEFS[1]}\n\nYes!", HIGHLIGHTED_AT),
        ("Ask Bob.", None),
    ]
    assert [section.find_locator(0).page for section in sections] == [2] * 4


def test_remarks_on_drawings_and_struck_out_text_are_notes(tmp_path: Path) -> None:
    """Without a remark, a drawing or a line through text says nothing."""
    annotations = [
        Annotation("Square", 0, (0,), "Look!"),
        Annotation("StrikeOut", 0, (1,), "Leave this out."),
        Annotation("StrikeOut", 0, (2,)),
        Annotation("StrikeOut", 0, (3,), REEFS[1]),  # some viewers repeat the text
        Annotation("Ink", 0, (3,)),
    ]
    source = read_pdf(tmp_path, make_pdf([*WIND, *REEFS], annotations=annotations))
    assert [section.text for section in source.sections[1:]] == [
        "Look!",
        f"{WIND[1]}\n\nLeave this out.",
    ]


def test_the_texts_in_form_fields_of_a_page_are_a_passage(tmp_path: Path) -> None:
    form = {"Name of the boat": "Sea Ög", "Owner": "", "": "Baden"}
    body, fields = read_pdf(tmp_path, make_pdf(WIND, [], form=form)).sections
    assert body.text == "\n".join(WIND)
    assert fields.text == "Name of the boat: Sea Ög\nBaden"
    assert fields.find_locator(0).page == 1


def test_highlights_of_two_columns_are_in_reading_order(tmp_path: Path) -> None:
    left, right = b"(One.) Tj 0 -16 Td (Two.) Tj", b"300 16 Td (Three.) Tj 0 -16 Td (Four.) Tj"
    content = zlib.compress(b"BT /F1 11 Tf 72 720 Td %b %b ET" % (left, right))
    annotations = [
        Annotation("Highlight", 0, (line,), left=edge, right=edge + 100)
        for line in (0, 1)
        for edge in (72, 372)
    ]
    annotations.append(Annotation("Text", 0, (1,), "Two?", left=40, right=60))
    data = make_pdf([], annotations=annotations, packed_content=content)
    texts = [section.text for section in read_pdf(tmp_path, data).sections[1:]]
    assert texts == ["One.", "Two?", "Two.", "Three.", "Four."]


def test_a_chapter_begins_at_its_title_on_the_page(tmp_path: Path) -> None:
    first = ("Contents", "2.1 Reefs . . . . . . 1", "Light air", "No reef.", "2.1 Reefs", REEFS[0])
    second = (REEFS[1], "Chapter 3: When the wind is", "stronger than the sail", "Go home.")
    third = ("The end.",)
    outline = [("Contents", 0), ("Reefs", 0), ("When the wind is stronger than the sail", 1)]
    outline += [("A picture", 1), ("Index", 2)]
    marked = [Annotation("Highlight", 0, (3,)), Annotation("Highlight", 0, (5,))]
    source = read_pdf(
        tmp_path, make_pdf(first, second, third, third, outline=outline, annotations=marked)
    )
    assert read_page_starts(source) == [
        ("Cont", 1, "Contents"),
        ("2.1 ", 1, "Reefs"),
        ("cost", 2, "Reefs"),
        ("Chap", 2, "When the wind is stronger than the sail"),
        ("The ", 3, "Index"),
        ("The ", 4, "Index"),
    ]
    assert "2.1 Reefs … 1\n" in source.text
    chapters = [section.find_locator(0).chapter for section in source.sections[1:]]
    assert chapters == ["Contents", "Reefs"]


@pytest.mark.parametrize(
    ("titles", "lines", "chapters"),
    [
        (["Notes"], ["keep a log and take", "notes.", "Notes", "One."], {2: "Notes"}),
        (["Notes"], ["keep a log and take", "notes.", "One."], {0: "Notes"}),
        (["Notes"], ["1 Wind", "many notes", "NOTES", "One."], {2: "Notes"}),
        (["Notes"], ["2 Notes", "One.", "Notes", "Two."], {2: "Notes"}),
        (["Wind"], ["See the wind", "Chapter IV: Wind", "It blows."], {1: "Wind"}),
        (["Wind", "A picture"], ["Air", "Wind", "It blows."], {1: "Wind", 3: "A picture"}),
        (["Wind", "A picture", "Sun"], ["Wind", "Sun", "Hot."], {0: "Wind", 1: "Sun"}),
        (["A picture", "Wind"], ["Air", "Wind"], {0: "A picture", 1: "Wind"}),
        (["A picture"], ["Air", "It blows."], {0: "A picture"}),
    ],
)
def test_a_title_begins_at_its_heading_and_not_in_a_sentence(
    titles: list[str], lines: list[str], chapters: dict[int, str]
) -> None:
    """`chapters` are titles by the number of the line at which they begin, from 0."""
    assert find_chapters([(title, 1) for title in titles], [lines]) == [chapters]


def test_a_highlight_is_joined_like_the_lines_of_the_text(tmp_path: Path) -> None:
    lines = ["Round the cape before win-", "ter, they said: “never, ever, wait.”"]
    data = make_pdf([*lines, "Not marked."], annotations=[Annotation("Highlight", 0, (0, 1))])
    _, highlight = read_pdf(tmp_path, data).sections
    assert highlight.text == "Round the cape before winter, they said: “never, ever, wait.”"


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        (77.0, 129.5, "(Calm) seas."),  # without the parenthesis and the full stop
        (82.0, 127.0, "(Calm) seas."),  # without most of the first and the last letter, too
        (75.7, 101.3, "Calm"),  # the word alone
        (84.0, 92.0, "al"),  # a part of the word
    ],
)
def test_a_highlight_that_is_a_little_narrow_has_whole_words(
    tmp_path: Path, left: float, right: float, text: str
) -> None:
    annotation = Annotation("Highlight", 0, (0,), left=left, right=right)
    data = make_pdf(["(Calm) seas. Wind."], annotations=[annotation])
    _, highlight = read_pdf(tmp_path, data).sections
    assert highlight.text == text


def test_pages_have_links_if_the_pdf_has_an_address(tmp_path: Path) -> None:
    path = write_file(tmp_path, "x", make_pdf(["One."], ["Two."]))
    url = "https://example.com/sails.pdf#zoom=2"
    source = make_pdf_source(path, source_id="x", title="Sails", url=url)
    assert source.source_url == url
    assert [locator.url for _, locator in source.sections[0].locators] == [
        "https://example.com/sails.pdf#page=1",
        "https://example.com/sails.pdf#page=2",
    ]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_lines_of_a_page_that_is_shown_sideways_keep_their_order(
    tmp_path: Path, rotation: int
) -> None:
    source = read_pdf(tmp_path, make_pdf(["One.", "Two.", "Three."], rotation=rotation))
    assert source.text.split() == ["One.", "Two.", "Three."]


def test_pages_have_the_labels_that_differ_from_their_numbers(tmp_path: Path) -> None:
    labels = b"0 << /S /r >> 2 << /S /D /St 3 >>"
    source = read_pdf(tmp_path, make_pdf(["One."], ["Two."], ["Three."], labels=labels))
    assert [(where.page, where.location) for _, where in source.sections[0].locators] == [
        (1, "page i"),
        (2, "page ii"),
        (3, None),
    ]


@pytest.mark.parametrize(
    ("pages", "numbers"),
    [
        ((WIND, []), None),
        ((WIND, [], []), "2 of 3 pages have no text and may be scans (pages 2-3)"),
        (([], *[WIND] * 8, [], []), "3 of 11 pages have no text and may be scans (pages 1, 10-11)"),
    ],
)
def test_pages_without_text_are_named_if_they_are_many(
    tmp_path: Path, pages: tuple[list[str], ...], numbers: str | None
) -> None:
    """One blank page is no warning."""
    path = write_file(tmp_path, "sails.pdf", make_pdf(*pages))
    warnings = [("sails.pdf", f"{numbers}; the others are kept")] if numbers else []
    assert read_warnings(path) == warnings
    assert read_only_source(path).unread == numbers


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        *((data, DAMAGED) for data in (b"", b"PK\x03\x04", b"<html>", make_pdf(WIND)[:300])),
        (make_pdf([], []), "is a scan without text: run OCR on it first"),
        (make_pdf(WIND, encrypted=True), "is encrypted: save a copy without a password"),
    ],
    ids=["empty", "ZIP", "HTML", "cut off", "scan", "encrypted"],
)
def test_a_file_without_readable_text_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    assert get_refusal(tmp_path, data) == reason


def test_too_many_pages_are_refused(tmp_path: Path) -> None:
    data = make_pdf(*[[]] * (program.MAX_PAGES + 1))
    assert get_refusal(tmp_path, data) == "has 5,001 pages, more than 5,000: split it"


def test_a_declared_page_count_is_not_trusted(tmp_path: Path) -> None:
    data = make_pdf(WIND).replace(b"/Count 1 ", b"/Count 999999999 ")
    assert read_pdf(tmp_path, data).text == "\n".join(WIND)


def test_a_page_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    packer = zlib.compressobj(1)
    piece = b" " * 1_000_000
    content = b"".join(packer.compress(piece) for _ in range(700)) + packer.flush()
    data = make_pdf(WIND, packed_content=content)
    assert len(data) < 5_000_000
    assert get_refusal(tmp_path, data).startswith(HOSTILE)


def test_a_file_that_takes_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "MAX_SECONDS", 0.001)
    assert "takes longer than" in get_refusal(tmp_path, make_pdf(WIND))


def test_a_large_file_is_not_opened(tmp_path: Path) -> None:
    with (tmp_path / "sails.pdf").open("wb") as file:
        file.truncate(300_000_000)
    assert read_problems(tmp_path) == [("sails.pdf", "is larger than 100 MB: split it")]


def test_a_file_of_50_mb_is_read_within_the_memory_limit(tmp_path: Path) -> None:
    pages = [[f"Page {number * number} has a picture."] for number in range(50)]
    data = make_pdf(*pages, picture=os.urandom(1_000_000))
    assert len(data) > 50_000_000
    assert len(read_pdf(tmp_path, data).sections[0].locators) == 50


def test_secrets_are_not_in_the_environment_of_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READWISE_TOKEN", "token")
    probe = "import json, os; print(json.dumps({'refusal': ' '.join(os.environ)}))"
    write_file(tmp_path, "environment_probe.py", probe)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(program, "__name__", "environment_probe")
    path = write_file(tmp_path, "sails.pdf", make_pdf(WIND))
    with pytest.raises(Unreadable) as error:
        make_pdf_source(path, source_id="x", title="x")
    assert "READWISE_TOKEN" not in str(error.value)
