"""Serves the pages of saved links on a local web server, and runs the job that fetches them.

A saved link is a URL that a user gave to Carrel, whose page the job `ingest` adds as a source.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from functions.jobs.ingest.links.page import FETCH_RULES
from functions.jobs.ingest.links.queue import fetch_links
from shared.core.caller import Caller, Role
from shared.core.safe_fetch import SafeFetch
from shared.links.model import Link
from shared.links.repository import SavedLinks
from shared.runtime.context import Context
from shared.runtime.job import Report
from tests.support.jobs import make_ample_budget
from tests.support.public_web_server import HOST, Page, PublicWebServer, make_resolver

SITE_URL: Final = f"http://{HOST}"
"""The base URL of the pages."""
EDITOR: Final = Caller.of("ed", role=Role.EDITOR)
OWNER: Final = Caller.of("anna", role=Role.OWNER)
ESSAY: Final = "# On Reefing\n\nReef the mainsail before you think that you must."
"""The text of a page in Markdown."""


def make_text_page(
    text: str, kind: str = "text/markdown; charset=utf-8", status: int = 200
) -> Page:
    """Make a page with this text, media type and HTTP status."""
    return Page(text.encode(), status, headers={"Content-Type": kind})


@contextmanager
def serve_site(**pages: Page) -> Iterator[PublicWebServer]:
    """Serve pages, each named by its path without the slash. Other paths are not found."""
    with PublicWebServer(None, make_text_page("", status=404)) as server:
        server.pages = {f"/{name}": page for name, page in pages.items()}
        yield server


def make_link_fetcher(server: PublicWebServer) -> SafeFetch:
    """Make a fetcher of links that treats the server as a public one."""
    return SafeFetch(FETCH_RULES, make_resolver(server.endpoint))


async def fetch_due_links(ctx: Context, server: PublicWebServer) -> Report:
    """Run the part of the job that fetches the links that are due."""
    report = Report()
    await fetch_links(ctx, make_ample_budget(), report, make_link_fetcher(server), pause=0)
    return report


async def read_only_link(ctx: Context) -> Link:
    """Return the only link that is stored."""
    [link] = await SavedLinks(ctx.database).list_newest(2)
    return link
