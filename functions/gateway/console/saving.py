"""Saving from the browser: the form that a bookmarklet fills in, and the extension's endpoint.

No web page can use the endpoint, because it reads no cookies and answers no preflight requests.
The extension needs neither: it has a save-only key, and its user has granted it access to this
host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.routing import request_response

from functions.gateway.auth.callers import read_credential
from functions.gateway.auth.public_url import get_issuer_url, list_own_hosts
from functions.gateway.auth.visitor import get_attached_visitor
from functions.gateway.body_limits import BodyLimit, find_json_problem
from functions.gateway.console.changes import apply_change, make_notice
from functions.gateway.console.messages import NOTHING_SAVED
from functions.gateway.console.rendering import make_json_response
from functions.gateway.console.sessions import Session
from functions.gateway.console.visits import Notice, Visit, answer_script
from shared.core.errors import CarrelError, InvalidInput, NotFound
from shared.core.http import parse_media_type
from shared.core.public_url import DocumentRejected, PublicUrl
from shared.core.text_validation import is_blank, remove_invisible
from shared.links.model import derive_link_source_id

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from functions.gateway.access import Access
    from functions.gateway.calls.pipeline import CallPipeline
    from functions.gateway.catalog import Catalog
    from shared.runtime.messages import CallAnswer, WireError

FORM_PATH: Final = "/save"
PAGE_PATH: Final = "/save/page"
MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
"""The maximum size of a request of the extension."""
_MAX_SELECTION: Final = 4_000
"""The maximum number of selected characters that the bookmarklet passes on in the address."""
_MAX_NOTE: Final = 8_000
"""The maximum length of a note, in characters. A longer selection of the extension is cut."""
_MAX_TITLE: Final = 200
_BOOKMARKLET: Final = (
    "javascript:void open('{url}#'+new URLSearchParams({{url:location.href,title:document.title,"
    "text:String(getSelection()).slice(0,{length})}}),'_blank','noopener')"
)
"""Opens the form. The text is in the fragment of the address, which no server sees."""
_LINK_NOTICE: Final = Notice("Saved. If the page can be fetched, it can be found in a few minutes.")
_EXTENSION_ORIGINS: Final = ("chrome-extension://", "moz-extension://", "safari-web-extension://")


class SaveForm:
    """The page with the form, the bookmarklet, and how to set up the extension."""

    def __init__(self, access: Access) -> None:
        url = get_issuer_url(access.settings)
        self._bookmarklet = _BOOKMARKLET.format(url=url + FORM_PATH, length=_MAX_SELECTION)

    async def show(self, visit: Visit) -> Response:
        """Show the form. Its script fills it in from the fragment of the address."""
        return self._render(visit)

    async def save(self, visit: Visit, fields: dict[str, str]) -> Response:
        """Save the selection as a note or, if there is none, the address of the page."""
        if fields.get("action") == "undo":
            return self._render(visit, await apply_change(visit, "", fields))
        url, text = fields.get("url", "").strip(), fields.get("text", "").strip()
        key = fields.get("idempotency_key")
        if text:
            answer = await _save_selection(visit, url, fields.get("title", ""), text, key=key)
        else:
            answer = await visit.call("save_link", url=url, idempotency_key=key)
        if answer.error:
            return self._render(visit, answer.error, fields)
        visit.notice = make_notice("save_note", answer.result or {}) if text else _LINK_NOTICE
        return self._render(visit)

    def _render(
        self, visit: Visit, error: WireError | None = None, typed: dict[str, str] | None = None
    ) -> Response:
        return visit.render(
            "save.html", error=error, typed=typed or {}, bookmarklet=self._bookmarklet
        )


class SavedPage(BaseModel):
    """A page that the extension sends.

    Attributes:
        text: What the person selected, or an empty string.
        replace: Whether the person wants to replace a page that is stored already.
    """

    url: str
    html: str
    title: str = ""
    text: str = ""
    replace: bool = False


class PageEndpoint:
    """Saves a page that the extension sends, and what the person selected on it as a note."""

    def __init__(self, access: Access, catalog: Catalog, pipeline: CallPipeline) -> None:
        self._callers = access.callers
        self._catalog = catalog
        self._pipeline = pipeline
        self._hosts = frozenset(list_own_hosts(access.settings))
        self._with_body = BodyLimit(
            request_response(self._save),
            max_bytes=lambda _: MAX_PAGE_BYTES,
            advice=lambda _: "Save its address instead.",
            find_problem=find_json_problem,
            make_error=_make_error,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Only one with a valid key has its body read."""
        request = Request(scope)
        if rejection := self._find_rejection(request):
            await _make_error(*rejection)(scope, receive, send)
            return
        try:
            visitor = await self._callers.identify_saver(read_credential(request.headers))
        except CarrelError as error:
            await answer_script(error, request)(scope, receive, send)
            return
        visitor.attach(scope)
        await self._with_body(scope, receive, send)

    def _find_rejection(self, request: Request) -> tuple[int, str] | None:
        """Return the status and the message for a request that is not an extension's."""
        headers = request.headers
        if headers.get("host") not in self._hosts:
            return 421, "This is not the address of this server."
        # Browsers send an Origin with each POST of a web page, so a request without one is none.
        if not headers.get("origin", _EXTENSION_ORIGINS[0]).startswith(_EXTENSION_ORIGINS):
            return 403, "Web pages cannot save here."
        if parse_media_type(headers.get("content-type")) != "application/json":
            return 415, "Send the page with Content-Type: application/json."
        return None

    async def _save(self, request: Request) -> Response:
        try:
            page = SavedPage.model_validate_json(await request.body())
        except ValidationError:
            return answer_script(InvalidInput("This is not a page from the extension."), request)
        session = Session(get_attached_visitor(request.scope), None, "")
        visit = Visit(request, session, self._catalog, self._pipeline, address="")
        text = remove_invisible(page.text).strip()
        has_note = not is_blank(text)
        if has_note:
            answer = await _save_selection(visit, page.url, page.title, text[:_MAX_NOTE])
            if answer.error:
                return visit.make_response({}, answer.error)
        answer = await visit.call("save_page", url=page.url, page=page.html, replace=page.replace)
        if answer.error:
            can_replace = answer.error.details.get("state") == "stored"
            error = _mention_note(answer.error) if has_note else answer.error
            return visit.make_response({"can_replace": can_replace}, error)
        result = answer.result or {}
        message = "Saved. If the page has an article, it can be found in a few minutes."
        if len(text) > _MAX_NOTE:
            message += f" The note has the first {_MAX_NOTE:,} characters of the selection."
        return visit.make_response({"source_id": result["source_id"], "message": message})


async def _save_selection(
    visit: Visit, url: str, title: str, text: str, *, key: str | None = None
) -> CallAnswer:
    """Save what was selected as a note: about the source of the page, if that is stored."""
    title = " ".join(remove_invisible(title).split())[:_MAX_TITLE]
    arguments = {"url": url, "text": remove_invisible(text), "title": title or None}
    answer = await visit.call(
        "save_note", **arguments, about=_derive_source_id(url), idempotency_key=key
    )
    if answer.error and answer.error.code == NotFound.code:
        answer = await visit.call("save_note", **arguments, idempotency_key=key)
    return answer


def _mention_note(error: WireError) -> WireError:
    """Return the error of a page whose selection was saved as a note."""
    reason = error.message.removeprefix(f"{NOTHING_SAVED} ")
    message = f"The selection was saved, but not the page. {reason}"
    return error.model_copy(update={"message": message})


def _derive_source_id(url: str) -> str | None:
    try:
        return derive_link_source_id(PublicUrl.of_link(url))
    except DocumentRejected:
        return None


def _make_error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    response = make_json_response({"message": message}, status)
    response.headers.update(headers or {})
    return response
