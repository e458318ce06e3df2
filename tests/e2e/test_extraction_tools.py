"""The tools for extractions list, filter and search those of the sample.

An extraction is a decision, pattern, warning or methodology from a passage. It has topics.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.build.discovery import ROOT
from tests.e2e.access.conftest import CLOUD_SETTINGS
from tests.support.gateway_process import INLINE_MAIN, RunningGateway, run_gateway
from tests.support.mcp_wire import make_call, post
from tests.support.ports import find_free_port

CallTool = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.slow

TOOLS = ("get_decisions", "get_patterns", "get_warnings", "get_methodologies")
every_tool = pytest.mark.parametrize("tool", TOOLS)
RUN_CARREL = "from infra.cli.main import main; main()"
LOAD_SAMPLE = "from infra.local.jobs import load_sample; import sys; sys.exit(not load_sample())"


def run_python(project: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program that uses the database of a project."""
    environment = {**os.environ, "GOOGLE_CLOUD_PROJECT": project}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def sample_project() -> str:
    """A project with the sample, a small knowledge base with extractions."""
    project = f"e2e-{uuid.uuid4().hex[:16]}"
    process = run_python(project, LOAD_SAMPLE)
    assert process.returncode == 0, process.stderr
    return project


@pytest.fixture(scope="module")
def call(sample_project: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CallTool]:
    """A function that calls a tool anonymously and returns the result or the error."""
    environment = {"GOOGLE_CLOUD_PROJECT": sample_project, **CLOUD_SETTINGS}
    environment |= {"PUBLIC_ACCESS": "true", "ANONYMOUS_PER_MINUTE": "100000"}
    with run_gateway(INLINE_MAIN, environment, tmp_path_factory.mktemp("e2e") / "log") as gateway:
        yield lambda tool, **arguments: call_tool(gateway.endpoint, tool, arguments)


def call_tool(endpoint: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool; return its structured content or the error."""
    result = post(endpoint, make_call(tool, arguments)).json()["result"]
    if result["isError"]:
        assert "structuredContent" not in result
        return dict(json.loads(result["content"][0]["text"])["error"])
    return dict(result["structuredContent"])


def list_all(call: CallTool, tool: str, **arguments: Any) -> list[dict[str, Any]]:
    """Return the results of all pages."""
    page = call(tool, **arguments)
    results = list(page["results"])
    while cursor := page["metadata"].get("next_cursor"):
        page = call(tool, **arguments, cursor=cursor)
        results += page["results"]
    return results


@every_tool
@pytest.mark.parametrize("query", [{}, {"query": "tests"}])
def test_pages_of_any_size_have_the_same_results(
    call: CallTool, tool: str, query: dict[str, str]
) -> None:
    ids = [result["id"] for result in list_all(call, tool, limit=100, **query)]
    assert ids == [result["id"] for result in list_all(call, tool, limit=2, **query)]
    assert len(set(ids)) == len(ids) > 0


@every_tool
def test_a_quote_is_in_its_chunk_with_the_cited_title(call: CallTool, tool: str) -> None:
    for result in call(tool, limit=3)["results"]:
        chunk = call("get_chunk", chunk_id=result["chunk_id"], include_related=False)
        assert result["quote"] in chunk["content"]
        assert result["source_title"] == chunk["title"]


@every_tool
def test_topic_counts_match_the_results(call: CallTool, tool: str) -> None:
    kind = tool.removeprefix("get_")  # also the field of its count
    counts = Counter(topic for result in list_all(call, tool) for topic in result["topics"])
    topics = call("list_topics", limit=100)["topics"]
    assert counts == {topic["name"]: topic[kind] for topic in topics if topic[kind]}


@every_tool
@pytest.mark.parametrize("spell", [str.upper, str.title, " {} ".format])
def test_a_topic_is_found_in_any_spelling(
    call: CallTool, tool: str, spell: Callable[[str], str]
) -> None:
    results = list_all(call, tool)
    topic = results[0]["topics"][0]
    expected = [result["id"] for result in results if topic in result["topics"]]
    assert [result["id"] for result in list_all(call, tool, topic=spell(topic))] == expected


@every_tool
def test_a_cursor_of_another_tool_or_filter_is_rejected(call: CallTool, tool: str) -> None:
    cursor = call(tool, limit=1)["metadata"]["next_cursor"]
    other_tool = TOOLS[TOOLS.index(tool) - 1]
    for name, filters in ((other_tool, {}), (tool, {"query": "x"}), (tool, {"topic": "testing"})):
        assert call(name, cursor=cursor, **filters)["details"].keys() == {"cursor"}


@every_tool
def test_filters_and_a_query_combine(call: CallTool, tool: str) -> None:
    results = list_all(call, tool)
    source_id = results[0]["source_id"]
    topic = results[0]["topics"][0]
    expected = {
        result["id"]
        for result in results
        if result["source_id"] == source_id and topic in result["topics"]
    }
    page = call(tool, source_id=source_id, topic=topic, query="how")
    assert {result["id"] for result in page["results"]} == expected
    assert page["metadata"]["query"] == topic
    assert page["metadata"]["search_type"] == "semantic"


@pytest.fixture(scope="module")
def unreachable_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway whose database does not answer, with short time limits."""
    nowhere = {
        "FIRESTORE_EMULATOR_HOST": f"127.0.0.1:{find_free_port()}",
        "TOOL_TIMEOUTS": json.dumps(dict.fromkeys(TOOLS, 1.0)),
    }
    log = tmp_path_factory.mktemp("unreachable") / "log"
    with run_gateway(INLINE_MAIN, nowhere, log) as gateway:
        yield gateway


@every_tool
def test_an_unreachable_database_is_an_error(
    unreachable_gateway: RunningGateway, tool: str
) -> None:
    assert call_tool(unreachable_gateway.endpoint, tool, {})["code"] == "UNAVAILABLE"


@every_tool
def test_an_anonymous_call_to_a_private_gateway_is_rejected(
    private_gateway: RunningGateway, tool: str
) -> None:
    assert post(private_gateway.endpoint, make_call(tool, {})).status_code == 401
