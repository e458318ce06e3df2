"""Save a web page as a browser shows it: queue its HTML for the job `ingest`."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, StringConstraints

from shared.core.caller import Role, Tier
from shared.core.errors import Conflict, Forbidden, InvalidInput
from shared.core.public_url import DocumentRejected, PublicUrl
from shared.knowledge.forgotten_repository import ForgottenSources
from shared.knowledge.source import may_edit
from shared.knowledge.source_repository import Sources
from shared.links.ingest_start import start_ingest
from shared.links.model import Link, LinkState, derive_link_source_id
from shared.links.repository import SavedLinks
from shared.runtime.capabilities import Capability
from shared.runtime.schemas import Change, IdempotentArguments, Result, Undo
from shared.runtime.tool import Effect, Tool
from shared.screening.screen import require_no_secrets

if TYPE_CHECKING:
    from shared.runtime.context import Context

MAX_HTML_LENGTH: Final = 8_000_000
"""The maximum length of the HTML, in characters."""
MAX_COMPRESSED_BYTES: Final = 900_000
"""The maximum size of the compressed HTML. A Firestore document has at most a megabyte."""


class In(IdempotentArguments):
    """A page to save."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] = Field(
        description="Its address."
    )
    page: Annotated[str, StringConstraints(min_length=1, max_length=MAX_HTML_LENGTH)] = Field(
        description="Its HTML."
    )
    replace: bool = Field(default=False, description="Replaces a page that is stored already.")


class Out(Result):
    """The queued page."""

    url: str = Field(description="The normalized address.")
    source_id: str = Field(description="The id of the source that the page becomes.")
    undo: Undo = Field(description="How to undo it, as long as the page waits.")

    def list_changes(self) -> list[Change]:
        """Return what the call changed, which `get_changes` lists."""
        return Change.list_undoable("saved", self.source_id, self.url, self.undo)


async def save_page(args: In, ctx: Context) -> Out:
    """Queue a page, and start the job that reads it.

    It becomes the same source as if `save_link` had fetched its address. Costs two round trips: the
    reads of the link, its source and what was forgotten; the commit.

    Raises:
        InvalidInput: The address is not that of a public web page or contains a secret, or the page
            is too large.
        Forbidden: The page is stored, and the caller is no owner; or somebody else has queued it.
        Conflict: The page was forgotten; or it is stored, and the call does not say `replace`; or
            another version of it waits to be read.
    """
    try:
        url = PublicUrl.of_link(args.url)
    except DocumentRejected:
        raise InvalidInput(
            "save_page was not run: url must be the address of a web page, with a dot in its host"
            " name, the default port and no password.",
            details={"url": "not the address of a web page that can be saved"},
        ) from None
    await require_no_secrets({"url": args.url})
    compressed = await asyncio.to_thread(gzip.compress, args.page.encode(), mtime=0)
    if len(compressed) > MAX_COMPRESSED_BYTES:
        raise InvalidInput(
            "save_page was not run: the page is too large.",
            details={"page": f"has more than {MAX_COMPRESSED_BYTES // 1000} kB, compressed"},
        )
    out = await ctx.database.retry_on_conflict(lambda: _queue(url, compressed, args, ctx))
    await start_ingest(ctx)
    return out


async def _queue(url: PublicUrl, page: bytes, args: In, ctx: Context) -> Out:
    source_id = derive_link_source_id(url)
    details = {"source_id": source_id}
    stored, source, (forgotten, _) = await asyncio.gather(
        SavedLinks(ctx.database).get(source_id),
        Sources(ctx.database).get(source_id),
        ForgottenSources(ctx.database).get(source_id),
    )
    if forgotten.whole:
        raise Conflict("This page was forgotten, so nothing was queued.", details=details)
    if source and not ctx.caller.role.includes(Role.OWNER):
        raise Forbidden("This page is stored: only an owner may replace it.", details=details)
    if source and not args.replace:
        raise Conflict(
            'This page is stored already, so nothing was queued. To replace it, pass "replace":'
            " true.",
            details=details | {"state": LinkState.STORED.value},
        )
    now = ctx.clock()
    link = stored.link
    if link is None or link.state is LinkState.STORED:
        link = Link(
            source_id=source_id, url=url.text, saved_by=str(ctx.caller.user_id), requested_at=now
        )
    elif link.state is LinkState.LISTED:
        link = replace(link, saved_by=str(ctx.caller.user_id))
    elif not may_edit(link.saved_by, ctx.caller):
        raise Forbidden("Someone else has queued this page already.", details=details)
    elif link.state is LinkState.WAITING and link.page not in {None, page}:
        raise Conflict(
            "Another version of this page waits to be read, so nothing was queued. Try again in a"
            " few minutes.",
            details=details | {"state": LinkState.WAITING.value},
        )
    undo = Undo(tool="save_link", arguments={"url": link.url, "cancel": True})
    out = Out(url=link.url, source_id=source_id, undo=undo)
    return await ctx.commit([stored.build_update_write(replace(link, page=page).request(now))], out)


TOOL = Tool(
    name="save_page",
    title="Save a page from a browser",
    description=(
        "Save the HTML of a page that a person sees in their browser, behind a sign-in too. The"
        " browser extension does so; models do not call it, because they see no page."
    ),
    input=In,
    output=Out,
    run=save_page,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    role=Role.EDITOR,
    capabilities=frozenset({Capability.INGEST_START}),
    internal=True,
)
