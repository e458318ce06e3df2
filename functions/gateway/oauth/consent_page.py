"""The pages of sign-in: plain HTML, without scripts. Whatever a program says of itself is hostile.

`form-action` deserves a word: Chromium applies it to every redirect after the form as well, so the
client's address must be in it, and where that address redirects to in turn. The latter is unknown;
all of https is allowed for its sake. That gives away little, since a hostile client is where its
own redirect URI says.
"""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse

from functions.gateway.http_errors import retry_after_header
from functions.gateway.oauth.redirect_uris import Destination
from shared.core.caller import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jinja2 import Environment

    from functions.gateway.oauth.authorization import AuthorizationRequest
    from shared.core.errors import CarrelError

SAFE_HEADERS: Final = {
    "cache-control": "no-store",
    # `no-referrer` would have browsers say `Origin: null` of our own form, which could be anyone's.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every page and redirect of sign-in."""
MAX_NAME_LENGTH: Final = 60
_MAX_MARKS: Final = 2
"""Combining marks that a character may carry."""
_STYLE: Final = Path(__file__).with_name("page.css").read_text("utf-8")
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_WORDS: Final = {
    Scope.READ: "search and read all that you can read here, including what is private to you",
    Scope.WRITE: "write, change and delete in your name",
}


def consent_page(
    authorization: AuthorizationRequest,
    sealed: str,
    form: str,
    *,
    google_source: str | None = None,
    error: CarrelError | None = None,
) -> HTMLResponse:
    """Ask a person whether a client may act for them.

    Args:
        authorization: What the client wants.
        sealed: The same, to come back with the form.
        form: What proves that the form is ours.
        google_source: Where the person proves who they are, as a policy names it; None if here, by
            access key.
        error: Why the last answer did not do.

    Raises:
        InvalidInput: The client wants the answer at an address that cannot be used.
    """
    destination = Destination.of(authorization.redirect_uri)
    html = _render(
        "consent.html",
        client=plain(authorization.client_name or "") or "A program without a name",
        client_host=_host_of(authorization.client_id),
        destination=destination,
        scopes=[words for scope, words in _WORDS.items() if scope in authorization.scopes],
        sealed=sealed,
        form=form,
        by_google=google_source is not None,
        error=error.message if error else None,
    )
    sources = ["'self'", "https:", destination.source, google_source or ""]
    return _response(html, error, sources)


def message_page(title: str, error: CarrelError, back: str | None = None) -> HTMLResponse:
    """Say what went wrong, and where to try again, if anywhere here."""
    html = _render("page.html", title=title, words=error.message, back=back)
    return _response(html, error, ["'none'"])


def plain(name: str) -> str:
    """A name that can neither hide, nor turn around, nor paint over what stands beside it."""
    characters: list[str] = []
    marks = 0
    for character in unicodedata.normalize("NFC", name[: MAX_NAME_LENGTH * 20]):
        category = unicodedata.category(character)
        marks = marks + 1 if category.startswith("M") else 0
        if marks <= _MAX_MARKS:
            characters.append(" " if category[0] in "CZ" else character)
    words = " ".join("".join(characters).split())
    return words if len(words) <= MAX_NAME_LENGTH else f"{words[:MAX_NAME_LENGTH]}…"


def _host_of(client_id: str) -> str | None:
    """Where the client's document is, if its id is the address of one."""
    return urlsplit(client_id).hostname if client_id.startswith("https://") else None


def _response(html: str, error: CarrelError | None, targets: Iterable[str]) -> HTMLResponse:
    policy = {
        "default-src": "'none'",
        "style-src": f"'sha256-{_STYLE_HASH}'",
        "form-action": " ".join(dict.fromkeys(target for target in targets if target)),
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    response = HTMLResponse(html, error.status if error else 200, SAFE_HEADERS)
    response.headers["content-security-policy"] = "; ".join(
        f"{name} {value}" for name, value in policy.items()
    )
    if error and error.retry_after is not None:
        response.headers["retry-after"] = retry_after_header(error.retry_after)
    return response


def _render(template: str, **values: object) -> str:
    return _templates().get_template(template).render(values)


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = _STYLE
    return environment
