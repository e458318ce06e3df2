"""What the end-to-end tests share: one filled knowledge base, and Carrel running over it."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest
from mcp import Client

from infra.build.discovery import tools
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.source import Section, Source
from shared.runtime.context import App
from tests.e2e.access.conftest import CLOUD
from tests.support.cloud_run.cloud import cloud
from tests.support.gateway_process import INLINE, MARK, Library, run_deployed_gateway, run_gateway
from tests.support.knowledge import BAKING, SAILING, store_sources
from tests.support.mcp_wire import MODERN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from shared.ai.local_embedding import LocalEmbedder
    from tests.support.cloud_run.cloud import Cloud
    from tests.support.gateway_process import Running

FEW = ("get_chunk", "search_kb")
"""The tools of the cloud that starts soon: all of them are for the slow tests."""

CHEESE = Source(
    source_id="cheese",
    title="Käse & チーズ 🧀",
    author="Zoë Żółty",
    sections=(Section(text='Der Käse "reift" im Keller: 熟成したチーズ 🧀 <b>\\n</b> 👩🏽‍🍳.'),),
)

SECRET = Source(
    source_id=f"source-{MARK}",
    title=f"Title {MARK}",
    author=f"Author {MARK}",
    tags=(MARK,),
    readwise_url=f"https://example.com/{MARK}",
    sections=(Section(text=f"A private thought about the {MARK}."),),
)


@pytest.fixture(scope="session")
def library(local_embedder: LocalEmbedder) -> Library:
    """A knowledge base put in by the real jobs."""
    project = f"e2e-{uuid.uuid4().hex[:16]}"
    return asyncio.run(_filled(project, local_embedder))


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the processes of this session write what they would send to Cloud Logging."""
    return tmp_path_factory.mktemp("e2e") / "functions.log"


@pytest.fixture(scope="session")
def inline(library: Library, log: Path) -> Iterator[Running]:
    """The gateway of a laptop, with the tools in its own process."""
    with run_gateway(INLINE, library.environment, log) as running:
        yield running


@pytest.fixture(scope="session")
def closed(library: Library, log: Path) -> Iterator[Running]:
    """The same, where nobody gets in without a credential."""
    with run_gateway(INLINE, {**library.environment, **CLOUD}, log) as running:
        yield running


@pytest.fixture(scope="session")
def few_in_the_cloud(library: Library, log: Path) -> Iterator[Cloud]:
    """Two tools as they are deployed, behind what plays Cloud Run."""
    with cloud(FEW, library.environment, log=log) as running:
        yield running


@pytest.fixture(scope="session")
def few_functions(few_in_the_cloud: Cloud, log: Path) -> Iterator[Running]:
    """The gateway of the cloud, which reaches two of its tools: each is a function of its own."""
    with run_deployed_gateway({}, log, few_in_the_cloud) as running:
        yield running


@pytest.fixture(scope="session")
def tools_in_the_cloud(library: Library, log: Path) -> Iterator[Cloud]:
    """Each tool as it is deployed, behind what plays Cloud Run."""
    with cloud([tool.name for tool in tools()], library.environment, log=log) as running:
        yield running


@pytest.fixture(scope="session")
def functions(tools_in_the_cloud: Cloud, log: Path) -> Iterator[Running]:
    """The gateway of the cloud, and each tool as a function of its own."""
    with run_deployed_gateway({}, log, tools_in_the_cloud) as running:
        yield running


@pytest.fixture(
    scope="session", params=["inline", pytest.param("functions", marks=pytest.mark.slow)]
)
def carrel(request: pytest.FixtureRequest) -> Running:
    """Carrel in one way of running, then in the other."""
    running: Running = request.getfixturevalue(request.param)
    return running


@pytest.fixture(params=[MODERN, "legacy"])
async def client(carrel: Running, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A connected client, of the newest revision and of the handshake."""
    async with Client(carrel.endpoint, mode=request.param) as connected:
        yield connected


async def _filled(project: str, local_embedder: LocalEmbedder) -> Library:
    app = App(Settings(google_cloud_project=project), embedder=local_embedder)
    try:
        chunks = await store_sources(
            app.context(Caller(), Meter()), BAKING, SAILING, SECRET, CHEESE
        )
    finally:
        await app.aclose()
    return Library(project, chunks)
