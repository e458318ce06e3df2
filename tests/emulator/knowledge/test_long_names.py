"""Tools accept names that grow when the index normalizes them.

The index compares names without regard to case and to the form of letters. It turns one letter of
Arabic script into eighteen, and an id of Firestore has at most 1,500 bytes.
"""

from typing import Any, Final

from shared.runtime.context import App, Context
from tests.support.extractions import make_decision, make_extraction, store_extractions
from tests.support.knowledge import BAKING, store_sources
from tests.support.small_sources import make_source
from tests.support.tool_calls import call_result

LETTER: Final = "\ufdfa"
"""A letter that stands for a phrase of 18 characters, or 33 bytes."""
LONG: Final = LETTER * 200
"""A name that has 600 bytes as it is, and 6,600 when it is normalized."""


async def test_a_long_unknown_name_finds_nothing(ctx: Context, app: App) -> None:
    [chunk, *_] = await store_sources(ctx, BAKING)
    await store_extractions(ctx, make_extraction(chunk, make_decision(), "baking"))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_decisions", {"topic": LONG}),
        ("get_patterns", {"topic": LONG, "query": LONG}),
        ("get_warnings", {"topic": LONG, "source_id": "baking"}),
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
    ]
    for name, arguments in calls:
        result = await call_result(app, name, **arguments)
        for field in ("results", "topics", "tags", "sources", "names"):
            assert not result.get(field), name


async def test_a_long_known_name_finds_its_source(ctx: Context, app: App) -> None:
    source = make_source("long", "Gold.", title=LONG, author=LONG, category=LONG, tags=(LONG,))
    await store_sources(ctx, source)
    filters: list[dict[str, Any]] = [{"author": LONG}, {"category": LONG}, {"tag": LONG}]
    for arguments in (*filters, {"tag": LONG, "author": LONG, "category": LONG}):
        sources = (await call_result(app, "list_sources", **arguments))["sources"]
        assert [source["source_id"] for source in sources] == ["long"]
    for filter_ in (*filters[:2], {"source": LONG}, {"tags": [LONG]}):
        hits = (await call_result(app, "search_kb", query="gold", filters=filter_))["results"]
        assert [hit["source_id"] for hit in hits] == ["long"]
