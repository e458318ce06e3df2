"""The page from which an owner downloads everything that is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse

from shared.core.errors import Forbidden

if TYPE_CHECKING:
    from starlette.responses import Response

    from functions.gateway.console.visits import Visit

PATH: Final = "/export"
StreamExport = Callable[[str], AsyncIterator[bytes]]
"""Exports the knowledge base, and the private data of a user, as parts of a ZIP archive."""


class ExportPage:
    """The page and its download, for owners."""

    def __init__(self, stream: StreamExport | None) -> None:
        self._stream = stream

    async def show(self, visit: Visit) -> Response:
        """Show what an export contains."""
        _require_owner(visit)
        stats = await visit.call("get_stats")
        return visit.render(
            "export.html", stats.error, stats=stats.result, can_download=self._stream is not None
        )

    async def download(self, visit: Visit, _fields: dict[str, str]) -> Response:
        """Send the archive."""
        _require_owner(visit)
        if self._stream is None:
            raise Forbidden("Nothing can be downloaded here.")
        headers = {"content-disposition": 'attachment; filename="carrel-export.zip"'}
        parts = self._stream(str(visit.caller.user_id))
        return StreamingResponse(parts, media_type="application/zip", headers=headers)


def _require_owner(visit: Visit) -> None:
    if not visit.may_export:
        raise Forbidden("Only an owner may download everything.")
