"""Templates, static files and the headers of pages. All text from tools is untrusted.

Templates escape everything. No value is ever marked as safe, and an address becomes a link only if
it is one of the web.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from starlette.responses import HTMLResponse, JSONResponse, Response

from functions.gateway.oauth.consent_page import SAFE_HEADERS, STYLE
from shared.core.errors import NotFound
from shared.text.markup import to_plain_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from jinja2 import Environment
    from starlette.requests import Request

_FOLDER: Final = Path(__file__).parent
_MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY: Final = "; ".join(
    (
        *("default-src 'none'", "style-src 'self'", "script-src 'self'", "img-src 'self'"),
        *("connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"),
    )
)
PAGE_HEADERS: Final = {
    **SAFE_HEADERS,
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""The headers of every page of the console."""
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_MAX_HIGHLIGHTED_TERMS: Final = 50


def html_page(template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    """Render a template as the response of a page."""
    html = _templates().get_template(template).render(values)
    return HTMLResponse(html, status, PAGE_HEADERS)


def json_data(content: Mapping[str, object], status: int = 200) -> JSONResponse:
    """Make the response to a script of a page."""
    return JSONResponse(content, status, PAGE_HEADERS)


def redirect(path: str) -> Response:
    """Send the browser to another page of the console by GET."""
    return Response(status_code=303, headers={**PAGE_HEADERS, "location": path})


async def serve_static_file(request: Request) -> Response:
    """Serve a style sheet, a script or a picture. Its address changes with its content."""
    content = _static_files().get(request.path_params["name"])
    if content is None:
        return html_page(
            "error.html",
            status=NotFound.status,
            error=NotFound("There is no such file."),
            title="There is nothing here",
            visit=None,
        )
    headers = {
        "cache-control": _IMMUTABLE,
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
    }
    suffix = Path(request.path_params["name"]).suffix
    return Response(content, media_type=_MEDIA_TYPES[suffix], headers=headers)


def split_matches(text: str, terms: Collection[str]) -> list[tuple[str, bool]]:
    """Split a text into parts, and say of each whether it is one of the words that match."""
    words = sorted(filter(None, terms), key=len, reverse=True)[:_MAX_HIGHLIGHTED_TERMS]
    if not words:
        return [(text, False)]
    pattern = rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)"
    parts = re.split(pattern, text, flags=re.IGNORECASE)
    return [(part, index % 2 == 1) for index, part in enumerate(parts) if part]


def web_address(address: str | None) -> str | None:
    """Return an address if it is one of the web, and so safe to link to."""
    if not address:
        return None
    try:
        url = urlsplit(address)
    except ValueError:
        return None
    return address if url.scheme in {"http", "https"} and url.netloc else None


def web_host(address: str) -> str:
    """Return the host of a web address, for people."""
    return (urlsplit(address).hostname or "").removeprefix("www.")


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text without marks of Markdown."""
    return [part.strip() for part in re.split(r"\n\s*\n", to_plain_text(text)) if part.strip()]


def place(passage: dict[str, object]) -> str:
    """Return where a passage is in its source, in words."""
    page, location = passage.get("page"), passage.get("location")
    spot = f"page {page}" if page else f"location {location}" if location else ""
    return ", ".join(str(part) for part in (passage.get("chapter"), spot) if part)


def source_path(source_id: str, chunk_id: str | None = None) -> str:
    """Return the address of a source in the console, opened at one of its passages if given."""
    path = f"/sources/{quote(source_id, safe='')}"
    if chunk_id is None:
        return path
    name = quote(chunk_id, safe="")
    return f"{path}?passage={name}#{name}"


def passage_path(chunk_id: str) -> str:
    """Return the address of a passage whose source is not at hand."""
    return f"/passages/{quote(chunk_id, safe='')}"


def kind_in_words(modes: Sequence[str]) -> str:
    """Say how a passage was found."""
    match sorted(modes):
        case ["lexical", "semantic"]:
            return "meaning and words"
        case ["lexical"]:
            return "words"
        case ["semantic"]:
            return "meaning"
        case _:
            return ""


@cache
def _static_files() -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in (_FOLDER / "static").iterdir()}
    # The style sheet of the sign-in pages comes first: one look for all pages.
    return {**files, "console.css": STYLE.encode() + files["console.css"]}


@cache
def static_path(name: str) -> str:
    """Return the address of a static file."""
    digest = hashlib.sha256(_static_files()[name]).hexdigest()
    return f"/static/{name}?v={digest[:12]}"


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        kind_in_words=kind_in_words,
        new_key=partial(secrets.token_urlsafe, 16),
        passage_path=passage_path,
        source_path=source_path,
        static_path=static_path,
    )
    environment.filters.update(
        paragraphs=paragraphs,
        place=place,
        split_matches=split_matches,
        web_address=web_address,
        web_host=web_host,
    )
    return environment
