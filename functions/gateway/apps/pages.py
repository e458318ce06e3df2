"""The pages of MCP Apps: each is one HTML file with the console's styles and its own scripts.

A page sends no HTTP requests. The client that shows it sends it all data as messages, and calls
tools on its behalf. Texts from tools are untrusted: the scripts write them as text, never as HTML.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent
_CONSOLE: Final = _FOLDER.parent / "console"
"""The console's folder, which the gateway's bundle contains, too."""
_STYLES: Final = (
    _FOLDER.parent / "oauth" / "page.css",
    _CONSOLE / "static" / "console.css",
    _FOLDER / "app.css",
)
_SCRIPTS: Final = tuple(_FOLDER / name for name in ("host.js", "elements.js", "reader.js"))
MAP_SCRIPTS: Final = (
    "map-points.js",
    "map-view.js",
    "map-names.js",
    "map-card.js",
    "map-input.js",
    "dot-raster.js",
    "map.js",
)
"""The console's scripts that draw a map, in the order in which they are loaded."""
_MAP: Final = "map"
"""The name of the app that shows the console's map."""
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
<main>
{body}
</main>
<script type="module">
{script}
</script>
</body>
</html>
"""


@cache
def build_app_page(app: str) -> str:
    """Return the page of an app.

    Its script has the app's name. The page joins all scripts into one, so they share one scope.
    """
    styles = [*_STYLES]
    scripts = [*_SCRIPTS, _FOLDER / f"{app}.js"]
    body = ""
    if app == _MAP:
        styles.insert(-1, _CONSOLE / "static" / "map.css")
        scripts[-1:-1] = [_CONSOLE / "static" / name for name in MAP_SCRIPTS]
        body = _render_map()
    return _PAGE.format(style=_join_texts(styles), body=body, script=_join_texts(scripts))


def _render_map() -> str:
    from jinja2 import Environment, FileSystemLoader

    templates = Environment(loader=FileSystemLoader(_CONSOLE / "templates"), autoescape=True)
    call = '{% from "map_parts.html" import passage_map %}{{ passage_map() }}'
    return templates.from_string(call).render()


def _join_texts(paths: list[Path]) -> str:
    return "\n".join(path.read_text("utf-8") for path in paths)
