"""`complete_name` returns the names that begin with given letters, most common first."""

from typing import Any

import pytest

from functions.tools.knowledge.complete_name.tool import In, complete_name
from shared.knowledge.common_names import MAX_NAMES
from shared.runtime.context import App, Context
from tests.support.apps import Apps
from tests.support.knowledge import set_fields
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.small_sources import make_source, store_and_index


async def complete(ctx: Context, **arguments: Any) -> tuple[list[str], int]:
    """Return the names, and how many there are beyond the limit, too."""
    out = await complete_name(In.model_validate(arguments), ctx)
    return [entry.name for entry in out.names], out.total


@pytest.fixture(scope="module")
async def library(shared_apps: Apps) -> Context:
    """Three sources by two authors, and two clusters."""
    ctx = shared_apps.context()
    assert await complete(ctx, kind="source", prefix="a") == ([], 0)
    austen: dict[str, Any] = {"author": "Jane Austen", "tags": ("novel", "Deep-Work")}
    bronte: dict[str, Any] = {"author": "Charlotte Brontë", "tags": ("novel",)}
    await store_and_index(
        ctx,
        make_source("eyre-1", "a", title="Jane Eyre", **bronte),
        make_source("emma-9", "a", "b", "c", title="Emma", **austen),
        make_source("park-5", "a", title="Mansfield Park", **austen),
    )
    for cluster_id, name, size in (("c-1", "Marriage and money", 4), ("c-2", "Manners", 1)):
        fields = {"name": name, "size": size, "description": "", "keywords": [], "x": 0.0, "y": 0.0}
        await set_fields(ctx, f"clusters/{cluster_id}", fields)
    return ctx


@pytest.mark.parametrize(
    ("kind", "prefix", "expected"),
    [
        ("tag", "", ["novel", "Deep-Work"]),
        ("tag", "NO", ["novel"]),
        ("tag", "work", ["Deep-Work"]),
        ("tag", "ovel", []),
        ("author", "bront", ["Charlotte Brontë"]),
        ("author", "jane  a", ["Jane Austen"]),
        ("category", "b", ["books"]),
        ("source", "", ["Emma", "Jane Eyre", "Mansfield Park"]),
        ("source", "park", ["Mansfield Park"]),
        ("source", "emma-", ["Emma"]),
        ("cluster", "ma", ["Marriage and money", "Manners"]),
        ("cluster", "money", ["Marriage and money"]),
        ("cluster", "c-2", ["Manners"]),
        ("tag", "(", []),
    ],
)
async def test_matching_names_are_listed_by_frequency(
    library: Context, kind: str, prefix: str, expected: list[str]
) -> None:
    assert await complete(library, kind=kind, prefix=prefix) == (expected, len(expected))


async def test_only_sources_and_clusters_have_ids(library: Context) -> None:
    for kind, expected, total in (
        ("source", {"name": "Emma", "id": "emma-9", "count": 3}, 3),
        ("cluster", {"name": "Marriage and money", "id": "c-1", "count": 4}, 2),
        ("tag", {"name": "novel", "id": None, "count": 5}, 2),
    ):
        out = await complete_name(In.model_validate({"kind": kind, "limit": 1}), library)
        assert ([name.model_dump() for name in out.names], out.total) == ([expected], total)


async def store_fillers(ctx: Context, kind: str) -> None:
    """Fill the cache of common names: store many names of a kind, with nine passages each."""
    for n in range(MAX_NAMES):
        facet = {"kind": kind, "key": f"filler{n}", "name": f"Filler {n}", "df": 9}
        await set_fields(ctx, f"facets/{kind}:filler{n}", facet)


async def test_rare_names_are_found_among_many_common_names(ctx: Context) -> None:
    tags = tuple(f"common {n}" for n in range(MAX_NAMES))
    await store_and_index(ctx, make_source("a", "x", "y", tags=tags))
    rare_tags = ("rare tag", "rare 1", "rare 2")
    await store_and_index(ctx, make_source("rare-id", title="Rare Title", tags=rare_tags))
    await store_fillers(ctx, "source")

    assert await complete(ctx, kind="tag", prefix="Rare t") == (["rare tag"], 1)
    names, total = await complete(ctx, kind="tag", prefix="rare", limit=2)
    assert (len(names), total) == (2, 3)
    for prefix in ("rare t", "rare-"):
        assert await complete(ctx, kind="source", prefix=prefix) == (["Rare Title"], 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tag", "author", "category", "source"])
async def test_a_rare_name_is_found_by_a_very_long_prefix(ctx: Context, kind: str) -> None:
    """The index stores 18 characters for each of these letters, and so shortens the name."""
    long_name = "\ufdfa" * 200
    fields: dict[str, Any] = {"author": long_name, "category": long_name, "tags": (long_name,)}
    await store_and_index(
        ctx,
        make_source("long", title=long_name, **fields),
        make_source("other", title="\ufdfa bread"),
    )
    await store_fillers(ctx, kind)
    assert await complete(ctx, kind=kind, prefix=long_name) == ([long_name], 1)


async def test_common_names_are_cached_for_a_minute(ctx: Context, app: App) -> None:
    """The contract says what the first call takes."""
    await store_and_index(ctx, make_source("a", tags=("novel",)))
    await complete(ctx, kind="tag", prefix="n")
    call_ctx = make_call_context(app)
    assert await complete(call_ctx, kind="tag", prefix="no") == (["novel"], 1)
    assert get_read_cost(call_ctx) == ReadCost(round_trips=0, documents=0)
