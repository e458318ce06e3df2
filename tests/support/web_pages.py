"""A web page like those of magazines, for tests that extract the article from a page."""

from typing import Final

PROSE: Final = (
    "A reef taken early costs a minute; a reef taken late costs a sail. This is the first rule"
    " that my father taught me, and it took me ten years and three sails to believe him."
)
"""The first paragraph of the article."""


def make_article_page(canonical: str = "https://sailing.example.com/reefing-early") -> str:
    """Return a page with a menu, an article, advice on what to read next, and a footer."""
    return f"""<!DOCTYPE html>
<html lang="en-GB"><head><meta charset="utf-8"><title>Reefing early | Sailing Weekly</title>
<meta property="og:title" content="Reefing early"><meta name="author" content="Ann Helm, Bob Reef">
<meta property="article:published_time" content="2024-05-31T16:41:53+02:00">
<link rel="canonical" href="{canonical}"></head><body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/boats">Boats</a></li></ul></nav>
<main><article><h1>Reefing early</h1>
<p>{PROSE}</p>
<h2>When to reef</h2>
<p>Reef when you first think of it: the thought comes from the <b>helm</b> and from the heel.</p>
<ul><li>The helm pulls hard.</li><li>The lee rail is wet.</li></ul>
<pre><code>def reef(wind):
    return wind &gt; 15
</code></pre>
<table><tr><th>Wind</th><th>Reefs</th></tr><tr><td>15 kn</td><td>one</td></tr></table>
</article></main>
<aside><h3>Related</h3><ul><li><a href="/anchors">Ten best anchors</a></li></ul></aside>
<footer>Copyright 2024 Sailing Weekly. <a href="/privacy">Privacy</a></footer>
</body></html>"""
