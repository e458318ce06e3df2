"""The pages of MCP Apps: one file each, made of the console's style and of scripts.

A page makes no request. It gets all data as messages of the client that shows it, which also calls
the tools. Texts from tools are untrusted: the scripts write them as text, never as HTML.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent
_STYLES: Final = ("../oauth/page.css", "../console/static/console.css", "app.css")
"""The look of the sign-in pages and of the console, whose files are in the gateway's bundle."""
_SHARED_SCRIPTS: Final = ("host.js", "elements.js", "reader.js")
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Carrel</title>
<style>
{style}
</style>
</head>
<body class="console app">
<main></main>
<script type="module">
{script}
</script>
</body>
</html>
"""


@cache
def app_page(app: str) -> str:
    """Return the page of an app, whose script has its name. All scripts share one scope."""
    scripts = [_read(name) for name in (*_SHARED_SCRIPTS, f"{app}.js")]
    styles = [_read(name) for name in _STYLES]
    return _PAGE.format(style="\n".join(styles), script="\n".join(scripts))


def _read(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")
