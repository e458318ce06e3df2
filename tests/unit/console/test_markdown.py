"""A passage of Markdown looks as its author meant it, and contains nothing that runs or loads."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import html
from lxml.html import HtmlElement

from functions.gateway.console.markdown import MAX_CHARACTERS, render_markdown
from tests.support.console_app import assert_harmless_elements
from tests.support.hostile_sources import PAYLOADS

PIECES = (
    *PAYLOADS,
    *("[x](javascript:alert(1))", "[x](JAVASCRIPT&colon;alert(1))", "[x](java\nscript:alert(1))"),
    *("[x](data:text/html;base64,PHN2Zz4=)", "![x](data:image/svg+xml,<svg onload=alert(1)>)"),
    *("<javascript:alert(1)>", "<https://a.example/?\"onload='x>", "[x](file:///etc/passwd)"),
    *('[x](https://a.example "\\" onclick=alert(1)")', "[x](//evil.example)", "[x](</forgotten>)"),
    *("![x](https://a.example/y.png)", "[![a](b)](https://a.example)", "[x]: javascript:alert(1)"),
    *("```html\n", "\n```\n", "~~~\n", "`", "\n- ", "\n  1. ", "> ", "\n\n", "\n    ", "\n---\n"),
    *("|a|b|\n|--|:-:|\n|", "|", "[", "](", "*", "**", "_", "~~", "# ", "###### ", "<!--", "\\"),
)


def parse(text: str, *terms: str) -> HtmlElement:
    """Render a text, and parse its HTML."""
    rendered = render_markdown(text, terms)
    assert rendered is not None
    return html.fromstring(f"<div>{rendered}</div>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*a* **b** ~~c~~ `d`", "<em>a</em> <strong>b</strong> <s>c</s> <code>d</code>"),
        ("one\ntwo", "one<br />\ntwo"),
        ("[words](https://a.example/b?c&d)", "words"),
        ("<b>a</b> & b", "&lt;b&gt;a&lt;/b&gt; &amp; b"),
        ("[Ann]: hello.", "[Ann]: hello."),
        ("[words](other.md) [more](javascript:x)", "words [more](javascript:x)"),
        ("![A loaf](loaf.png) ![](my%20bread.png)", "Picture: A loaf Picture: my bread.png"),
    ],
)
def test_a_line_looks_as_it_was_meant(text: str, expected: str) -> None:
    rendered = str(render_markdown(text))
    link = '<a href="https://a.example/b?c&amp;d" rel="noopener noreferrer">words</a>'
    assert rendered == f"<p>{link if 'https' in text else expected}</p>\n"


def test_blocks_are_lists_tables_quotations_and_code() -> None:
    page = parse("- a\n  1. [x] b\n\n|c|d|\n|-|-:|\n|e|f<br>g|\n\n> h\n\n```py\ni < 1\n```\n\n---")
    assert page.xpath("string(ul/li/ol/li)") == "[x] b"
    assert page.xpath("string(div[@tabindex]/table//td[@class='right'])") == "fg"
    assert page.xpath("string(blockquote/p)") == "h"
    assert page.xpath("string(pre)") == "i < 1\n"
    assert page.xpath("hr")


def test_headings_follow_the_title_without_a_gap() -> None:
    page = parse("### a\n##### b\n# c\n## d\n###### e")
    assert [heading.tag for heading in page] == ["h2", "h3", "h2", "h3", "h4"]


def test_matches_are_marked_in_text_and_code() -> None:
    page = parse(
        "# Rye\n**rye** `rye` [rye](https://rye.example) ![rye](x)\n\n    rye & ryes", "rye"
    )
    assert [mark.text.lower() for mark in page.iter("mark")] == ["rye"] * 6
    assert page.xpath("//a")[0].get("href") == "https://rye.example"


def test_pictures_and_addresses_of_the_web_are_links() -> None:
    page = parse(
        "![A](https://a.example/b.png) [![C](d.png)](https://e.example) <mailto:f@g.example>"
    )
    links = [(link.get("href"), link.text) for link in page.iter("a")]
    assert links == [
        ("https://a.example/b.png", "Picture: A"),
        ("https://e.example", "Picture: C"),
        ("mailto:f@g.example", "mailto:f@g.example"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("code\n```\ntext", "text\n```python\ncode", "- ```\n  code", "> ~~~\n> code\n\ntext"),
        *("> " * 60 + "deep", "x" * (MAX_CHARACTERS + 1), "[" * 1_000_000),
    ],
    ids=["end", "beginning", "in a list", "in a quotation", "deep", "long", "a megabyte"],
)
def test_what_cannot_be_rendered_is_left_as_text(text: str) -> None:
    assert render_markdown(text) is None


def test_blocks_with_both_fences_are_rendered() -> None:
    for text in ("```\n```", "a\n~~~\nb\n~~~~", "- ```\n  a\n  ```", "> ```\n> a\n> ```\nb"):
        assert render_markdown(text) is not None


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=12).map("".join),
    st.lists(st.sampled_from(["x", "alert", "<script>", '"', "javascript", "mark"]), max_size=3),
)
def test_no_markdown_runs_or_loads_anything(text: str, terms: list[str]) -> None:
    if rendered := render_markdown(text, terms):
        page = html.fromstring(f"<div>{rendered}</div>")
        assert_harmless_elements(page)
        plain = html.fromstring(f"<div>{render_markdown(text)}</div>")
        assert page.text_content() == plain.text_content()


@pytest.mark.parametrize("piece", ["[", "![", "[](", "*a_ ", "**a ", "> ", "- a\n", "|", "`", "<a"])
def test_hostile_markdown_is_rendered_in_a_moment(piece: str) -> None:
    started_at = time.process_time()
    render_markdown((piece * MAX_CHARACTERS)[:MAX_CHARACTERS])
    assert time.process_time() - started_at < 5
