"""What was asked, read and sent stays out of the logs, whether a call goes well or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from infra.local.processes import free_port
from tests.e2e.running import GATEWAY, MARK, run_gateway
from tests.e2e.wire import MODERN, TOOL_NAMES, call, initialize, message, post, post_modern

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.running import Running


@pytest.fixture(scope="module")
def cut_off(log: Path) -> Iterator[Running]:
    """A gateway that reaches none of its tools."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    urls = json.dumps(dict.fromkeys(TOOL_NAMES, nowhere))
    with run_gateway(GATEWAY, {"TOOL_URLS": urls}, log) as running:
        yield running


def talk(running: Running) -> str:
    """Say the mark in every place where a client can say anything; return all answers."""
    there = running.endpoint
    found = post(there, call("search_kb", {"query": f"the {MARK}"}))
    chunks = found.json()["result"].get("structuredContent", {}).get("results", [])
    answers = [
        found,
        *(post(there, call("get_chunk", {"chunk_id": c["chunk_id"]})) for c in chunks),
    ]
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
    answers += [post_modern(there, "tools/call", name=name, arguments=given) for name, given in bad]
    bodies = [f'{{"{MARK}', f'["{MARK}"]', f'"{MARK}"', f'{{"jsonrpc": "2.0", "method": "{MARK}"}}']
    versions: list[str | None] = [MODERN, None]
    for version in versions:
        header = {"mcp-protocol-version": version}
        answers += [post(there, body.encode(), header) for body in bodies]
    answers += [post(there, initialize(MARK)), post(there, message(MARK, **{MARK: MARK}))]
    answers += [post(f"{there}?{MARK}={MARK}", message("ping"))]
    answers += [post(there, message("ping"), {"authorization": f"Bearer {MARK}"})]
    answers += [httpx2.get(f"{running.url}/{MARK}")]
    answers += [httpx2.post(tool.url, content=MARK) for tool in running.tools.values()]
    return "".join(answer.text for answer in answers)


@pytest.mark.parametrize("kind", ["inline", "functions", "cut_off"])
def test_nothing_that_people_wrote_is_logged(request: pytest.FixtureRequest, kind: str) -> None:
    running: Running = request.getfixturevalue(kind)
    before = running.log.stat().st_size
    answers = talk(running)
    logged = running.log.read_text("utf-8")
    assert MARK in answers
    assert '"message": "tool_' in logged[before:]
    assert [] == [line for line in logged.splitlines() if MARK in line.lower()]


def test_a_call_is_one_line_of_json_with_its_cost(inline: Running) -> None:
    before = inline.log.stat().st_size
    post(inline.endpoint, call("search_kb", {"query": "bread", "limit": 2}))
    with inline.log.open("rb") as file:
        file.seek(before)
        [line] = [json.loads(line) for line in file if b"tool_call" in line]
    assert ("search_kb", "ok", "INFO") == (line["tool"], line["outcome"], line["severity"])
    assert {"query": len('"bread"'), "limit": 1} == line["arguments"]
    assert (9, 1) == (line["documents_read"], line["round_trips"])
    assert line["milliseconds"] > 0
