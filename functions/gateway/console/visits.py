"""Visits of the console: a request, its visitor, and the calls of tools that answer it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import Route, request_response

from functions.gateway.auth.public_url import (
    get_resource_url,
    list_own_hosts,
    list_own_origins,
)
from functions.gateway.body_limits import BodyLimit
from functions.gateway.console.messages import (
    describe_error,
    describe_result,
    find_kind,
    find_title,
)
from functions.gateway.console.rendering import make_json_response, render_page
from functions.gateway.console.sessions import (
    ARRIVAL_PATH,
    KEY_PATH,
    SIGN_IN_PATH,
    SIGN_OUT_PATH,
    Sessions,
)
from functions.gateway.http_errors import format_retry_after
from functions.gateway.oauth.consent_page import to_prose
from functions.gateway.oauth.http import read_parameters
from shared.core.caller import Role, Tier
from shared.core.errors import (
    INTERNAL_ERROR_MESSAGE,
    CarrelError,
    Forbidden,
    InvalidInput,
    NotFound,
    PlatformFault,
    Unauthorized,
)
from shared.core.log import error_fields, log
from shared.runtime.messages import CallAnswer
from shared.runtime.tool import Effect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.exceptions import HTTPException
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from functions.gateway.access import Access
    from functions.gateway.calls.pipeline import CallPipeline
    from functions.gateway.catalog import Catalog
    from functions.gateway.console.sessions import Session
    from shared.core.caller import Caller
    from shared.runtime.messages import WireError

    Page = Callable[["Visit"], Awaitable[Response]]
    Form = Callable[["Visit", dict[str, str]], Awaitable[Response]]
    Handler = Callable[[Request], Awaitable[Response]]
    AnswerError = Callable[[CarrelError, Request], Response]

MAX_FORM_BYTES: Final = 256 * 1024
"""The maximum size of a form, in bytes. A note has up to 8,000 characters, each up to 12 bytes in
a form."""
ADD_PATH: Final = "/add"
REVIEW_PATH: Final = "/review"
UPLOAD_PATH: Final = "/add/files"
_RETURN_PATHS: Final = {
    SIGN_OUT_PATH: "/",
    REVIEW_PATH: "/",
    KEY_PATH: "/you",
    UPLOAD_PATH: ADD_PATH,
}
"""The pages to return to after sign-in from forms whose own addresses are not pages."""


class FindFile(Protocol):
    """Finds files of sources, on the machine that has them."""

    async def __call__(self, source_id: str, /) -> str | None:
        """Return the path of the file with a source, or None if there is none."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice on the page after a change.

    Attributes:
        path: The path of the page of what changed, or None if it is gone.
        undo: The fields of the form that undoes the change, or None if it cannot be undone.
    """

    message: str
    path: str | None = None
    undo: dict[str, str] | None = None


@dataclass
class Visit:
    """A request for a page, and what happens while it is answered.

    Attributes:
        address: The address to which clients connect.
        started_at: When the visit began, in seconds of a monotonic clock.
    """

    request: Request
    session: Session
    catalog: Catalog
    pipeline: CallPipeline
    address: str
    find_file: FindFile | None = None
    notice: Notice | None = None
    documents_read: int = 0
    started_at: float = field(default_factory=time.perf_counter)

    @property
    def caller(self) -> Caller:
        """The caller in the calls of tools."""
        return self.session.visitor.caller

    def offers(self, tool: str) -> bool:
        """Return whether this deployment has a tool that the visitor may call."""
        return self.catalog.find_for_page(tool, self.caller) is not None

    @property
    def may_add(self) -> bool:
        """Whether the visitor may add links or notes."""
        return self.offers("save_link") or self.offers("save_note")

    @property
    def may_export(self) -> bool:
        """Whether the visitor may download everything that is stored."""
        return self.caller.may_call(Tier.REGISTERED, Effect.READ.scope, Role.OWNER)

    async def call(self, tool: str, /, **arguments: Any) -> CallAnswer:
        """Call a tool as the visitor, with the arguments that are not None.

        Errors are returned in the answer, not raised. If the visitor may not call the tool, that is
        such an error, too. Messages are for people.
        """
        answer = await self._call(tool, arguments)
        if answer.error:
            return answer.model_copy(update={"error": describe_error(tool, answer.error)})
        if answer.result and (message := answer.result.get("message")):
            result = answer.result | {"message": describe_result(message)}
            return answer.model_copy(update={"result": result})
        return answer

    async def _call(self, tool: str, arguments: dict[str, Any]) -> CallAnswer:
        declaration = self.catalog.find_for_page(tool, self.caller)
        if declaration is None:
            return CallAnswer.failed(Forbidden(f"{tool} is not offered to you here."))
        arguments = {name: value for name, value in arguments.items() if value is not None}
        answer = await self.pipeline.call(declaration, arguments, self.session.visitor)
        self.documents_read += answer.receipt.documents_read
        return answer

    def render(self, template: str, error: WireError | None = None, **values: object) -> Response:
        """Render a page. Its status is that of the error that it shows, if any."""
        response = render_page(
            template, status=_get_status(error), error=error, visit=self, **values
        )
        return _set_retry_after(response, error)

    def make_response(
        self, content: Mapping[str, object], error: WireError | None = None
    ) -> Response:
        """Make the response to a script: the content, with the message of the error if any."""
        message = {"message": error.message} if error else {}
        response = make_json_response({**content, **message}, _get_status(error))
        return _set_retry_after(response, error)

    def render_error(self, error: WireError, typed: str = "") -> Response:
        """Render a page that shows only an error, and the text of a form that had no effect."""
        return self.render("error.html", error=error, title=find_title(error), typed=typed)

    @property
    def path(self) -> str:
        """The path of the page, with its query string."""
        return _get_path(self.request)

    @property
    def milliseconds(self) -> int:
        """The milliseconds since the visit began."""
        return round((time.perf_counter() - self.started_at) * 1000)


class Visits:
    """Turns requests into visits. As for `/mcp`, requests for other hosts are rejected."""

    def __init__(
        self,
        access: Access,
        catalog: Catalog,
        pipeline: CallPipeline,
        find_file: FindFile | None = None,
    ) -> None:
        self._access = access
        self._catalog = catalog
        self._pipeline = pipeline
        self._find_file = find_file
        self.sessions = Sessions(access)
        settings = access.settings
        self._security = TransportSecurityMiddleware(
            TransportSecuritySettings(
                allowed_hosts=list_own_hosts(settings),
                allowed_origins=list_own_origins(settings),
            )
        )

    def wrap_page(self, show: Page) -> Handler:
        """Wrap a page as a handler. A visitor who must sign in does so, and then returns to it."""

        async def handle(request: Request) -> Response:
            try:
                session = await self.sessions.find(request)
            except Unauthorized:
                if self._access.settings.local_user:
                    raise
                return self.sessions.begin(request, _get_path(request))
            return await show(self._make_visit(request, session))

        return self._guard(handle)

    def wrap_data(self, send: Page) -> Handler:
        """Wrap the handler of a script's request. All answers are JSON, including errors."""

        async def handle(request: Request) -> Response:
            session = await self.sessions.find(request)
            return await send(self._make_visit(request, session))

        return self._guard(handle, answer_script)

    def wrap_form(self, apply: Form) -> ASGIApp:
        """Wrap the handler of a form, and accept only forms from pages of the visitor's session."""

        async def handle(request: Request) -> Response:
            fields = await read_parameters(request)
            try:
                session = await self.sessions.find(request)
            except Unauthorized:
                ended = Unauthorized(
                    "Your sign-in has ended, and nothing was changed. Sign in again."
                )
                return self._answer_error(ended, request, fields.get("text", ""))
            self.sessions.verify_form(request, session, fields.pop("form", ""))
            return await apply(self._make_visit(request, session), fields)

        return BodyLimit(
            request_response(self._guard(handle)),
            max_bytes=lambda _: MAX_FORM_BYTES,
            advice=lambda _: "Nothing was changed. Go back, and shorten the text.",
            make_error=_answer_rejected_body,
        )

    def wrap_upload(self, apply: Page) -> Handler:
        """Wrap the handler of a form with files, which reads the body and verifies the form."""

        async def handle(request: Request) -> Response:
            session = await self.sessions.find(request)
            return await apply(self._make_visit(request, session))

        return self._guard(handle)

    def make_session_routes(self) -> list[Route]:
        """Make the routes by which people sign in and out."""

        async def begin(request: Request) -> Response:
            return self.sessions.begin(request, request.query_params.get("to", ""))

        async def end(visit: Visit, _fields: dict[str, str]) -> Response:
            return await self.sessions.end(visit.session)

        return [
            Route(ARRIVAL_PATH, self._guard(self.sessions.complete), methods=["GET"]),
            Route(SIGN_IN_PATH, self._guard(begin), methods=["GET"]),
            Route(SIGN_OUT_PATH, self.wrap_form(end), methods=["POST"]),
        ]

    def _make_visit(self, request: Request, session: Session) -> Visit:
        address = get_resource_url(self._access.settings)
        return Visit(request, session, self._catalog, self._pipeline, address, self._find_file)

    def _guard(self, handle: Handler, answer_error: AnswerError | None = None) -> Handler:
        """Wrap a handler: reject other hosts and origins, and answer errors.

        Args:
            answer_error: Makes the response to an error; a page by default.
        """
        answer_error = answer_error or self._answer_error

        async def guarded(request: Request) -> Response:
            if rejection := await self._security.validate_request(request):
                return rejection
            try:
                return await handle(request)
            except CarrelError as error:
                return answer_error(error, request)
            except Exception as error:  # noqa: BLE001 - the boundary: every error is answered
                log.error("console_failed", **error_fields(error))
                return answer_error(PlatformFault(INTERNAL_ERROR_MESSAGE), request)

        return guarded

    async def answer_not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a page that does not exist."""
        error = NotFound("There is no such page. Search, or choose one above.")
        await self._answer_error(error, Request(scope))(scope, receive, send)

    def answer_wrong_method(self, error: HTTPException, request: Request) -> Response:
        """Answer a request by a method that its address does not support."""
        message = "This address is for a form, not for a page. Choose a page above."
        response = self._answer_error(NotFound(message), request)
        response.status_code = error.status_code
        response.headers.update(error.headers or {})
        return response

    def _answer_error(self, error: CarrelError, request: Request, typed: str = "") -> Response:
        """Make the page of an error that is not a tool's.

        Args:
            request: The request. After sign-in, the visitor returns to its page.
            typed: The text of a form that had no effect. The page shows it, so it can be copied.
        """
        may_sign_in = isinstance(error, Unauthorized | Forbidden)
        response = render_page(
            "error.html",
            status=error.status,
            error=error,
            title=find_title(error),
            offers_sign_in=may_sign_in and not self._access.settings.local_user,
            path=_RETURN_PATHS.get(request.url.path) or _get_path(request),
            typed=typed,
        )
        return _set_retry_after(response, error)


def _answer_rejected_body(status: int, message: str, headers: dict[str, str]) -> Response:
    """Make the page that says why the body of a form was not read."""
    error = InvalidInput(message)
    title = find_title(error)
    response = render_page("error.html", status=status, error=error, title=title)
    response.headers.update(headers)
    return response


def answer_script(error: CarrelError, _request: Request) -> Response:
    """Answer the request of a script with an error that is not a tool's."""
    message = to_prose(error.message)
    return _set_retry_after(make_json_response({"message": message}, error.status), error)


def _get_path(request: Request) -> str:
    """Return the path of a request, with its query string, in the form for a link."""
    path = quote(request.scope["path"])
    query = quote(request.scope["query_string"], safe="%&+,/:;=?@")
    return f"{path}?{query}" if query else path


def _get_status(error: WireError | None) -> int:
    return find_kind(error).status if error else 200


def _set_retry_after(response: Response, error: CarrelError | WireError | None) -> Response:
    if error and error.retry_after is not None:
        response.headers["retry-after"] = format_retry_after(error.retry_after)
    return response
