"""A saved or fetched page becomes its article; a page without one is refused with advice."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from functions.jobs.ingest.readers.html.embedded import remove_data_urls, remove_unread_elements
from functions.jobs.ingest.readers.html.page import (
    MAX_BYTES,
    MAX_ELEMENTS,
    MAX_FILE_BYTES,
    make_article_source,
)
from functions.jobs.ingest.readers.source_file import Unreadable
from tests.support.epub_files import make_epub
from tests.support.pdf_files import make_pdf
from tests.support.source_files import read_only_source, read_problems, read_sources, write_file
from tests.support.web_pages import PROSE, make_article_page

NO_ARTICLE = (
    "has no recognizable article: it may be a menu, a form, or a page that needs JavaScript."
    " Save the page from a browser, or its text as Markdown"
)


def read_page(html: str) -> str:
    """Return the text of a page's article."""
    return make_article_source(html.encode(), source_id="x").text


def get_refusal(html: bytes) -> str:
    """Return the reason why a page is refused."""
    with pytest.raises(Unreadable) as error:
        make_article_source(html, source_id="x")
    return str(error.value)


def test_an_article_is_read_without_menus_and_footers() -> None:
    text = read_page(make_article_page())
    assert text == (
        f"{PROSE}\n\nWhen to reef\n\nReef when you first think of it: the thought comes from the"
        " helm and from the heel.\n\nThe helm pulls hard.\n\nThe lee rail is wet.\n\n"
        "def reef(wind):\n    return wind > 15\n\nWind | Reefs\n\n15 kn | one"
    )


def test_the_metadata_describes_the_article(tmp_path: Path) -> None:
    source = read_only_source(write_file(tmp_path, "page.html", make_article_page()))
    assert (source.title, source.author) == ("Reefing early", "Ann Helm, Bob Reef")
    assert (source.language, source.category) == ("en-GB", "articles")
    assert source.source_url == "https://sailing.example.com/reefing-early"
    assert source.sections[0].published_at == datetime(2024, 5, 31, tzinfo=UTC)


def test_a_bare_page_has_the_name_and_the_date_of_its_file(tmp_path: Path) -> None:
    path = write_file(tmp_path, "Reefs.htm", f"<html><body><p>{PROSE}</p><p>{PROSE}</p></body>")
    source = read_only_source(path)
    assert (source.title, source.author, source.source_url) == ("Reefs", None, None)
    saved_at = source.sections[0].saved_at
    assert saved_at is not None
    assert saved_at.timestamp() == pytest.approx(path.stat().st_mtime)


def test_a_passage_belongs_to_the_chapter_of_the_heading_above_it() -> None:
    (section,) = make_article_source(make_article_page().encode(), source_id="x").sections
    start = section.text.index("When to reef")
    assert section.find_locator(0).chapter is None
    assert section.find_locator(start).chapter == "When to reef"
    assert section.find_locator(len(section.text)).chapter == "When to reef"


SINGLE_FILE = "<!--\n Page saved with SingleFile \n url: https://example.com/one \n date: x\n-->"


@pytest.mark.parametrize(
    ("comment", "canonical", "url", "expected"),
    [
        ("<!-- saved from url=(0022)https://example.com/s -->", "", None, "https://example.com/s"),
        (SINGLE_FILE, "", None, "https://example.com/one"),
        ("", "", None, None),
        ("", "", "https://example.com/a", "https://example.com/a"),
        ("", "javascript:alert(1)", "https://example.com/a", "https://example.com/a"),
    ],
)
def test_the_address_is_canonical_or_of_the_browsers_comment_or_given(
    comment: str, canonical: str, url: str | None, expected: str | None
) -> None:
    page = make_article_page(canonical=canonical).replace("<html", f"{comment}<html").encode()
    assert make_article_source(page, source_id="x", url=url).source_url == expected


@pytest.mark.parametrize(
    ("declaration", "encoding"),
    [
        ("", "utf-8"),
        ("<meta charset='iso-8859-1'>", "cp1252"),
        ("<meta charset='iso-8859-1'>", "utf-8"),
        ("<meta charset=gb2312>", "utf-8"),
        ("<meta charset=nonsense>", "cp1252"),
        # Names that only Python knows, or that cannot be true of a declaration in ASCII.
        ("<meta charset=unicode_escape>", "cp1252"),
        ("<meta charset=utf-7>", "utf-8"),
        ("<meta charset=utf-16>", "utf-8"),
        ('<?xml version="1.0" encoding="utf-8"?>', "utf-8"),
        ("\ufeff", "utf-16-le"),
    ],
)
def test_a_saved_page_is_read_in_its_encoding(declaration: str, encoding: str) -> None:
    page = f"{declaration}Größe “x” {PROSE}".encode(encoding)
    assert make_article_source(page, source_id="x").text.startswith("Größe “x”")


@pytest.mark.parametrize("label", ["utf-16", "utf-16le", "utf-7", "idna", "punycode", "rot13"])
def test_a_page_in_ascii_is_read_whatever_it_declares(label: str) -> None:
    page = f"<meta charset={label}><p>+AGE- \\u0041 {PROSE}"
    assert read_page(page) == f"+AGE- \\u0041 {PROSE}"


def test_an_invalid_byte_does_not_change_the_encoding_of_a_page() -> None:
    page = "<meta charset=utf-8>Größe “x”".encode() + b" \x80 " + PROSE.encode()
    assert make_article_source(page, source_id="x").text.startswith("Größe “x”")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1251", "Ветер наполняет парус, пока румпель не станет тяжёлым. "),
        ("koi8_r", "Ветер наполняет парус, пока румпель не станет тяжёлым. "),
        ("cp1252", "Größe und Länge des Segels “Groß”. "),
    ],
)
@pytest.mark.parametrize("declaration", ["", "<meta charset=utf-8>"])
def test_an_encoding_that_is_not_declared_is_recognized(
    encoding: str, text: str, declaration: str
) -> None:
    script = f"<script>let menu = '{'x' * 5_000}'</script>"
    page = f"<html><head>{declaration}{script}</head><body><p>{text * 9}</p></body></html>"
    source = make_article_source(page.encode(encoding), source_id="x")
    assert source.text == (text * 9).strip()
    reason = f"is not UTF-8 and was read as {encoding}; if letters are wrong, save it as UTF-8"
    assert source.warnings == (reason,)


def test_an_encoding_that_is_not_recognized_is_read_as_browsers_do() -> None:
    source = make_article_source(b"<p>\x98\x03 " + PROSE.encode(), source_id="x")
    assert source.text == f"\u02dc {PROSE}"
    [warning] = source.warnings
    assert "not recognized" in warning


@pytest.mark.parametrize("character", ["\x0b", "\x03", "&#3;", "&#x1F;", "\ufffe", "&#xFFFE;"])
def test_only_the_characters_that_xml_forbids_are_dropped(character: str) -> None:
    text = read_page(f"<p><a href='x{character}'>The</a>{character} wind. {PROSE}")
    assert text == f"The wind. {PROSE}"


def test_character_references_mean_the_same_as_in_browsers() -> None:
    text = read_page(f"<p title='&#34;'>It&#146;s a &#60;reef&#62;&#8230; {PROSE}")
    assert text == f"It\u2019s a <reef>\u2026 {PROSE}"


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("shift_jis", "cp932", "①の帆は風が強くなる前に縮める。"),
        ("gb2312", "gb18030", "朱镕基说风大之前要缩帆。"),
        ("euc-kr", "cp949", "바람이 세지기 전에 똠방각하 돛을 줄인다."),
    ],
)
def test_an_encoding_label_means_the_superset_browsers_use(
    label: str, codec: str, text: str
) -> None:
    page = f"<html><head><meta charset={label}></head><body><p>{text * 20}</p></body></html>"
    assert make_article_source(page.encode(codec), source_id="x").text.startswith(text)


@pytest.mark.parametrize(
    "html",
    [
        '<body><nav><a href="/">Home</a></nav><a href="/x">Ten best anchors</a></body>',
        "<div id=app></div><noscript>You need to enable JavaScript to run this app.</noscript>",
        "<article><p>You need to enable JavaScript to run this application.</p></article>",
        "<article><p>We use cookies to improve your experience. Accept all</p></article>",
        "<form><input name=user><button>Sign in</button></form>",
        "<p>" + "<a href=x>A list of links, and of nothing else than links.</a> " * 20,
        f"<article><h1>{PROSE}</h1></article>",
        "<html></html>",
        "<!-- -->",
    ],
)
def test_a_page_without_an_article_is_refused(html: str) -> None:
    assert get_refusal(html.encode()) == NO_ARTICLE


@pytest.mark.parametrize(
    ("data", "kind"),
    [(make_pdf([PROSE] * 20), "a PDF"), (make_epub({"one.xhtml": PROSE}), "a ZIP archive")],
    ids=["PDF", "EPUB"],
)
def test_a_file_of_another_kind_is_refused(data: bytes, kind: str) -> None:
    reason = f"is {kind}, not a page: give the file the right extension"
    assert get_refusal(data) == reason


def test_an_empty_and_a_large_file_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path, "empty.html", " \n")
    with (tmp_path / "page.html").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    reason = "is larger than 100 MB: split it"
    assert read_problems(tmp_path) == [("empty.html", "is empty"), ("page.html", reason)]


@pytest.mark.parametrize(
    ("html", "reason"),
    [
        (
            b"<p>a b c</p>" * (MAX_ELEMENTS + 1),
            "has more than 50,000 elements, too many for an article: split the page",
        ),
        (b"<p>" + b"a sail " * (MAX_BYTES // 7), "is larger than 16 MB: split it"),
    ],
    ids=["elements", "text"],
)
def test_a_page_that_is_too_large_is_refused(html: bytes, reason: str) -> None:
    assert get_refusal(html) == reason


def test_embedded_pictures_do_not_count_as_text() -> None:
    picture = b"data:image/png;base64," + b"iVBORw0K" * (MAX_BYTES // 8)
    page = b"<p>" + PROSE.encode() + b"</p><img src='" + picture + b"'>"
    assert make_article_source(page, source_id="x").text == PROSE


def test_scripts_styles_and_drawings_do_not_count_as_text() -> None:
    large = "x" * (MAX_BYTES // 5)
    formula = '<script type="math/tex">r^2</script>'
    parts = f"<svg>{large}</svg><style>{large}</style><script>{large}</script>"
    page = f"{parts}<p>{PROSE}</p><p>A {formula}.</p>{parts}"
    assert read_page(page) == f"{PROSE}\n\nA $r^2$."


_LONG = "x" * 400
_SVG = "data:image/svg+xml"
_ONLY_COMMENT = "<!--[if !IE]><!-->a<!--<![endif]-->"
_LINKED_DATA = '<script type="application/ld+json">a</script>'


@pytest.mark.parametrize(
    ("part", "rest"),
    [
        (f'<img src="data:image/png;base64,{_LONG}">', '<img src="data:,">'),
        (f"<img src='{_SVG},%3Csvg viewBox=\"0 0 8 8\"%3E{_LONG}'>", "<img src='data:,'>"),
        (f"<img src=\"{_SVG};utf8,<svg xmlns='a'>{_LONG}</svg>\">", '<img src="data:,">'),
        (f"<p style='a: url({_SVG};charset=utf-8,%3C{_LONG})'>", "<p style='a: url(data:,)'>"),
        ("<svg><svg/><svg>a</svg><text>b</text></svg>c", "c"),
        ("<SCRIPT>'<style>'; '<!--'</SCRIPT>a<script>b</script >", "a"),
        ("<!-- <script> -->a<style>b</style>", "<!-- <script> -->a"),
        (f"{_ONLY_COMMENT}<svg>b</svg>", _ONLY_COMMENT),
        ("<script>a</script>b<script>c", "b<script>c"),
        (_LINKED_DATA, _LINKED_DATA),
    ],
)
def test_only_what_is_not_read_is_removed_from_a_page(part: str, rest: str) -> None:
    assert remove_unread_elements(remove_data_urls(part.encode())).decode() == rest


_LIST = "<li>Tarred rope, ten metres</li><li>A block of ash</li>"
_LINKS = '<li><a href="/a">The tide tables</a></li><li><a href="/b">The pilot book</a></li>'


@pytest.mark.parametrize(
    ("page", "items"),
    [
        (f"<body><p>{PROSE}</p><ul>{_LIST}</ul></body>", ["Tarred rope, ten metres", "A block"]),
        (
            f"<body class='menu'><ol>{_LIST}</ol><p>{PROSE}</p></body>",
            ["Tarred rope, ten metres", "A block"],
        ),
        (f"<div><p>{PROSE}</p><h2>Kit</h2><ul>{_LIST}</ul></div>", ["A block of ash"]),
        (f"<body><p>{PROSE}</p><ul>{_LINKS}</ul></body>", ["The tide tables", "The pilot book"]),
        (f"<article><p>{PROSE}</p><ul>{_LINKS}</ul></article>", ["The tide tables"]),
        (
            f"<body><p>{PROSE}</p><dl><dt>Reef</dt><dd>A fold of the sail</dd></dl></body>",
            ["Reef", "A fold of the sail"],
        ),
        (
            f"<body><p>{PROSE}</p><ul><li>Sails <b>and</b><ul>{_LIST}</ul></li></ul></body>",
            ["Sails and", "A block of ash"],
        ),
    ],
)
def test_a_list_beside_prose_belongs_to_the_article(page: str, items: list[str]) -> None:
    text = read_page(f"<html>{page}</html>")
    assert [item for item in items if item not in text] == []


@pytest.mark.parametrize(
    "menu",
    [
        f"<nav><p>{PROSE}</p><ul>{_LINKS}</ul></nav>",
        f"<div class='related-posts'><ul>{_LINKS}</ul></div>",
        f"<h3>Related articles</h3><ul>{_LINKS}</ul>",
        f"<h3>相关文章</h3><ul>{_LINKS}</ul>",
        f"<h3>関連記事</h3><ul>{_LINKS}</ul>",
        f"<div><ul>{_LINKS}</ul></div>",
    ],
)
def test_a_list_of_further_pages_is_left_out(menu: str) -> None:
    text = read_page(f"<html><body><div><p>{PROSE}</p><p>{PROSE}</p></div>{menu}</body></html>")
    assert "tide tables" not in text


def test_words_outside_the_article_are_counted() -> None:
    comments = f"<div id='comments'><p>{'Low water at noon. ' * 20}</p></div>"
    page = f"<html><body><article><p>{PROSE}</p></article>{comments}</body></html>"
    source = make_article_source(page.encode(), source_id="x")
    words = len(PROSE.split())
    assert source.text == PROSE
    reason = (
        f"80 of its {80 + words} words are left out, because they are outside the article: if they"
        " belong to it, save the page's text as Markdown"
    )
    assert source.warnings == (reason,)


def test_the_article_in_a_declarative_shadow_root_is_read() -> None:
    root = f'<template shadowrootmode="open"><p>{PROSE}</p></template>'
    assert read_page(f"<html><body><div>{root}</div></body></html>") == PROSE


def test_an_external_entity_is_not_expanded(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("a secret")
    doctype = f'<!DOCTYPE html [<!ENTITY x SYSTEM "file://{tmp_path}/secret.txt">]>'
    text = read_page(f"{doctype}<html><body><p>{PROSE} &x;</p></body></html>")
    assert "a secret" not in text


@pytest.mark.parametrize("tag", ["div", "b", "blockquote"])
def test_a_deeply_nested_page_is_read_or_refused(tag: str) -> None:
    """It must not exhaust the stack, which would end the process."""
    html = f"<{tag}>" * 20_000 + f"<p>{PROSE}</p>"
    with suppress(Unreadable):
        assert PROSE in make_article_source(html.encode(), source_id="x").text


def test_a_kindle_notebook_in_html_is_read_by_its_own_reader(tmp_path: Path) -> None:
    notebook = (
        '<div class="bookTitle">Sails</div><div class="noteHeading">Highlight - Page 2</div>'
        '<div class="noteText">Reef early.</div>'
    )
    write_file(tmp_path, "a.html", notebook)
    write_file(tmp_path, "b.html", make_article_page())
    assert [source.category for source in read_sources(tmp_path)] == ["books", "articles"]
