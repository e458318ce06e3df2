"""Fixtures of the end-to-end tests: one knowledge base, and the gateways that serve it."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from mcp import Client

from infra.build.discovery import tools
from shared.ai.local_embedding import LocalEmbedder
from shared.knowledge.source import Section, Source
from tests.support.access import CLOUD_SETTINGS
from tests.support.cloud_run.cloud import Cloud, run_cloud
from tests.support.gateway_process import (
    INLINE_MAIN,
    PRIVATE_WORD,
    FilledProject,
    RunningGateway,
    run_deployed_gateway,
    run_gateway,
)
from tests.support.knowledge import BAKING, SAILING, fill_project
from tests.support.mcp_wire import MODERN

CHEESE = Source(  # has letters of several scripts, emoji and markup
    source_id="cheese",
    title="Käse & チーズ 🧀",
    author="Zoë Żółty",
    sections=(Section(text='Der Käse "reift" im Keller: 熟成したチーズ 🧀 <b>\\n</b> 👩🏽‍🍳.'),),
)
"""A source whose texts must survive JSON and HTML: quotes, escapes, tags and four scripts."""

SECRET = Source(  # has a word in each field that must not be logged or exported
    source_id=f"source-{PRIVATE_WORD}",
    title=f"Title {PRIVATE_WORD}",
    author=f"Author {PRIVATE_WORD}",
    tags=(PRIVATE_WORD,),
    readwise_url=f"https://example.com/{PRIVATE_WORD}",
    sections=(Section(text=f"A private thought about the {PRIVATE_WORD}."),),
)
"""A source with `PRIVATE_WORD` in every field, for tests that search logs for this word."""


@pytest.fixture(scope="session")
def filled_project(local_embedder: LocalEmbedder) -> FilledProject:
    """A knowledge base that the real jobs filled."""
    project = f"e2e-{uuid.uuid4().hex[:16]}"
    chunks = asyncio.run(fill_project(project, local_embedder, BAKING, SAILING, SECRET, CHEESE))
    return FilledProject(project, chunks)


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log file of all functions of this session, in place of Cloud Logging."""
    return tmp_path_factory.mktemp("e2e") / "functions.log"


@pytest.fixture(scope="session")
def inline(filled_project: FilledProject, log: Path) -> Iterator[RunningGateway]:
    """A local gateway, with the tools in its own process."""
    with run_gateway(INLINE_MAIN, filled_project.environment, log) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def private_gateway(filled_project: FilledProject, log: Path) -> Iterator[RunningGateway]:
    """A gateway that requires a credential, as in the cloud, with the tools in its own process."""
    with run_gateway(INLINE_MAIN, {**filled_project.environment, **CLOUD_SETTINGS}, log) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def small_cloud(filled_project: FilledProject, log: Path) -> Iterator[Cloud]:
    """Two deployed tools behind the fake Cloud Run. Only slow tests deploy all tools."""
    with run_cloud(("get_chunk", "search_kb"), filled_project.environment, log=log) as fake_cloud:
        yield fake_cloud


@pytest.fixture(scope="session")
def small_functions(small_cloud: Cloud, log: Path) -> Iterator[RunningGateway]:
    """A deployed gateway that reaches two tools, each in its own function."""
    with run_deployed_gateway({}, log, small_cloud) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def full_cloud(filled_project: FilledProject, log: Path) -> Iterator[Cloud]:
    """All deployed tools behind the fake Cloud Run."""
    with run_cloud(
        [tool.name for tool in tools()], filled_project.environment, log=log
    ) as fake_cloud:
        yield fake_cloud


@pytest.fixture(scope="session")
def functions(full_cloud: Cloud, log: Path) -> Iterator[RunningGateway]:
    """A deployed gateway that reaches all tools, each in its own function."""
    with run_deployed_gateway({}, log, full_cloud) as gateway:
        yield gateway


@pytest.fixture(
    scope="session", params=["inline", pytest.param("functions", marks=pytest.mark.slow)]
)
def carrel(request: pytest.FixtureRequest) -> RunningGateway:
    """A gateway in each topology: with the tools in its process, and each in its own function."""
    gateway: RunningGateway = request.getfixturevalue(request.param)
    return gateway


@pytest.fixture(params=[MODERN, "legacy"])
async def client(carrel: RunningGateway, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A connected client: once with the newest MCP revision, and once with an older one."""
    async with Client(carrel.endpoint, mode=request.param) as connected:
        yield connected
