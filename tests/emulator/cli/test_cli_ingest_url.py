"""`carrel ingest URL` adds a web page, or says why it cannot."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.ingest_command import run_ingest_url
from tests.support.links import ESSAY, SITE_URL, make_text_page, serve_site
from tests.support.public_web_server import PublicWebServer
from tests.support.stored_documents import read_documents


class CommandResult(NamedTuple):
    """The exit code of a command, and what it prints."""

    code: int
    output: str
    errors: str


def run_ingest(project: str, server: PublicWebServer, url: str, *options: str) -> CommandResult:
    """Run the command with the database of a project."""
    environment = {"GOOGLE_CLOUD_PROJECT": project}
    return CommandResult(*run_ingest_url(server, url, *options, environment=environment))


def parse_counts(output: str) -> set[str]:
    """Return what the command says that the job has counted, such as `1 read`."""
    [line] = [line for line in output.splitlines() if line.startswith("ingest: ")]
    return set(line.removeprefix("ingest: ").partition(" (")[0].split(", "))


def read_stored_sources(project: str) -> list[dict[str, Any]]:
    """Return the fields of the stored sources."""

    async def read() -> list[dict[str, Any]]:
        app = App(Settings(google_cloud_project=project))
        try:
            return list((await read_documents(app.context(Caller(), Meter()), "sources")).values())
        finally:
            await app.aclose()

    return asyncio.run(read())


def test_a_page_is_added_and_a_missing_one_reported(project: str) -> None:
    with serve_site(essay=make_text_page(ESSAY)) as site:
        added = run_ingest(project, site, f"{SITE_URL}/essay")
        missing = run_ingest(project, site, f"{SITE_URL}/missing")
    assert added.code == 0
    assert added.errors == ""
    assert parse_counts(added.output) >= {"1 created", "1 sources", "1 read"}
    assert missing.code == 1
    reason = "cannot be fetched: its server answers 404"
    assert f"left out: {SITE_URL}/missing: {reason}" in missing.errors
    [source] = read_stored_sources(project)
    assert source["title"] == "On Reefing"
    assert source["url"] == f"{SITE_URL}/essay"


def test_an_address_inside_the_network_is_refused(project: str) -> None:
    with serve_site(essay=make_text_page(ESSAY)) as site:
        result = run_ingest(project, site, f"http://127.0.0.1:{site.server_port}/essay")
        assert site.requests == []
    assert result.code == 1
    assert "is not the address of a public web page" in result.errors
    assert read_stored_sources(project) == []


def test_options_of_folders_are_refused_with_a_url(project: str) -> None:
    with serve_site() as site:
        result = run_ingest(project, site, f"{SITE_URL}/essay", "--yes")
    assert result.code == 2
    assert "With a URL, no option is allowed." in result.errors
