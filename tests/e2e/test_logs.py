"""What was asked, read and sent stays out of the logs, whether a call goes well or not."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from infra.local.processes import serve_tools
from shared.caller import Caller
from shared.deps import Backend
from shared.domain.source import Section, Source
from shared.settings import Settings
from shared.store import Meter
from tests.e2e.running import GATEWAY, INLINE, run_gateway
from tests.e2e.wire import MODERN, call, initialize, message, post, post_modern
from tests.knowledge import put_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from shared.ai.local_embedding import LocalEmbedder
    from tests.e2e.running import Running

MARK = "zyzzyva"
"""A word that stands nowhere but in what people wrote."""

SECRET = Source(
    source_id=f"source-{MARK}",
    title=f"Title {MARK}",
    author=f"Author {MARK}",
    tags=(MARK,),
    readwise_url=f"https://example.com/{MARK}",
    sections=(Section(text=f"A private thought about the {MARK}."),),
)


@pytest.fixture
def secret(project: str, embedder: LocalEmbedder) -> dict[str, str]:
    """A knowledge base of secrets, as the environment that serves it."""

    async def fill() -> None:
        backend = Backend(Settings(google_cloud_project=project), embedder=embedder)
        await put_in(backend.deps(Caller(), Meter()), SECRET)
        await backend.aclose()

    asyncio.run(fill())
    return {"GOOGLE_CLOUD_PROJECT": project}


@pytest.fixture(params=["inline", "functions", "broken"])
def running(
    request: pytest.FixtureRequest, secret: dict[str, str], tmp_path: Path
) -> Iterator[Running]:
    """Carrel over the secrets, in each way of running, with a log file of its own.

    In the last one no tool's function can be reached.
    """
    log = tmp_path / "functions.log"
    if request.param == "inline":
        with run_gateway(INLINE, secret, log) as each:
            yield each
        return
    with serve_tools(["get_chunk", "search_kb"], secret, log=log) as tools:
        if request.param == "broken":
            for tool in tools.values():
                tool.kill()
        with run_gateway(GATEWAY, secret, log, tools) as each:
            yield each


def talk(running: Running) -> str:
    """Say the mark in every place where a client can say anything; return all answers."""
    there = running.endpoint
    found = post(there, call("search_kb", {"query": f"the {MARK}"}))
    chunks = found.json()["result"].get("structuredContent", {}).get("results", [])
    answers = [found, *(post(there, call("get_chunk", {"chunk_id": c["chunk_id"]})) for c in chunks)]
    bad: list[tuple[str, Any]] = [
        ("search_kb", {"query": MARK, MARK: MARK}),
        ("search_kb", {"query": MARK * 500}),
        ("search_kb", {"query": {MARK: MARK}}),
        ("search_kb", {"query": MARK, "limit": MARK}),
        ("search_kb", MARK),
        ("get_chunk", {"chunk_id": MARK}),
        ("get_chunk", {"chunk_id": f"{MARK}/{MARK}"}),
        (MARK, {}),
    ]
    answers += [post(there, call(tool, arguments)) for tool, arguments in bad]
    answers += [
        post_modern(there, "tools/call", name=name, arguments=given) for name, given in bad
    ]
    bodies = [f'{{"{MARK}', f'["{MARK}"]', f'"{MARK}"', f'{{"jsonrpc": "2.0", "method": "{MARK}"}}']
    versions: list[str | None] = [MODERN, None]
    for version in versions:
        header = {"mcp-protocol-version": version}
        answers += [post(there, body.encode(), header) for body in bodies]
    answers += [post(there, initialize(MARK)), post(there, message(MARK, **{MARK: MARK}))]
    answers += [post(f"{there}?{MARK}={MARK}", message("ping"))]
    answers += [post(there, message("ping"), {"authorization": f"Bearer {MARK}"})]
    answers += [httpx2.get(f"{running.url}/{MARK}")]
    answers += [httpx2.post(tool.url, content=MARK) for tool in reachable(running)]
    return "".join(answer.text for answer in answers)


def reachable(running: Running) -> list[Any]:
    """The tools' own functions, where they were not killed."""
    return [tool for tool in running.tools.values() if tool.process.poll() is None]


def test_nothing_that_people_wrote_is_logged(running: Running) -> None:
    answers = talk(running)
    logged = running.log.read_text("utf-8")
    assert MARK in answers
    assert '"message": "tool_' in logged
    assert [] == [line for line in logged.splitlines() if MARK in line.lower()]


def test_a_call_is_one_line_of_json_with_its_cost(inline: Running) -> None:
    before = inline.log.stat().st_size
    post(inline.endpoint, call("search_kb", {"query": "bread", "limit": 2}))
    with inline.log.open("rb") as file:
        file.seek(before)
        [line] = [json.loads(line) for line in file if b"tool_call" in line]
    assert ("search_kb", "ok", "INFO") == (line["tool"], line["outcome"], line["severity"])
    assert {"query": len('"bread"'), "limit": 1} == line["arguments"]
    assert (2, 1) == (line["documents_read"], line["round_trips"])
    assert line["milliseconds"] > 0
