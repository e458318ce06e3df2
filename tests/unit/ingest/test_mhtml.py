"""Pages that a browser saved as one file are read like HTML, with their original address."""

from datetime import UTC, datetime
from email.header import Header
from pathlib import Path
from quopri import encodestring

import pytest

from tests.support.source_files import read_only_source, read_problems, read_warnings, write_file
from tests.support.web_pages import PROSE, make_article_page

URL = "https://example.org/rope"
PAGE = f"<html><body><article><p>{PROSE}</p><p>Ropes are laid in the shade.</p></article></html>"


def make_mhtml(
    page: bytes,
    *,
    subject: str = "The rope walk",
    location: str = f"Snapshot-Content-Location: {URL}",
    content_type: str = "text/html",
    end: str = "\n------x----\n",
) -> bytes:
    """Return a page as Chrome saves it, with a frame and a picture."""
    head = (
        f"From: <Saved by Blink>\n{location}\nSubject: {subject}\n"
        "Date: Fri, 31 May 2024 16:41:53 -0000\nMIME-Version: 1.0\n"
        'Content-Type: multipart/related;\n\ttype="text/html";\n\tboundary="----x--"\n\n\n'
        f"------x--\nContent-Type: {content_type}\nContent-ID: <frame-1@mhtml.blink>\n"
        f"Content-Transfer-Encoding: quoted-printable\nContent-Location: {URL}?part\n\n"
    )
    frame = b"\n------x--\nContent-Type: text/html\n\n<p>An advertisement in a frame.</p>"
    picture = b"\n------x--\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\niVBORw=="
    return head.encode() + encodestring(page) + frame + picture + end.encode()


@pytest.mark.parametrize("name", ["rope.mhtml", "old.MHT"])
def test_a_saved_page_has_title_address_and_date(tmp_path: Path, name: str) -> None:
    source = read_only_source(write_file(tmp_path, name, make_mhtml(PAGE.encode())))
    assert (source.title, source.source_url) == ("The rope walk", URL)
    assert source.category == "articles"
    assert source.text == f"{PROSE}\n\nRopes are laid in the shade."
    assert source.sections[0].saved_at == datetime(2024, 5, 31, 16, 41, 53, tzinfo=UTC)


def test_what_the_page_says_of_itself_counts_more(tmp_path: Path) -> None:
    data = make_mhtml(make_article_page().encode())
    source = read_only_source(write_file(tmp_path, "page.mhtml", data))
    assert (source.title, source.author) == ("Reefing early", "Ann Helm, Bob Reef")
    assert source.source_url == "https://sailing.example.com/reefing-early"
    assert source.sections[0].published_at == datetime(2024, 5, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("charset", "content_type"),
    [
        ("utf-8", "text/html"),
        ("windows-1251", "text/html; charset=windows-1251"),
        ("gb18030", 'text/html;\n\tcharset="gb2312"'),
        ("utf-8", "text/html; charset=unicode_escape"),
    ],
)
def test_a_page_is_in_the_encoding_of_its_part(
    tmp_path: Path, charset: str, content_type: str
) -> None:
    words = "Канат" if charset == "windows-1251" else "绳子" if charset == "gb18030" else "café"
    page = PAGE.replace("<p>", f"<p>{words} ", 1).encode(charset)
    data = make_mhtml(page, content_type=content_type, subject=Header(words, "utf-8").encode())
    source = read_only_source(write_file(tmp_path, "page.mht", data))
    assert source.title == words
    assert source.text.startswith(f"{words} ")


def test_a_page_without_parts_is_read(tmp_path: Path) -> None:
    """Internet Explorer saved a page without pictures as a single part."""
    head = (
        f"Subject: =?bad?x?\nDate: yesterday\nContent-Location: {URL}\nContent-Type: text/html\n\n"
    )
    source = read_only_source(write_file(tmp_path, "page.mht", f"{head}\n\n{PAGE}"))
    assert (source.title, source.source_url) == ("=?bad?x?", URL)
    assert source.text.startswith(PROSE)


def test_a_local_address_is_none(tmp_path: Path) -> None:
    data = make_mhtml(PAGE.encode(), location="X-Nothing: 1").replace(URL.encode(), b"file:///tmp")
    assert read_only_source(write_file(tmp_path, "page.mhtml", data)).source_url is None


def test_a_page_that_is_cut_off_says_so(tmp_path: Path) -> None:
    write_file(tmp_path, "page.mhtml", make_mhtml(PAGE.encode(), end=""))
    [(_, warning)] = read_warnings(tmp_path)
    assert warning == "is cut off: what is left of the page is kept; save it again"


@pytest.mark.parametrize("data", [b"", b"no message", b"Content-Type: image/png\n\nx"])
def test_a_file_without_a_page_is_refused(tmp_path: Path, data: bytes) -> None:
    [(_, reason)] = read_problems(write_file(tmp_path, "page.mhtml", data))
    assert reason == "is not a saved page: it has no HTML part"
