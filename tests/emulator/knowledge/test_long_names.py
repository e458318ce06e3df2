"""Tools accept names that grow when the index normalizes them.

The index compares names without regard to case and to the form of letters. It turns one letter of
Arabic script into eighteen, and an id of Firestore has at most 1,500 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from functions.tools.knowledge.complete_name.tool import TOOL as COMPLETE_NAME
from functions.tools.knowledge.list_sources.tool import TOOL as LIST_SOURCES
from functions.tools.knowledge.search_kb.tool import TOOL as SEARCH_KB
from functions.tools.traces.list_tags.tool import TOOL as LIST_TAGS
from functions.tools.traces.search_traces.tool import TOOL as SEARCH_TRACES
from shared.core.caller import Caller
from shared.runtime.context import App, Context
from shared.runtime.invocation import invoke
from shared.runtime.tool import Tool
from tests.support.extractions import TOOLS, make_decision, make_extraction, store_extractions
from tests.support.knowledge import BAKING, store_sources
from tests.support.small_sources import make_source
from tests.support.tool_calls import make_call_request

LETTER: Final = "\ufdfa"
"""A letter that stands for a phrase of 18 characters, or 33 bytes."""
LONG: Final = LETTER * 200
"""A name that has 600 bytes as it is, and 6,600 when it is normalized."""
TOOLS_BY_NAME: Final[dict[str, Tool[Any, Any]]] = {
    tool.name: tool
    for tool in (
        *TOOLS.values(), COMPLETE_NAME, LIST_SOURCES, LIST_TAGS, SEARCH_KB, SEARCH_TRACES
    )
}  # fmt: skip


async def get_result(app: App, name: str, /, **arguments: Any) -> Mapping[str, Any]:
    """Return the result of a call that succeeds."""
    tool = TOOLS_BY_NAME[name]
    answer = await invoke(tool, make_call_request(tool, Caller(), arguments), app)
    assert answer.error is None, answer.error
    assert answer.result is not None
    return answer.result


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_decisions", {"topic": LONG}),
        ("get_patterns", {"topic": LONG, "query": LONG}),
        ("get_warnings", {"topic": LONG, "source_id": "baking"}),
        ("get_methodologies", {"topic": LONG}),
        ("list_topics", {"prefix": LETTER * 80}),
        ("list_tags", {"prefix": LETTER * 60}),
        ("search_traces", {"query": LONG}),
        ("list_sources", {"author": LONG}),
        ("list_sources", {"category": LONG, "tag": LONG}),
        *(
            ("complete_name", {"kind": kind, "prefix": LONG})
            for kind in ("tag", "author", "category", "source", "cluster")
        ),
        *(
            ("search_kb", {"query": LONG, "filters": {name: LONG}})
            for name in ("author", "category", "source")
        ),
        ("search_kb", {"query": "bread", "filters": {"tags": [LONG]}}),
    ],
)
async def test_a_long_unknown_name_finds_nothing(
    ctx: Context, app: App, name: str, arguments: dict[str, Any]
) -> None:
    [chunk, *_] = await store_sources(ctx, BAKING)
    await store_extractions(ctx, make_extraction(chunk, make_decision(), "baking"))
    result = await get_result(app, name, **arguments)
    for field in ("results", "topics", "tags", "sources", "names"):
        assert result.get(field, []) == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list_sources", {"author": LONG}),
        ("list_sources", {"category": LONG}),
        ("list_sources", {"tag": LONG}),
        ("list_sources", {"tag": LONG, "author": LONG, "category": LONG}),
        ("search_kb", {"query": "gold", "filters": {"author": LONG}}),
        ("search_kb", {"query": "gold", "filters": {"category": LONG}}),
        ("search_kb", {"query": "gold", "filters": {"source": LONG}}),
        ("search_kb", {"query": "gold", "filters": {"tags": [LONG]}}),
    ],
)
async def test_a_long_known_name_finds_its_source(
    ctx: Context, app: App, name: str, arguments: dict[str, Any]
) -> None:
    source = make_source("long", "Gold.", title=LONG, author=LONG, category=LONG, tags=(LONG,))
    await store_sources(ctx, source)
    result = await get_result(app, name, **arguments)
    field = "sources" if name == "list_sources" else "results"
    assert [match["source_id"] for match in result[field]] == ["long"]
