"""The sign-in pages: plain HTML without scripts. All text from programs is untrusted.

In the content security policy, `form-action` allows all of https: Chromium also applies it to every
redirect after the form, so it must include the client's redirect URI and the unknown addresses to
which that redirects in turn. Little is lost, because a hostile client chooses its redirect URI.
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

from functions.gateway.http_errors import format_retry_after
from functions.gateway.oauth.authorization import CONSOLE_CLIENT_ID, KEY_CLIENT_ID
from functions.gateway.oauth.redirect_uris import Destination
from shared.core.caller import Scope
from shared.core.installation import carrel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jinja2 import Environment

    from functions.gateway.oauth.authorization import AuthorizationRequest
    from shared.core.errors import CarrelError

SAFE_HEADERS: Final = {
    "cache-control": "no-store",
    # With `no-referrer`, browsers would send `Origin: null` with the form, as other sites can.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""The headers of every sign-in page and redirect."""
MAX_NAME_LENGTH: Final = 60
"""The maximum length of a program's name on a page, in characters."""
_MAX_COMBINING_MARKS: Final = 2
"""The maximum number of combining marks after a character."""
STYLE: Final = Path(__file__).with_name("page.css").read_text("utf-8")
"""The style sheet, which the console shares."""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_OWN_PAGES: Final = {CONSOLE_CLIENT_ID: "sign_in.html", KEY_CLIENT_ID: "make_key.html"}
"""The templates that replace `consent.html` for this server's own programs, by client id."""
_SCOPE_LABELS: Final = {
    Scope.READ: "search and read everything that you can read here, including your private data",
    Scope.WRITE: "create, change and delete data on your behalf",
    Scope.CURATE: "change and forget sources and passages, as far as your role allows",
    Scope.SAVE: "save pages and notes from a browser, and read nothing",
}


def make_consent_page(
    authorization: AuthorizationRequest,
    sealed_request: str,
    form: str,
    *,
    google_source: str | None = None,
    error: CarrelError | None = None,
) -> HTMLResponse:
    """Make the page that asks a person whether a program may act for them, or to sign in.

    Args:
        sealed_request: The sealed request, which the form sends back.
        google_source: Google's sign-in page in the form for a content security policy, or None if
            people sign in with an access key on this page.

    Raises:
        InvalidInput: The redirect URI is not allowed.
    """
    destination = Destination.of(authorization.redirect_uri)
    html = _render(
        _OWN_PAGES.get(authorization.client_id, "consent.html"),
        client=sanitize_name(authorization.client_name or "") or "An unnamed program",
        client_host=_get_client_host(authorization.client_id),
        destination=destination,
        scopes=[label for scope, label in _SCOPE_LABELS.items() if scope in authorization.scopes],
        sealed_request=sealed_request,
        form=form,
        create_command=carrel("keys create"),
        by_google=google_source is not None,
        error=to_prose(error.message) if error else None,
    )
    sources = ["'self'", "https:", destination.csp_source, google_source or ""]
    return _make_response(html, error, sources)


def make_message_page(title: str, error: CarrelError, retry_url: str | None = None) -> HTMLResponse:
    """Make a page with an error, and a link to try again if there is one."""
    html = _render("page.html", title=title, message=to_prose(error.message), retry_url=retry_url)
    return _make_response(html, error, ["'none'"])


def to_prose(message: str) -> str:
    """Remove the backticks around code, which messages for models and terminals have."""
    return message.replace("`", "")


def sanitize_name(name: str) -> str:
    """Remove the characters of a name that could hide, reverse or cover nearby text."""
    characters: list[str] = []
    marks = 0
    for character in unicodedata.normalize("NFC", name[: MAX_NAME_LENGTH * 20]):
        category = unicodedata.category(character)
        marks = marks + 1 if category.startswith("M") else 0
        if marks <= _MAX_COMBINING_MARKS:
            characters.append(" " if category[0] in "CZ" else character)
    words = " ".join("".join(characters).split())
    return words if len(words) <= MAX_NAME_LENGTH else f"{words[:MAX_NAME_LENGTH]}…"


def _get_client_host(client_id: str) -> str | None:
    return urlsplit(client_id).hostname if client_id.startswith("https://") else None


def _make_response(html: str, error: CarrelError | None, targets: Iterable[str]) -> HTMLResponse:
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
        response.headers["retry-after"] = format_retry_after(error.retry_after)
    return response


def _render(template: str, **values: object) -> str:
    return _load_templates().get_template(template).render(values)


@cache
def _load_templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = STYLE
    return environment
