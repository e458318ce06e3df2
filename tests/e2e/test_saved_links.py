"""A page is found after its link was saved by a client, or ingested in a shell."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from shared.ai.local_embedding import LocalEmbedder
from shared.core.ids import parse_source_id
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.cloud_run.cloud import run_cloud
from tests.support.gateway_process import (
    RunningGateway,
    run_deployed_gateway,
)
from tests.support.jobs import make_job_context
from tests.support.knowledge import embed_all, index_all
from tests.support.links import SITE_URL, fetch_due_links, make_text_page, serve_site
from tests.support.public_web_server import PublicWebServer
from tests.support.web_pages import make_article_page

ARTICLE = f"{SITE_URL}/article"
MISSING = f"{SITE_URL}/missing"


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of functions with an empty knowledge base."""
    return {"GOOGLE_CLOUD_PROJECT": f"links-{uuid.uuid4().hex[:16]}"}


@pytest.fixture
def gateway(environment: dict[str, str], log: Path) -> Iterator[RunningGateway]:
    """A deployed gateway, whose tools only queue links: the job fetches them."""
    with (
        run_cloud(("get_recent", "save_link", "search_kb"), environment, log=log) as tools,
        run_deployed_gateway({}, log, tools) as running,
    ):
        yield running


@pytest.fixture
def site() -> Iterator[PublicWebServer]:
    """A web server with one article."""
    with serve_site(article=make_text_page(make_article_page(ARTICLE), kind="text/html")) as server:
        yield server


async def call_tool(client: Client, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    return dict(result.structured_content or {})


async def run_jobs(project: str, site: PublicWebServer, embedder: LocalEmbedder) -> None:
    """Run the jobs that fetch links and make texts searchable."""
    app = App(Settings(google_cloud_project=project), embedder=embedder)
    try:
        ctx = make_job_context(app)
        await fetch_due_links(ctx, site)
        await embed_all(ctx)
        await index_all(ctx)
    finally:
        await app.aclose()


async def test_a_saved_link_is_found_and_a_failed_one_says_why(
    gateway: RunningGateway,
    environment: dict[str, str],
    site: PublicWebServer,
    local_embedder: LocalEmbedder,
) -> None:
    async with Client(gateway.endpoint) as client:
        saved = await call_tool(client, "save_link", url=ARTICLE, tags=["sea"])
        await call_tool(client, "save_link", url=MISSING)
        links = (await call_tool(client, "get_recent"))["links"]
        states = {link["url"]: link["state"] for link in links}
        assert states == {ARTICLE: "waiting", MISSING: "waiting"}
        assert site.requests == []

        await run_jobs(environment["GOOGLE_CLOUD_PROJECT"], site, local_embedder)
        page = await call_tool(client, "search_kb", query="when should I take in a sail?")
        links = (await call_tool(client, "get_recent"))["links"]

    best_hit = page["results"][0]
    expected = {
        "title": "Reefing early",
        "author": "Ann Helm, Bob Reef",
        "date": "published 2024-05-31",
        "address": ARTICLE,
    }
    assert {name: best_hit.get(name) for name in expected} == expected
    assert parse_source_id(best_hit["chunk_id"]) == saved["source_id"]
    links_by_url = {link["url"]: link for link in links}
    assert links_by_url.keys() == {ARTICLE, MISSING}
    assert links_by_url[ARTICLE]["state"] == "stored"
    assert links_by_url[ARTICLE].get("error") is None
    assert links_by_url[MISSING]["state"] == "failed"
    assert links_by_url[MISSING]["error"] == "cannot be fetched: its server answers 404"
