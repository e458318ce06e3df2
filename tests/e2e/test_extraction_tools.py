"""The extraction tools over the gateway, with the sample."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from infra.build.discovery import ROOT
from tests.e2e.access.conftest import CLOUD
from tests.support.gateway_process import INLINE, run_gateway
from tests.support.mcp_wire import call, post
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.gateway_process import Running

    Ask = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.slow

TOOLS = ("get_decisions", "get_patterns", "get_warnings", "get_methodologies")
four = pytest.mark.parametrize("tool", TOOLS)
LOAD = "from infra.local.jobs import load_sample; import sys; sys.exit(not load_sample())"


def carrel(project: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GOOGLE_CLOUD_PROJECT": project}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def sample() -> str:
    project = f"e2e-{uuid.uuid4().hex[:16]}"
    loaded = carrel(project, LOAD)
    assert loaded.returncode == 0, loaded.stderr
    return project


@pytest.fixture(scope="module")
def ask(sample: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Calls a tool as a stranger with PUBLIC_ACCESS on, and returns the result or the error."""
    environment = {"GOOGLE_CLOUD_PROJECT": sample, **CLOUD}
    environment |= {"PUBLIC_ACCESS": "true", "ANONYMOUS_PER_MINUTE": "100000"}
    with run_gateway(INLINE, environment, tmp_path_factory.mktemp("e2e") / "log") as running:
        yield lambda tool, **arguments: answer(running.endpoint, tool, arguments)


def answer(endpoint: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = post(endpoint, call(tool, arguments)).json()["result"]
    assert result["isError"] is ("structuredContent" not in result)
    return dict(
        result.get("structuredContent") or json.loads(result["content"][0]["text"])["error"]
    )


def everything(ask: Ask, tool: str, **arguments: Any) -> list[dict[str, Any]]:
    page = ask(tool, **arguments)
    results = list(page["results"])
    while cursor := page["metadata"].get("next_cursor"):
        page = ask(tool, **arguments, cursor=cursor)
        results += page["results"]
    return results


@four
@pytest.mark.parametrize("query", [{}, {"query": "tests"}])
def test_pages_of_any_size_have_the_same_results(
    ask: Ask, tool: str, query: dict[str, str]
) -> None:
    whole = [result["id"] for result in everything(ask, tool, limit=100, **query)]
    assert [result["id"] for result in everything(ask, tool, limit=2, **query)] == whole
    assert len(whole) == len(set(whole)) > 0


@four
def test_a_quote_is_in_its_chunk_with_the_cited_title(ask: Ask, tool: str) -> None:
    for result in ask(tool, limit=3)["results"]:
        chunk = ask("get_chunk", chunk_id=result["chunk_id"], include_related=False)
        assert result["quote"] in chunk["content"]
        assert chunk["title"] == result["source_title"]


@four
def test_topic_counts_match_the_results(ask: Ask, tool: str) -> None:
    named = tool.removeprefix("get_")
    results = Counter(topic for result in everything(ask, tool) for topic in result["topics"])
    listed = ask("list_topics", limit=100)["topics"]
    assert {topic["name"]: topic[named] for topic in listed if topic[named]} == results


@four
@pytest.mark.parametrize("spell", [str.upper, str.title, " {} ".format])
def test_a_topic_is_found_in_any_spelling(ask: Ask, tool: str, spell: Callable[[str], str]) -> None:
    results = everything(ask, tool)
    topic = results[0]["topics"][0]
    expected = [result["id"] for result in results if topic in result["topics"]]
    assert [result["id"] for result in everything(ask, tool, topic=spell(topic))] == expected


@four
def test_a_cursor_of_another_tool_or_filter_is_refused(ask: Ask, tool: str) -> None:
    cursor = ask(tool, limit=1)["metadata"]["next_cursor"]
    other = TOOLS[TOOLS.index(tool) - 1]
    for name, more in ((other, {}), (tool, {"query": "x"}), (tool, {"topic": "testing"})):
        assert ask(name, cursor=cursor, **more)["details"].keys() == {"cursor"}


@four
def test_filters_and_a_query_combine(ask: Ask, tool: str) -> None:
    results = everything(ask, tool)
    source_id, topic = results[0]["source_id"], results[0]["topics"][0]
    expected = {e["id"] for e in results if e["source_id"] == source_id and topic in e["topics"]}
    page = ask(tool, source_id=source_id, topic=topic, query="how")
    assert {result["id"] for result in page["results"]} == expected
    assert page["metadata"]["query"] == topic
    assert page["metadata"]["search_type"] == "semantic"


@pytest.fixture(scope="module")
def down(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway whose database does not answer; no tool has time to wait for it."""
    nowhere = {
        "FIRESTORE_EMULATOR_HOST": f"127.0.0.1:{free_port()}",
        "TOOL_TIMEOUTS": json.dumps(dict.fromkeys(TOOLS, 1.0)),
    }
    with run_gateway(INLINE, nowhere, tmp_path_factory.mktemp("down") / "log") as running:
        yield running


@four
def test_an_unreachable_database_is_no_empty_list(down: Running, tool: str) -> None:
    assert answer(down.endpoint, tool, {})["code"] == "UNAVAILABLE"


@four
def test_strangers_are_refused_where_access_is_not_public(closed: Running, tool: str) -> None:
    assert post(closed.endpoint, call(tool, {})).status_code == 401


@pytest.mark.slow
def test_the_nightly_score_is_shown_by_get_stats(ask: Ask, sample: str) -> None:
    assert "health" not in ask("get_stats")
    run = carrel(sample, "from infra.cli.main import main; main()", "jobs", "run", "health")
    assert run.returncode == 0, run.stderr
    assert ask("get_stats")["health"]["queries"] > 0
