"""Pages in the layouts of well-known systems become their articles."""

from __future__ import annotations

import pytest

from functions.jobs.ingest.readers.html.page import make_article_source
from shared.knowledge.source import Source
from tests.support.web_pages import PROSE

ADVICE = (
    "Nobody regrets a reef that was not needed. It takes two minutes to shake it out again, and the"
    " boat has lost perhaps half a knot in the meantime."
)


def read_page(html: str) -> Source:
    """Return the article of a page."""
    return make_article_source(html.encode(), source_id="x")


def make_page(body: str, *, title: str = "Reefing", site: str = "example.com") -> str:
    """Return a page that declares its title and its URL in the usual way."""
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<link rel="canonical" href="https://{site}/reefing"></head><body>{body}</body></html>'
    )


WIKIPEDIA = f"""<a class="mw-jump-link" href="#bodyContent">Jump to content</a>
<main id="content" class="mw-body"><header class="mw-body-header"><h1 id="firstHeading"
class="firstHeading mw-first-heading"><span class="mw-page-title-main">Reefing</span></h1></header>
<div id="bodyContent"><div id="siteSub" class="noprint">From Wikipedia, the free encyclopedia</div>
<div id="mw-content-text" class="mw-body-content"><div class="mw-content-ltr mw-parser-output">
<div class="shortdescription nomobile noexcerpt noprint searchaux">Reducing sail area</div>
<div role="note" class="hatnote navigation-not-searchable">For corals, see <a href="/c">Reef</a>.
</div><table class="box-Refimprove plainlinks metadata ambox ambox-content" role="presentation"><tr>
<td class="mbox-text">This article <b>needs additional citations</b>.</td></tr></table>
<p><b>Reefing</b> reduces a sail.<sup id="cite_ref-1" class="reference"><a href="#cite_note-1"><span
class="cite-bracket">[</span>1<span class="cite-bracket">]</span></a></sup> {PROSE}<sup
class="noprint Inline-Template Template-Fact">[<i><a href="/cn">citation needed</a></i>]</sup></p>
<div class="mw-heading mw-heading2"><h2 id="Methods">Methods</h2><span class="mw-editsection"><span
class="mw-editsection-bracket">[</span><a href="/e"><span>edit</span></a><span
class="mw-editsection-bracket">]</span></span></div>
<div role="note" class="hatnote">Main article: <a href="/slab">Slab reefing</a></div>
<p>{PROSE}</p><h2><span class="mw-headline" id="References">References</span><span
class="mw-editsection">[<a href="/e">edit</a>]</span></h2>
<div class="mw-references-wrap reflist"><ol class="references"><li id="cite_note-1"><span
class="mw-cite-backlink"><b><a href="#cite_ref-1">^</a></b></span> <span class="reference-text">
Helm, Ann (2020). <i>A Handbook of Sails</i>. London.</span></li></ol></div>
</div><div class="printfooter">Retrieved from "<a href="/r">https://en.wikipedia.org/r</a>"</div>
</div></div></main><footer class="mw-footer"><ul><li id="footer-info-lastmod">This page was last
edited on 3 May 2024, at 10:00 (UTC).</li></ul></footer>"""


def test_an_article_of_wikipedia_is_read() -> None:
    page = make_page(WIKIPEDIA, title="Reefing - Wikipedia", site="en.wikipedia.org")
    source = read_page(page)
    assert source.title == "Reefing"
    assert source.text == f"Reefing reduces a sail. {PROSE}\n\nMethods\n\n{PROSE}"
    assert source.sections[0].written_at is None


WORDPRESS = f"""<a class="skip-link screen-reader-text" href="#content">Skip to content</a>
<header id="masthead" class="site-header"><h1 class="site-title"><a href="/" rel="home">Harbour
Notes</a></h1><p class="site-description">Ann on the water</p></header><div id="content"><main>
<article id="post-12" class="post-12 post type-post hentry"><header class="entry-header"><h2
class="entry-title">Reefing early</h2><div class="entry-meta">Posted on <time class="entry-date
published" datetime="2024-05-31T16:41:53+02:00">May 31, 2024</time><span class="byline"> by <span
class="author vcard"><a class="url fn n" href="/ann">Ann Helm</a></span></span></div></header>
<div class="entry-content"><p>{PROSE}<sup>1</sup></p><h2 class="wp-block-heading">When</h2>
<p>The old hands say <q>reef when you first think of it</q>, and <em>they</em> are right.</p>
<pre class="wp-block-code"><code>def reef(wind):<br>    return wind &gt; 15</code></pre>
<p>{PROSE}</p><div class="sharedaddy sd-sharing-enabled"><h3 class="sd-title">Share this:</h3>
<ul><li><a href="?share=x">Click to share on X (Opens in new window)</a></li></ul></div>
<div id="jp-relatedposts" class="jp-relatedposts"><h3><em>Related</em></h3></div></div></article>
<div id="comments" class="comments-area"><h2 class="comments-title">2 thoughts on “Reefing
early”</h2><ol class="comment-list"><li class="comment"><p>Great post!</p></li></ol></div>
</main></div><aside class="widget-area"><h2>Recent Posts</h2></aside>"""


def test_a_post_of_wordpress_is_read() -> None:
    source = read_page(make_page(WORDPRESS, title="Reefing early &#8211; Harbour Notes"))
    assert source.title == "Reefing early"
    assert source.author == "Ann Helm"
    assert source.text == (
        f"{PROSE}\n\nWhen\n\nThe old hands say “reef when you first think of it”, and they are"
        f" right.\n\ndef reef(wind):\n    return wind > 15\n\n{PROSE}"
    )


README = f"""<header><a href="/login">Sign in</a></header><main><h1 class="sr-only">helm/reef</h1>
<ul class="pagehead-actions"><li><a class="btn">Notifications</a> You must be signed in</li></ul>
<table><tr><th>Name</th><th>Last commit message</th></tr><tr><td><a href="/s">src</a></td><td><a
href="/c">Add a wind gauge</a></td></tr></table><article class="markdown-body entry-content
container-lg"><div class="markdown-heading"><h1 class="heading-element">reef</h1><a
id="user-content-reef" class="anchor" aria-label="Permalink" href="#reef"><svg></svg></a></div>
<p>{PROSE}</p><div class="markdown-heading"><h2 class="heading-element">Install</h2><a
id="user-content-install" class="anchor" href="#install"><svg></svg></a></div>
<div class="highlight highlight-source-shell"><pre>pip install reef
reef --wind 15</pre><div class="zeroclipboard-container"><clipboard-copy aria-label="Copy"
value="pip install reef"></clipboard-copy></div></div><p>{PROSE}<sup><a href="#fn-1" id="fnref-1"
data-footnote-ref="">1</a></sup></p><section class="footnotes"><h2 id="footnote-label"
class="sr-only">Footnotes</h2><ol><li id="fn-1"><p>Says Bob. <a href="#fnref-1"
class="data-footnote-backref">↩</a></p></li></ol></section></article></main>"""


def test_a_readme_on_github_is_read() -> None:
    title = "GitHub - helm/reef: When to reef"
    page = make_page(README, title=title, site="github.com")
    page = page.replace("<head>", f'<head><meta property="og:title" content="{title}">')
    source = read_page(page)
    assert source.title == "helm/reef: When to reef"
    assert source.text == (
        f"reef\n\n{PROSE}\n\nInstall\n\npip install reef\nreef --wind 15\n\n{PROSE}\n\nSays Bob."
    )


NEWSPAPER = f"""<header><a href="/subscribe">Subscribe for £1</a></header><main><article>
<header><p class="kicker">Sport</p><h1>Why sailors reef too late</h1><p class="standfirst">A habit
that costs sails</p><div class="byline">By <a href="/ann" rel="author">Ann Helm</a></div></header>
<div class="article__body"><p>{PROSE}</p><div class="ad-slot">Advertisement</div><aside
class="newsletter-signup"><h3>Sign up to First Edition</h3><p>Our daily email</p></aside>
<p class="paywall">{ADVICE}</p><div class="paywall-barrier subscription-prompt"><h2>Keep reading for
£1</h2><p>You have reached your limit of free articles. Subscribe to continue reading this article
and get unlimited access.</p><a href="/subscribe">Subscribe now</a></div></div><section
class="most-read"><h2>Most read</h2><ol><li><a href="/1">Storm hits coast</a></li></ol></section>
</article></main>"""


def test_a_newspaper_article_with_a_paywall_is_read() -> None:
    source = read_page(make_page(NEWSPAPER, title="Why sailors reef too late | The Harbour Times"))
    assert source.title == "Why sailors reef too late"
    assert source.text == f"{PROSE}\n\n{ADVICE}"


SUBSTACK = f"""<div class="main-menu"><h1 class="navbar-title"><a href="/">Harbour Notes</a></h1>
</div><article class="typography newsletter-post post"><div class="post-header"><h1
class="post-title published">Reefing early</h1><h3 class="subtitle">Keep a sail</h3></div><div
class="available-content"><div dir="auto" class="body markup"><p>{PROSE}<a class="footnote-anchor"
id="footnote-anchor-1" href="#footnote-1">1</a></p><div class="subscription-widget-wrap"><div
class="subscription-widget show-subscribe"><p class="cta-caption">Harbour Notes is a
reader-supported publication. To receive new posts, consider becoming a subscriber.</p></div></div>
<h3 class="header-anchor-post">When<div class="pencraft header-anchor-parent"><button>Link</button>
</div></h3><p>{PROSE}</p><p class="button-wrapper"><a class="button primary"
href="/s"><span>Share</span></a></p><div class="footnote"><a id="footnote-1"
href="#footnote-anchor-1" class="footnote-number">1</a><div class="footnote-content"><p>Says
Bob.</p></div></div></div></div><div class="paywall"><h2
class="paywall-title">This post is for paid subscribers</h2></div>
</article><div id="discussion"><h4>Discussion about this post</h4></div>"""


def test_a_post_of_substack_is_read() -> None:
    source = read_page(make_page(SUBSTACK, title="Reefing early - by Ann Helm - Harbour Notes"))
    assert source.text == f"Keep a sail\n\n{PROSE}\n\nWhen\n\n{PROSE}\n\nSays Bob."


SPHINX = f"""<div class="related" role="navigation"><h3>Navigation</h3></div><div class="document">
<div class="body" role="main"><section id="reefing"><h1>Reefing<a class="headerlink" href="#reefing"
title="Link to this heading">¶</a></h1><p>{PROSE} See <a class="reference internal"
href="anchor.html">Anchors</a>.<a class="footnote-reference brackets" href="#id2" id="id1"
role="doc-noteref"><span class="fn-bracket">[</span>1<span class="fn-bracket">]</span></a></p>
<div class="highlight-python notranslate"><div class="highlight"><pre><span></span><span
class="linenos">1</span><span class="kn">import</span> <span class="nn">reef</span>
<span class="linenos">2</span><span class="n">reef</span><span class="o">.</span>early()
</pre></div></div><p>{PROSE}</p></section></div></div>
<div class="footer" role="contentinfo">&#169; Copyright 2024, Ann Helm.</div>"""


def test_a_page_of_sphinx_documentation_is_read() -> None:
    source = read_page(make_page(SPHINX, title="Reefing &#8212; reef 1.2 documentation"))
    assert source.title == "Reefing"
    assert source.text == (f"{PROSE} See Anchors.\n\nimport reef\nreef.early()\n\n{PROSE}")


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
    ids=["pygments", "hexo", "jekyll", "no class", "highlight.js", "github", "prism"],
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


def test_an_essay_in_layout_tables_is_read() -> None:
    essay = (
        "A reef taken early costs <a href=/speed>a minute</a>, and one taken late costs <b>a"
        " sail</b>. [<a href=#f1n><font color=#ddd>1</font></a>]<br><br>"
    ) * 9
    page = (
        "<html><title>Reefs</title><table><tr><td><a href=/>Home</a></td><td><table>"
        f"<tr><td><font size=2>{essay}[<a name=f1n>1</a>] By the log.<br><br></font></td></tr>"
        "</table></td></tr></table></html>"
    )
    paragraph = "A reef taken early costs a minute, and one taken late costs a sail. [1]"
    assert read_page(page).text.split("\n\n")[-10:] == [paragraph] * 9 + ["[1] By the log."]


INFOBOX = """<table class="infobox"><tr><th>Founder</th><td><a href="/h">Ann Helm</a></td></tr><tr>
<th>Boats</th><td><div><ul><li><a href="/g">Gull</a></li><li><a href="/t">Tern</a></li></ul></div>
</td></tr><tr><th><a href="/r">Races</a> <span>(<a href="/w">won</a>)</span></th><td>12<br>(2024)
</td></tr></table>"""


def test_a_table_keeps_its_links_lists_and_lines() -> None:
    text = read_page(make_page(f"<article><p>{PROSE}</p>{INFOBOX}<p>{PROSE}</p></article>")).text
    rows = "Founder | Ann Helm\n\nBoats | Gull, Tern\n\nRaces (won) | 12 (2024)"
    assert text == f"{PROSE}\n\n{rows}\n\n{PROSE}"


def test_a_table_with_long_cells_is_not_a_layout_table() -> None:
    films = "".join(
        f'<tr><td><a href="/{name}">{name}</a></td><td>19{year}</td><td>{PROSE}</td></tr>'
        for name, year in [("Gull", 47), ("Tern", 64), ("Skua", 93)]
    )
    text = read_page(make_page(f"<article><p>{PROSE}</p><table>{films}</table></article>")).text
    rows = [f"Gull | 1947 | {PROSE}", f"Tern | 1964 | {PROSE}", f"Skua | 1993 | {PROSE}"]
    assert text == "\n\n".join([PROSE, *rows])


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


def test_sections_without_blocks_are_paragraphs() -> None:
    """Editors for WeChat write sections and spans."""
    sections = "".join(
        f"<section><section><span>{text[:9]}</span><span>{text[9:]}</span></section></section>"
        for text in (PROSE, ADVICE)
    )
    page = make_page(f'<div id="js_content">{sections}</div><div>Scan this code to follow us</div>')
    assert read_page(page).text == f"{PROSE}\n\n{ADVICE}"


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
