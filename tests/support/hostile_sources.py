"""Texts that would run as code in a page that does not escape them, and sources with them."""

from shared.knowledge.source import Section, Source

PAYLOADS = [
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea></style></template><svg onload=alert(1)>",
    "<img src=x onerror=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    '" autofocus onfocus=alert(1) x="',
    "' onmouseover='alert(1)",
    "`onclick=alert(1)`",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " javascript:alert(1)",
    "java\tscript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "//evil.example/x",
    "https://evil.example/\"onmouseover='alert(1)'",
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "<!--><script>alert(1)</script>-->",
    "<base href=https://evil.example/>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<form action=https://evil.example><input name=x>",
    "\u202e<b>\u2028\u0000",
    "&lt;script&gt;",
    "x\r\nset-cookie: a=b",
]

HOSTILE = Source(  # each field contains code that would run in a page that does not escape it
    source_id="hostile",
    title=PAYLOADS[1],
    author=PAYLOADS[3],
    category="articles",
    tags=tuple(payload.strip() for payload in PAYLOADS if "\n" not in payload),
    source_url="javascript:document.title='run'",
    readwise_url="https://readwise.io/open/1\"onmouseover='alert(1)'",
    sections=tuple(
        Section(text=f"A hostile passage: {payload}", highlight_url=payload) for payload in PAYLOADS
    ),
)
MARKDOWN = Source(  # has code that would run in a page, and all that Markdown has
    source_id="markdown",
    title="Hostile Markdown",
    markdown=True,
    sections=(
        *(Section(text=f"# A passage\n\n- [x]({payload})\n- {payload}") for payload in PAYLOADS),
        Section(text="![x](https://evil.example/x.png) ![x](javascript:alert(1)) <x@y.example>"),
        Section(text=f"### Wide\n\n|{'a|' * 30}\n|{'-|' * 30}\n|{'wide|' * 30}\n\n> {'z' * 300}"),
        Section(text=f"##### Code\n\n```html\n<script>alert(1)</script>{'z' * 300}\n```"),
    ),
)
WIDE = Source(  # has words that are wider than a screen
    source_id="wide",
    title="W" * 180,
    author="X" * 180,
    tags=("Y" * 100,),
    sections=(Section(text=f"A wide passage {'Z' * 500}"),),
)
