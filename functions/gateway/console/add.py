"""The page on which people add links, notes and files, and see what is followed and what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from functions.gateway.console.changes import apply_change
from functions.gateway.console.visits import Notice
from shared.core.caller import Role, Scope, Tier
from shared.core.errors import Forbidden, InvalidInput
from shared.runtime.messages import CallAnswer
from shared.text.counts import format_count

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request
    from starlette.responses import Response

    from functions.gateway.console.sessions import Sessions
    from functions.gateway.console.visits import Visit
    from shared.runtime.messages import WireError


class Upload(Protocol):
    """Files that were received. They are deleted unless they are submitted."""

    @property
    def count(self) -> int:
        """The number of files, at least one."""

    def get_field(self, name: str) -> str:
        """Return the value of another field of the form, or an empty string."""

    async def submit(self) -> bool:
        """Have the files read, and return whether they have been read already."""


class Uploads(Protocol):
    """Receives files where a job can read them."""

    max_files: int
    max_bytes: int

    def receive(self, request: Request) -> AbstractAsyncContextManager[Upload]:
        """Receive a form with files."""


class AddPage:
    """The page and its forms, for visitors who may add something."""

    def __init__(self, sessions: Sessions, uploads: Uploads | None) -> None:
        self._sessions = sessions
        self._uploads = uploads

    async def change(self, visit: Visit, fields: dict[str, str]) -> Response:
        """Save a link or a note, or undo that, and show the page again."""
        error = await apply_change(visit, "", fields)
        return await self.show(visit, error, fields if error else None)

    async def upload(self, visit: Visit) -> Response:
        """Have files read, and show what became of them.

        Raises:
            Forbidden: The visitor may not change all sources, or the form is not of this page.
            Unavailable: The disk is full.
        """
        if self._uploads is None or not _may_upload(visit):
            raise Forbidden("Files cannot be added here.")
        try:
            async with self._uploads.receive(visit.request) as upload:
                token = upload.get_field("form")
                self._sessions.verify_form(visit.request, visit.session, token)
                is_read = await upload.submit()
        except InvalidInput as error:
            return await self.show(visit, CallAnswer.failed(error).error)
        files = format_count(upload.count, "file")
        if not is_read:
            visit.notice = Notice(f"Received {files}. Reading goes on: reload this page later.")
            return await self.show(visit)
        return await self.show(visit, read=files)

    async def show(
        self,
        visit: Visit,
        error: WireError | None = None,
        draft: dict[str, str] | None = None,
        *,
        read: str = "",
    ) -> Response:
        """Show the forms, what is followed, and what failed.

        Args:
            error: Why the change of this visit failed, if it did.
            draft: The fields of the form that failed.
            read: How many uploaded files were read, if any.

        Raises:
            Forbidden: The visitor may add nothing.
        """
        if not visit.may_add:
            raise Forbidden("You may read here, but add nothing.")
        answer = await visit.call("list_origins") if visit.offers("list_origins") else None
        result = (answer.result if answer else None) or {}
        uploads = [item for item in result.get("origins", []) if item["kind"] == "uploads"]
        problems = uploads[0]["problems"] if uploads else []
        if read:
            exception = ", except for the problems below" if problems else ""
            outlook = "Search finds new texts in a minute or two."
            links = " Links wait below until you fetch them." if result.get("listed_links") else ""
            visit.notice = Notice(f"Read {read}{exception}. {outlook}{links}")
        return visit.render(
            "add.html",
            error=error or (answer.error if answer else None),
            draft=draft or {},
            uploads=self._uploads,
            may_upload=_may_upload(visit),
            upload_problems=problems,
            followed=result,
        )


def _may_upload(visit: Visit) -> bool:
    """Return whether the visitor may add files, which can change any source."""
    return visit.may_add and visit.caller.may_call(Tier.REGISTERED, Scope.CURATE, Role.OWNER)
