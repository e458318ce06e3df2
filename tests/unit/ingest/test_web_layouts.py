"""Pages in the layouts of well-known systems become their articles."""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from functions.jobs.ingest.readers.html.page import make_article_source
from shared.knowledge.source import Source
from tests.support.web_pages import PROSE

ADVICE = (
    "Nobody regrets a reef that was not needed. It takes two minutes to shake it out again, and the"
    " boat has lost perhaps half a knot in the meantime."
)


PAGES = sorted(Path(__file__).with_name("pages").glob("*.html"))


def read_page(html: str) -> Source:
    """Return the article of a page."""
    return make_article_source(html.encode(), source_id="x")


def make_page(body: str, *, title: str = "Reefing") -> str:
    """Return a page that declares its title in the usual way."""
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"</head><body>{body}</body></html>"
    )


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_a_page_in_a_well_known_layout_is_its_article(
    page: Path, snapshot: SnapshotAssertion
) -> None:
    source = make_article_source(page.read_bytes(), source_id="x")
    facts = f"{source.title} | {source.author} | {source.source_url}"
    [section] = source.sections
    assert f"{facts} | {section.published_at}\n\n{source.text}" == snapshot


CODE = "def reef(wind):\n    return wind > 15"
LINES = CODE.replace(">", "&gt;").split("\n")


@pytest.mark.parametrize(
    "table",
    [
        (
            '<table class="highlighttable"><tr><td class="linenos"><div class="linenodiv"><pre>1\n2'
            f'</pre></div></td><td class="code"><pre>{LINES[0]}\n{LINES[1]}</pre></td></tr></table>'
        ),
        (
            '<figure class="highlight"><table><tr><td class="gutter"><pre>'
            '<span class="line">1</span><br><span class="line">2</span><br></pre></td>'
            f'<td class="code"><pre><span class="line">{LINES[0]}</span><br>'
            f'<span class="line">{LINES[1]}</span><br></pre></td></tr></table></figure>'
        ),
        f'<figure class="highlight"><pre><code>{LINES[0]}\n{LINES[1]}</code></pre></figure>',
        f"<table><tr><td><pre>1\n2</pre></td><td><pre>{LINES[0]}\n{LINES[1]}</pre></td></tr></table>",
        "<pre><code><table class='hljs-ln'>"
        + "".join(
            f'<tr><td class="hljs-ln-numbers" data-line-number="{number}"></td>'
            f'<td class="hljs-ln-code">{line}</td></tr>'
            for number, line in enumerate(LINES, start=1)
        )
        + "</table></code></pre>",
        f"<pre><code><table><tr><td>{LINES[0]}<tr><td>{LINES[1]}</table></code></pre>",
        "<table class='js-file-line-container'>"
        + "".join(
            f'<tr><td class="blob-num" data-line-number="{number}"></td>'
            f'<td class="blob-code blob-code-inner">{line}</td></tr>'
            for number, line in enumerate(LINES, start=1)
        )
        + "</table>",
        (
            f'<pre class="line-numbers"><code>{LINES[0]}\n{LINES[1]}<span aria-hidden="true"'
            ' class="line-numbers-rows"><span></span><span></span></span></code></pre>'
        ),
    ],
    ids=["pygments", "hexo", "jekyll", "no class", "highlight.js", "in code", "github", "prism"],
)
def test_code_has_its_lines_and_no_line_numbers(table: str) -> None:
    page = make_page(f"<article><p>{PROSE}</p>{table}<p>{PROSE}</p></article>")
    assert read_page(page).text == f"{PROSE}\n\n{CODE}\n\n{PROSE}"


@pytest.mark.parametrize(
    "code",
    [
        "  if tide:\n\treef()",
        "  if tide:<br>\treef()",
        "<div>  if tide:</div><div>\treef()</div>",
        "<ol>\n<li><span>  if</span> tide:</li>\n<li>\treef()</li></ol>",
        "<code><div><div>  if tide:\n</div></div>\treef()</code>",
    ],
)
def test_preformatted_text_keeps_its_lines(code: str) -> None:
    page = make_page(f"<article><p>{PROSE}</p><pre>{code}</pre><p>{PROSE}</p></article>")
    assert "\n\n  if tide:\n\treef()\n\n" in read_page(page).text


def test_a_table_of_code_and_words_stays_a_table() -> None:
    table = "<table><tr><td><pre>reef()</pre></td><td>Takes a reef.</td></tr></table>"
    page = make_page(f"<article><p>{PROSE}</p>{table}<p>{PROSE}</p></article>")
    assert "reef()\n\nTakes a reef." in read_page(page).text


def test_a_table_with_long_cells_is_not_a_layout_table() -> None:
    films = "".join(
        f'<tr><td><a href="/{name}">{name}</a></td><td>19{year}</td><td>{PROSE}</td></tr>'
        for name, year in [("Gull", 47), ("Tern", 64), ("Skua", 93)]
    )
    text = read_page(make_page(f"<article><p>{PROSE}</p><table>{films}</table></article>")).text
    rows = [f"Gull | 1947 | {PROSE}", f"Tern | 1964 | {PROSE}", f"Skua | 1993 | {PROSE}"]
    assert text == "\n\n".join([PROSE, *rows])


@pytest.mark.parametrize("place", ["{0}<p>{1}</p>", "<p>{1}</p>{0}<p>{1}</p>", "<p>{1}</p>{0}"])
def test_text_beside_paragraphs_keeps_the_words_around_its_links(place: str) -> None:
    loose = 'Whoever reefs <a href="/early">early</a> has <a href="/sails">all sails</a> at noon.'
    text = read_page(make_page(f"<article>{place.format(loose, PROSE)}</article>")).text
    assert "Whoever reefs early has all sails at noon." in text


@pytest.mark.parametrize("hidden", ["hidden", 'style="color: red; DISPLAY : none"'])
def test_hidden_text_is_left_out(hidden: str) -> None:
    body = (
        f"<article><p>{PROSE}</p><p {hidden}>Subscribe to our letter.</p><p>{ADVICE}</p></article>"
    )
    assert read_page(make_page(body)).text == f"{PROSE}\n\n{ADVICE}"


def test_an_article_that_a_script_shows_is_read() -> None:
    body = f'<article style="display:none"><p>{PROSE}</p><p>{ADVICE}</p></article><p>Loading</p>'
    assert f"{PROSE}\n\n{ADVICE}" in read_page(make_page(body)).text


@pytest.mark.parametrize("hidden", ['hidden="until-found"', "hidden", 'style="display:none"'])
@pytest.mark.parametrize("script", ["", f"<script>{'x' * 9_000}</script>"])
def test_collapsed_sections_are_read(hidden: str, script: str) -> None:
    answers = [f"Answer {number}. {PROSE}" for number in range(5)]
    panels = "".join(f"<h3>Why?</h3><div {hidden}><p>{answer}</p></div>" for answer in answers)
    text = read_page(make_page(f"{script}<article><p>{ADVICE}</p>{panels}</article>")).text
    assert text == "\n\nWhy?\n\n".join([ADVICE, *answers])


def test_a_section_that_is_hidden_until_found_is_read() -> None:
    body = f'<article><p>{PROSE * 3}</p><div hidden="until-found"><p>{ADVICE}</p></div></article>'
    assert read_page(make_page(body)).text == f"{PROSE * 3}\n\n{ADVICE}"


def test_text_between_blocks_is_kept() -> None:
    """A list ends the paragraph around it, so that the rest of the sentence is in none."""
    body = (
        f"<article><p>{PROSE}</p><p>The wind obeys<dl><dd>a law of its own,</dd></dl>"
        'for any pair of <b>boats</b> and <a href="/s">sails</a> on the water.</p>'
        f"<p>{PROSE}</p></article>"
    )
    text = read_page(make_page(body)).text
    assert "a law of its own,\n\nfor any pair of boats and sails on the water." in text


def test_a_heading_of_the_site_is_not_the_title() -> None:
    body = (
        '<header><h1><a href="/">Hi, I am Ann.</a></h1></header><div><h2><a href="/reefing">Reefing'
        f" early</a></h2><p>{PROSE}</p><p>{ADVICE}</p></div>"
    )
    page = make_page(body, title="Reefing early | Sails | Ann Helm")
    assert read_page(page).title == "Reefing early"


@pytest.mark.parametrize(
    ("names", "author"),
    [
        ("Ann Helm; ANN HELM", "Ann Helm"),
        ("Username", None),
        ("Ann Helm, Bo Sea", "Ann Helm, Bo Sea"),
    ],
)
def test_authors_are_named_once_and_without_placeholders(names: str, author: str | None) -> None:
    metas = "".join(f'<meta name="author" content="{name}">' for name in names.split("; "))
    page = make_page(f"<article><p>{PROSE}</p><p>{ADVICE}</p></article>")
    assert read_page(page.replace("</head>", f"{metas}</head>")).author == author
