"""Save a web page in the knowledge base: queue its address for the job `ingest`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints

from shared.core.addresses import is_loopback
from shared.core.caller import Role, Tier
from shared.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from shared.core.installation import carrel
from shared.core.public_url import DocumentRejected, PublicUrl
from shared.knowledge.forgotten_repository import ForgottenSources
from shared.knowledge.schemas import Tag, Title, drop_duplicate_tags
from shared.knowledge.source import may_edit
from shared.knowledge.source_repository import Sources
from shared.links.ingest_start import start_ingest
from shared.links.model import Link, LinkState, compute_expected_by, derive_link_source_id
from shared.links.repository import SavedLinks
from shared.runtime.capabilities import Capability
from shared.runtime.schemas import EMPTY_IS_ABSENT, Change, IdempotentArguments, Result, Undo
from shared.runtime.tool import Effect, Tool
from shared.screening.screen import require_no_secrets

if TYPE_CHECKING:
    from shared.links.repository import StoredLink
    from shared.runtime.context import Context

MAX_TAGS: Final = 20


def _explain_invalid_url() -> str:
    """Say which addresses are fetched, and what to do with other pages."""
    return (
        "save_link was not run: url is not the address of a public web page, which begins with"
        " http:// or https:// and has a host name, no other port and no password. A page that only"
        f" you can open is saved as a file and added in a shell: {carrel('ingest PATH')}"
    )


class In(IdempotentArguments):
    """A link to save."""

    url: Annotated[str, StringConstraints(min_length=1, max_length=2_000)] = Field(
        description="The address as the user gave it."
    )
    title: Title | None = Field(
        default=None,
        json_schema_extra=EMPTY_IS_ABSENT,
        description="Only if the user gives one.",
    )
    tags: list[Tag] | None = Field(
        default=None, max_length=MAX_TAGS, description=f"At most {MAX_TAGS}."
    )
    cancel: bool = Field(default=False, description="true takes back a link that waits.")


class Out(Result):
    """The link as it is now."""

    url: str = Field(description="The address that is fetched.")
    source_id: str = Field(
        description="The id of the source made from the page; for get_source once it is stored."
    )
    state: str = Field(description="waiting, or cancelled.")
    title: str | None = Field(description="The title that was given.")
    tags: list[str] = Field(description="The tags that were given.")
    expected_by: str | None = Field(
        description="When search finds the page at the latest, if it can be fetched: an ISO 8601"
        " time in UTC. Missing on a laptop, where the fetch begins at once."
    )
    started: bool = Field(description="Whether the job that fetches it was started for it.")
    stored_before: bool = Field(
        description="Whether the page is in the knowledge base already: then it is brought up to"
        " date."
    )
    undo: Undo | None = Field(description="How to undo it; missing if nothing changed.")

    def list_changes(self) -> list[Change]:
        """Return what the call changed, which `get_changes` lists."""
        action = "cancelled" if self.state == "cancelled" else "saved"
        return Change.list_undoable(action, self.source_id, self.title or self.url, self.undo)


async def save_link(args: In, ctx: Context) -> Out:
    """Queue a link, and start the job that fetches it.

    Costs two round trips: the reads of the link, its source and what was forgotten; the commit.

    Raises:
        InvalidInput: The address is not that of a public web page, or a text contains a secret.
        NotFound: There is no link to cancel.
        Forbidden: Someone else saved the link to cancel.
        Conflict: The page was forgotten, or is stored and its title or tags are given.
    """
    try:
        url = PublicUrl.of_link(args.url)
    except DocumentRejected:
        raise InvalidInput(
            _explain_invalid_url(), details={"url": "not a public web page"}
        ) from None
    await require_no_secrets(
        {"url": args.url, "title": args.title or "", "tags": "\n".join(args.tags or ())}
    )
    return await ctx.database.retry_on_conflict(
        lambda: _cancel(url, ctx) if args.cancel else _queue(args, url, ctx)
    )


async def _queue(args: In, url: PublicUrl, ctx: Context) -> Out:
    source_id = derive_link_source_id(url)
    stored, source, (forgotten, _) = await asyncio.gather(
        SavedLinks(ctx.database).get(source_id),
        Sources(ctx.database).get(source_id),
        ForgottenSources(ctx.database).get(source_id),
    )
    if forgotten.whole:
        raise Conflict(
            "This page was forgotten, so nothing was queued. An owner brings it back: call forget"
            f' with {{"source_id": "{source_id}", "forgotten": false}}.',
            details={"source_id": source_id},
        )
    if source and (args.title or args.tags):
        raise Conflict(
            f"This page is stored already, as {source_id}. Nothing was queued. To change its title"
            " or its tags use edit_source; to fetch the page again, pass the url alone.",
            details={"source_id": source_id},
        )
    link = _build_link(args, url, stored, ctx)
    if stored.link and _is_same(stored.link, link):
        out = _build_result(stored.link, ctx, stored_before=source is not None, undo=None)
    else:
        undo = Undo(tool="save_link", arguments={"url": link.url, "cancel": True})
        out = _build_result(link, ctx, stored_before=source is not None, undo=undo)
        out = await ctx.commit([stored.build_update_write(link)], out)
    return out.model_copy(update={"started": await start_ingest(ctx)})


def _build_link(args: In, url: PublicUrl, stored: StoredLink, ctx: Context) -> Link:
    """Return the link to fetch now.

    If the link is not stored yet, it keeps the title and tags that the call leaves out.
    """
    now = ctx.clock()
    link = Link(
        source_id=derive_link_source_id(url),
        url=url.text,
        saved_by=str(ctx.caller.user_id),
        title=args.title,
        tags=drop_duplicate_tags(args.tags or ()),
    )
    if stored.link and stored.link.state is not LinkState.STORED:
        link = replace(
            stored.link,
            saved_by=stored.link.saved_by or link.saved_by,
            title=link.title or stored.link.title,
            tags=link.tags or stored.link.tags,
            page=stored.link.page if stored.link.state is LinkState.WAITING else None,
        )
    return link.request(now)


def _is_same(stored: Link, link: Link) -> bool:
    """Return whether the same link waits already, and was not tried yet."""
    is_first = stored.state is LinkState.WAITING and not stored.tries
    return is_first and (stored.title, stored.tags) == (link.title, link.tags)


async def _cancel(url: PublicUrl, ctx: Context) -> Out:
    source_id = derive_link_source_id(url)
    stored = await SavedLinks(ctx.database).get(source_id)
    link = stored.link
    if link is None or link.state in {LinkState.STORED, LinkState.LISTED}:
        raise NotFound(
            f"No such link waits to be fetched. A page that is stored is taken out with forget:"
            f' {{"source_id": "{source_id}"}}.',
            details={"source_id": source_id},
        )
    if not may_edit(link.saved_by, ctx.caller):
        raise Forbidden(
            "Someone else saved this link: only they and an owner can take it back.",
            details={"source_id": source_id},
        )
    arguments: dict[str, Any] = {"url": link.url}
    if link.title:
        arguments["title"] = link.title
    if link.tags:
        arguments["tags"] = list(link.tags)
    out = _build_result(link, ctx, undo=Undo(tool="save_link", arguments=arguments))
    out = out.model_copy(update={"state": "cancelled", "expected_by": None})
    listed = link.withdraw()
    write = stored.build_update_write(listed) if listed else stored.build_deletion_write()
    return await ctx.commit([write], out)


def _build_result(
    link: Link, ctx: Context, *, undo: Undo | None, stored_before: bool = False
) -> Out:
    is_local = is_loopback(urlsplit(ctx.settings.public_url))
    return Out(
        url=link.url,
        source_id=link.source_id,
        state=link.state.value,
        title=link.title,
        tags=list(link.tags),
        expected_by=None if is_local else f"{compute_expected_by(ctx.clock()):%Y-%m-%dT%H:%M:%SZ}",
        started=False,
        stored_before=stored_before,
        undo=undo,
    )


def make_message(out: Out) -> str:
    """Say what becomes of the link."""
    if out.state == "cancelled":
        return "It was taken back, and will not be fetched."
    sentences = ["It is queued." if out.undo else "It waits to be fetched already."]
    if out.stored_before:
        sentences.append("It is in the knowledge base, and will be brought up to date.")
    sentences.append(
        f"If it can be fetched, search finds it {_describe_time(out)}; get_recent says what became"
        " of it."
    )
    return " ".join(sentences)


def _describe_time(out: Out) -> str:
    if out.expected_by is None:
        return "in a minute or two"
    if out.started:
        return f"within 20 minutes, {out.expected_by} at the latest"
    return f"by {out.expected_by}"


TOOL = Tool(
    name="save_link",
    title="Save a web page",
    description=(
        "Add a public web page, PDF or text file when the user asks to save, keep or read it"
        " later. get_recent shows its progress. For a thought or a quote use save_note."
    ),
    input=In,
    output=Out,
    run=save_link,
    message=make_message,
    effect=Effect.WRITE,
    tier=Tier.REGISTERED,
    role=Role.EDITOR,
    capabilities=frozenset({Capability.INGEST_START}),
    settings=("public_url",),
)
