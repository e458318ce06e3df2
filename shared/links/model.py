"""A link that a user saved or listed, and how its state changes until its page is stored.

A link is the address of a web page. The job `ingest` fetches the page, which becomes a source of
the knowledge base. A listed link comes from a file such as a browser's bookmarks, and is fetched
only once somebody asks for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from shared.core.deferral import schedule_retry
from shared.core.ids import IdKind, make_id
from shared.firestore.codec import added_field
from shared.firestore.retention import Retention

if TYPE_CHECKING:
    from datetime import datetime

    from shared.core.public_url import PublicUrl

SCHEDULE: Final = "0 * * * *"
"""The job `ingest` fetches links in the cloud on this schedule, a cron expression in UTC: at the
start of every hour."""
_SCHEDULE_INTERVAL: Final = timedelta(hours=1)
"""The interval between two scheduled runs of the job that fetches pages."""
_PROCESSING_TIME: Final = timedelta(minutes=10)
"""The jobs `embed` and `index` usually process a fetched page within this time."""
FETCHED_LINKS: Final = Retention(
    title="saved links whose page is stored", collection="links", duration=timedelta(days=30)
)
_TRACKING: Final = re.compile(
    r"(?<=[?&])(?:utm_[a-z_]+|fbclid|gclid|msclkid)=[^&]*(?:&|$)", re.ASCII
)
"""A query parameter that tracks visitors and does not change the page."""


class LinkState(StrEnum):
    """The state of a link."""

    LISTED = "listed"
    """A file lists the link, and nobody has asked for its page yet."""
    WAITING = "waiting"
    """The page has not been fetched yet."""
    STORED = "stored"
    """The page was fetched and stored as a source."""
    FAILED = "failed"
    """The page could not be fetched, and will not be tried again unless somebody asks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link that a user saved or listed.

    Attributes:
        source_id: The id of the source that the page becomes.
        url: The normalized address.
        saved_by: The user who saved the link; empty if nobody did.
        requested_at: When the user last asked for the page, or None if the link is only listed.
        title: The title that the user gave, or None to use the page's own.
        due_at: From when the page may be fetched, or None if the link does not wait.
        tries: How often fetching the page has failed since the user last saved the link; 0 once the
            page is stored.
        error: Why fetching the page last failed, for people, or None.
        purge_at: Until when the link is kept, or None as long as the page is not stored.
        page: The HTML that a browser sent, compressed with gzip, or None to fetch the page. It is
            read in place of the page at the address, which may need a sign-in.
        list_name: The program whose file listed the link, such as `Pocket`.
        folder: The folder in that list, such as `Recipes/Bread`.
        saved_at: When the user saved the link in that program.
    """

    source_id: str
    url: str
    saved_by: str = ""
    requested_at: datetime | None = added_field()  # noqa: RUF009 - makes an immutable default
    title: str | None = None
    tags: tuple[str, ...] = ()
    state: LinkState = LinkState.WAITING
    due_at: datetime | None = None
    tries: int = 0
    error: str | None = None
    purge_at: datetime | None = None
    page: bytes | None = None
    list_name: str | None = added_field()
    folder: str | None = added_field()
    saved_at: datetime | None = added_field()  # noqa: RUF009 - likewise

    def is_due(self, now: datetime) -> bool:
        """Return whether the page may be fetched now."""
        return self.due_at is not None and self.due_at <= now

    def matches(self, folder: str | None, tag: str | None) -> bool:
        """Return whether the link is in a folder, at any depth, and has a tag. Case is ignored."""
        part = f"/{folder.strip('/')}/".casefold() if folder else ""
        tags = {name.casefold() for name in self.tags}
        is_inside = part in f"/{self.folder or ''}/".casefold()
        return is_inside and (tag is None or tag.casefold() in tags)

    def withdraw(self) -> Link | None:
        """Return the link as it was listed, or None if no file listed it."""
        if self.list_name is None:
            return None
        return replace(
            self,
            state=LinkState.LISTED,
            requested_at=None,
            due_at=None,
            tries=0,
            error=None,
            page=None,
        )

    def request(self, now: datetime) -> Link:
        """Return the link, waiting to be fetched now. Earlier failures no longer count."""
        return replace(
            self,
            requested_at=now,
            state=LinkState.WAITING,
            due_at=now,
            tries=0,
            error=None,
            purge_at=None,
        )

    def mark_stored(self, now: datetime) -> Link:
        """Return the link after its page was stored."""
        purge_at = FETCHED_LINKS.compute_purge_at(now)
        return replace(
            self,
            state=LinkState.STORED,
            due_at=None,
            tries=0,
            error=None,
            purge_at=purge_at,
            page=None,
        )

    def defer(self, reason: str, now: datetime) -> Link:
        """Return the link after a temporary failure: due later, or failed after too many tries.

        `schedule_retry` decides, as for all deferred work.
        """
        tries = self.tries + 1
        due_at = schedule_retry(tries, now)
        if due_at is None:
            return self.mark_failed(reason)
        return replace(self, due_at=due_at, tries=tries, error=reason)

    def mark_failed(self, reason: str) -> Link:
        """Return the link after a failure that would recur, or after too many tries."""
        return replace(
            self, state=LinkState.FAILED, due_at=None, tries=self.tries + 1, error=reason
        )


def derive_link_source_id(url: PublicUrl) -> str:
    """Derive the id of the source that a page becomes.

    Parameters that track visitors do not change the id, so that a page is stored only once.
    """
    return make_id(IdKind.LINK, _TRACKING.sub("", url.text).rstrip("?&"))


def compute_expected_by(now: datetime) -> datetime:
    """Return by when search in the cloud should find the page of a link that is saved now.

    The job `ingest` runs at the start of the next hour, and other jobs then process the page.
    """
    hour = now.replace(minute=0, second=0, microsecond=0)
    return hour + _SCHEDULE_INTERVAL + _PROCESSING_TIME
