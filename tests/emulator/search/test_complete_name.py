"""`complete_name` returns the names that begin with given letters, most common first."""

from __future__ import annotations

from typing import Any

import pytest

from functions.tools.knowledge.complete_name.tool import TOOL, In, complete_name
from shared.knowledge.common_names import MAX_NAMES
from shared.runtime.context import App, Context
from tests.support.knowledge import set_fields
from tests.support.read_cost import ReadCost, get_read_cost, make_call_context
from tests.support.small_sources import make_source, store_and_index


async def store_library(ctx: Context) -> None:
    """Store three sources by two authors, and two clusters."""
    austen_fields: dict[str, Any] = {"author": "Jane Austen", "tags": ("novel", "Deep-Work")}
    jane_eyre = make_source(
        "eyre-1", "a", title="Jane Eyre", author="Charlotte Brontë", tags=("novel",)
    )
    emma = make_source("emma-9", "a", "b", "c", title="Emma", **austen_fields)
    mansfield_park = make_source("park-5", "a", title="Mansfield Park", **austen_fields)
    await store_and_index(ctx, jane_eyre, emma, mansfield_park)
    cluster_fields = {"description": "", "keywords": [], "x": 0.0, "y": 0.0}
    await set_fields(
        ctx, "clusters/c-1", cluster_fields | {"name": "Marriage and money", "size": 4}
    )
    await set_fields(ctx, "clusters/c-2", cluster_fields | {"name": "Manners", "size": 1})


@pytest.mark.parametrize(
    ("kind", "prefix", "expected"),
    [
        ("tag", "", ["novel", "Deep-Work"]),
        ("tag", "NO", ["novel"]),
        ("tag", "work", ["Deep-Work"]),
        ("tag", "ovel", []),
        ("author", "jan", ["Jane Austen"]),
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
    ctx: Context, kind: str, prefix: str, expected: list[str]
) -> None:
    await store_library(ctx)
    out = await complete_name(In.model_validate({"kind": kind, "prefix": prefix}), ctx)
    assert [entry.name for entry in out.names] == expected
    assert out.total == len(expected)


async def test_only_sources_and_clusters_have_ids(ctx: Context) -> None:
    await store_library(ctx)
    for kind, expected in {
        "source": {"name": "Emma", "id": "emma-9", "count": 3},
        "cluster": {"name": "Marriage and money", "id": "c-1", "count": 4},
        "tag": {"name": "novel", "id": None, "count": 5},
    }.items():
        out = await complete_name(In.model_validate({"kind": kind, "limit": 1}), ctx)
        assert [name.model_dump() for name in out.names] == [expected]


async def test_names_beyond_the_limit_are_counted(ctx: Context) -> None:
    await store_library(ctx)
    out = await complete_name(In(kind="source", limit=2), ctx)
    assert len(out.names) == 2
    assert out.total == 3


async def test_an_empty_base_has_no_names(ctx: Context) -> None:
    out = await complete_name(In(kind="source", prefix="a"), ctx)
    assert out.names == []
    assert out.total == 0


async def store_fillers(ctx: Context, kind: str) -> None:
    """Fill the cache of common names: store many names of a kind, with nine passages each."""
    for n in range(MAX_NAMES):
        facet = {"kind": kind, "key": f"filler{n}", "name": f"Filler {n}", "df": 9}
        await set_fields(ctx, f"facets/{kind}:filler{n}", facet)


async def test_rare_names_are_found_among_many_common_names(ctx: Context) -> None:
    tags = tuple(f"common {n}" for n in range(MAX_NAMES))
    await store_and_index(ctx, make_source("a", "x", "y", tags=tags))
    await store_and_index(ctx, make_source("rare-id", title="Rare Title", tags=("rare tag",)))
    await store_fillers(ctx, "source")

    for kind, prefix, expected in [
        ("tag", "Rare", "rare tag"),
        ("source", "rare t", "Rare Title"),
        ("source", "rare-", "Rare Title"),
    ]:
        out = await complete_name(In.model_validate({"kind": kind, "prefix": prefix}), ctx)
        assert [entry.name for entry in out.names] == [expected]


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
    out = await complete_name(In.model_validate({"kind": kind, "prefix": long_name}), ctx)
    assert [entry.name for entry in out.names] == [long_name]


async def test_rare_names_beyond_the_limit_are_counted(ctx: Context) -> None:
    common_tags = tuple(f"common {n}" for n in range(MAX_NAMES))
    await store_and_index(ctx, make_source("a", "x", "y", tags=common_tags))
    await store_and_index(ctx, make_source("b", tags=tuple(f"rare {n}" for n in range(3))))
    out = await complete_name(In(kind="tag", prefix="rare", limit=2), ctx)
    assert len(out.names) == 2
    assert out.total == 3


async def test_common_names_are_cached_for_a_minute(ctx: Context, app: App) -> None:
    await store_library(ctx)
    first_ctx, second_ctx = make_call_context(app), make_call_context(app)
    await complete_name(In(kind="tag", prefix="n"), first_ctx)
    await complete_name(In(kind="tag", prefix="no"), second_ctx)
    all_tags = 2
    assert get_read_cost(first_ctx) == ReadCost(round_trips=1, documents=all_tags)
    assert get_read_cost(second_ctx) == ReadCost(round_trips=0, documents=0)


def test_the_tool_is_internal_and_completes_five_kinds() -> None:
    assert TOOL.internal
    assert set(TOOL.completes) == {"tag", "author", "category", "source", "cluster"}
