"""Templates, static files and the headers of pages.

All text from tools is untrusted. Templates escape every value except the HTML that the filter
`markdown` makes, and an address becomes a link only if its scheme is `http` or `https`.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shlex
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode, urlsplit

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from functions.gateway.apps.pages import MAP_SCRIPTS
from functions.gateway.console.markdown import get_web_address, render_markdown, split_matches
from functions.gateway.oauth.consent_page import SAFE_HEADERS, STYLE, to_prose
from shared.accounts.account import format_dollars
from shared.core.dates import format_day
from shared.core.errors import NotFound
from shared.core.installation import carrel
from shared.index.on_request import is_kept_out
from shared.knowledge.views import format_place
from shared.text.markup import to_plain_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment
    from starlette.requests import Request

_FOLDER: Final = Path(__file__).parent
_MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS: Final = {
    **SAFE_HEADERS,
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""The headers of every response of the console, unless it sets its own, as static files do."""
_CACHE_FOR_A_YEAR: Final = "public, max-age=31536000, immutable"


def render_page(
    template: str, *, status: int = 200, visit: object = None, **values: object
) -> HTMLResponse:
    """Render a template, and return it as a response.

    Without a `Visit`, as for an error before it began, the page shows neither the visitor nor the
    costs.
    """
    html = _load_templates().get_template(template).render(values, visit=visit)
    return HTMLResponse(html, status)


def make_json_response(content: Mapping[str, object], status: int = 200) -> JSONResponse:
    """Make a JSON response for a script on a page."""
    return JSONResponse(content, status)


def redirect(path: str) -> Response:
    """Send the browser to another page of the console by GET.

    What a header cannot contain, such as a letter outside Latin-1, is percent-encoded.
    """
    return RedirectResponse(path, 303)


async def serve_static_file(request: Request) -> Response:
    """Serve a style sheet, a script or a picture.

    Browsers may cache it for a year, because its query string has a hash of its content. During a
    rollout, a request may have the hash of another release. Then the answer must not be cached.
    """
    name = request.path_params["name"]
    content = _load_static_files().get(name)
    if content is None:
        return render_page(
            "error.html",
            status=NotFound.status,
            error=NotFound("There is no such file."),
            title="There is nothing here",
        )
    is_this_version = request.query_params.get("v") == _compute_version(name)
    headers = {"cache-control": _CACHE_FOR_A_YEAR} if is_this_version else None
    return Response(content, media_type=_MEDIA_TYPES[Path(name).suffix], headers=headers)


def get_web_host(address: str) -> str:
    """Return the host of a web address, without `www.`."""
    return (urlsplit(address).hostname or "").removeprefix("www.")


def split_days(text: str) -> list[str]:
    """Split a text at its days and moments in ISO form, which have the odd indices."""
    return re.split(r"\b(\d{4}-\d\d-\d\d(?:T[\d:.]+Z)?)\b", text)


def split_paragraphs(text: str) -> list[str]:
    """Split a text into paragraphs, without the markup of Markdown."""
    return [part.strip() for part in re.split(r"\n\s*\n", to_plain_text(text)) if part.strip()]


def describe_place(passage: dict[str, object]) -> str:
    """Say where in its source a passage is: the chapter, and the page or the location."""
    position = format_place(passage.get("page"), passage.get("location"))
    return ", ".join(str(part) for part in (passage.get("chapter"), position) if part)


def make_source_path(
    source_id: str,
    chunk_id: str | None = None,
    terms: Sequence[str] = (),
    *,
    is_editing: bool = False,
) -> str:
    """Return the path of a source's page, opened at one of its passages if its id is passed.

    Args:
        terms: The terms to highlight in the passage.
        is_editing: Whether the form for the tags of the passage is open.
    """
    path = f"/sources/{quote(source_id, safe='')}"
    if chunk_id is None:
        return path
    parameters = [("passage", chunk_id), *(("found", term) for term in terms)]
    query = urlencode(parameters + [("edit", "tags")] * is_editing)
    return f"{path}?{query}#{quote(chunk_id, safe='')}"


def make_passage_path(chunk_id: str) -> str:
    """Return the path that redirects to the source of a passage, for when it is not known."""
    return f"/passages/{quote(chunk_id, safe='')}"


def describe_modes(modes: Sequence[str]) -> str:
    """Say how a search found a passage.

    Args:
        modes: The modes of search that found it, of `lexical` and `semantic`.
    """
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
def _load_static_files() -> dict[str, bytes]:
    files = {path.name: path.read_bytes() for path in (_FOLDER / "static").iterdir()}
    # The style sheet of the sign-in pages comes first, so that all pages look alike.
    return {**files, "console.css": STYLE.encode() + files["console.css"]}


@cache
def make_static_path(name: str) -> str:
    """Return the path of a static file, with a hash of its content in the query string."""
    return f"/static/{name}?v={_compute_version(name)}"


@cache
def _compute_version(name: str) -> str:
    return hashlib.sha256(_load_static_files()[name]).hexdigest()[:12]


@cache
def _load_templates() -> Environment:
    # Redirects and JSON responses need no templates, so they do not wait for this import.
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Templates use the names of these functions without their verbs.
    environment.globals.update(
        idempotency_key=partial(secrets.token_urlsafe, 16),
        passage_path=make_passage_path,
        source_path=make_source_path,
        static_path=make_static_path,
        carrel=carrel,
        map_scripts=MAP_SCRIPTS,
    )
    environment.tests["kept_out"] = is_kept_out
    environment.filters.update(
        day=format_day,
        dollars=format_dollars,
        markdown=render_markdown,
        matches=split_matches,
        modes=describe_modes,
        paragraphs=split_paragraphs,
        place=describe_place,
        prose=to_prose,
        shell=shlex.quote,
        split_days=split_days,
        web_address=get_web_address,
        web_host=get_web_host,
    )
    return environment
