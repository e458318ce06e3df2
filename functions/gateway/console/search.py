"""The home page and the search results, which share one search box."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.datastructures import QueryParams
    from starlette.responses import Response

    from functions.gateway.console.visits import Visit

HITS_PER_PAGE: Final = 20
RECENT_SOURCES: Final = 8
"""The home page lists this many sources."""
MAX_FILTERS: Final = 20
"""The maximum number of filters of a search.

Each has a chip whose address repeats all others, so the page grows with the square of the number.
"""
MAX_CHIPS: Final = 5
"""The maximum number of chips of each kind next to hits. The home page shows twice as many."""
_FILTERS: Final = ("tag", "author", "category", "language", "source", "cluster", "period")
"""The parameters of the address that filter, in the order of their chips."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search, as the address of a page contains it.

    Attributes:
        query: The query; empty for none.
        filters: The filters, each a parameter of the address and its value.
        page: The path of the page that shows the results.
    """

    query: str
    filters: tuple[tuple[str, str], ...]
    page: str = "/"

    @classmethod
    def parse(cls, parameters: QueryParams, page: str = "/") -> Search:
        """Read the search from the parameters of an address. Unknown parameters are ignored.

        Raises:
            InvalidInput: There are more than `MAX_FILTERS` filters.
        """
        filters = dict.fromkeys(
            (name, value.strip())
            for name in _FILTERS
            for value in parameters.getlist(name)
            if value.strip()
        )
        if len(filters) > MAX_FILTERS:
            raise InvalidInput(
                f"A search has at most {MAX_FILTERS} filters. Remove some from the address."
            )
        return cls(parameters.get("q", "").strip(), tuple(filters), page)

    def to_arguments(self) -> dict[str, Any]:
        """Return the arguments of search_kb."""
        values = dict(self.filters)
        tags = [value for name, value in self.filters if name == "tag"]
        names = ("author", "category", "language", "source", "period")
        filters: dict[str, Any] = {name: values[name] for name in names if name in values}
        filters |= {"tags": tags} if tags else {}
        filters |= {"cluster_id": values["cluster"]} if "cluster" in values else {}
        return {"query": self.query or None, "filters": filters or None}

    def make_path(self, cursor: str | None = None) -> str:
        """Return the address of this search, or of its page at a cursor."""
        parameters = [("q", self.query)] if self.query else []
        parameters += [*self.filters, *([("cursor", cursor)] if cursor else [])]
        return f"{self.page}?{urlencode(parameters)}" if parameters else self.page

    def add_filter(self, name: str, value: str) -> Search:
        """Return this search with a filter. It replaces others of its name, except for tags."""
        others = [item for item in self.filters if name == "tag" or item[0] != name]
        return replace(self, filters=(*others, (name, value)))

    def for_page(self, page: str) -> Search:
        """Return this search with the address of another page."""
        return replace(self, page=page)

    def remove_filter(self, name: str, value: str) -> Search:
        """Return this search without a filter."""
        return replace(self, filters=tuple(f for f in self.filters if f != (name, value)))

    def make_active_chips(self, cluster_names: Mapping[str, str | None]) -> list[Chip]:
        """Make a chip for each filter. Its link leads to the search without the filter."""
        return [
            Chip(
                _describe_filter(name, value, cluster_names),
                self.remove_filter(name, value).make_path(),
            )
            for name, value in self.filters
        ]


@dataclass(frozen=True, slots=True)
class Chip:
    """A link that adds a filter to a search, or removes one.

    Attributes:
        label: What the filter is called.
        path: The address of the search with the filter, or without it.
        count: How many passages pass the filter; None for a filter that the search has. The home
            page counts the whole knowledge base. Next to hits, only those on the page count: a
            search by meaning ranks all passages, so there is no total.
    """

    label: str
    path: str
    count: int | None = None


async def show(visit: Visit) -> Response:
    """Show the hits of a search, or without one the home page: recent sources and some counts."""
    search = Search.parse(visit.request.query_params)
    if search.query or search.filters:
        return await _show_hits(visit, search)
    stats, recent = await asyncio.gather(
        visit.call("get_stats"), visit.call("list_sources", limit=RECENT_SOURCES)
    )
    groups = _make_home_chips(search, stats.result) if stats.result else []
    return visit.render(
        "home.html", search=search, active=[], stats=stats, recent=recent, chip_groups=groups
    )


async def _show_hits(visit: Visit, search: Search) -> Response:
    cursor = visit.request.query_params.get("cursor")
    answer = await visit.call(
        "search_kb", **search.to_arguments(), limit=HITS_PER_PAGE, cursor=cursor
    )
    result = answer.result or {}
    hits = result.get("results", [])
    names = {
        hit["cluster"]["cluster_id"]: hit["cluster"]["name"] for hit in _select_clustered(hits)
    }
    next_cursor = result.get("next_cursor")
    return visit.render(
        "results.html",
        error=answer.error,
        search=search,
        result=result,
        active=search.make_active_chips(names),
        chip_groups=_make_hit_chips(search, hits, names),
        next_path=search.make_path(next_cursor) if next_cursor else None,
    )


def _describe_filter(name: str, value: str, cluster_names: Mapping[str, str | None]) -> str:
    """Return the label of a filter that the search has."""
    match name:
        case "cluster":
            return f"cluster: {cluster_names.get(value) or value}"
        case "period":
            return value.replace("_", " ")
        case _:
            return f"{name}: {value}"


def _make_home_chips(search: Search, stats: dict[str, Any]) -> list[tuple[str, list[Chip]]]:
    """Make the chips of the most common categories, tags and authors, in titled groups."""
    groups = {"category": "categories", "tag": "top_tags", "author": "top_authors"}
    titles = {"category": "Kinds", "tag": "Tags", "author": "Authors"}
    return [
        (
            titles[name],
            [
                Chip(
                    item["name"], search.add_filter(name, item["name"]).make_path(), item["chunks"]
                )
                for item in stats[field][: MAX_CHIPS * 2]
            ],
        )
        for name, field in groups.items()
        if stats[field]
    ]


def _make_hit_chips(
    search: Search, hits: list[dict[str, Any]], cluster_names: dict[str, str | None]
) -> list[tuple[str, list[Chip]]]:
    """Make the chips of filters that some hits on this page pass, but not all, in titled groups."""
    counts_by_title = {
        "Tags": ("tag", Counter(tag for hit in hits for tag in hit["tags"])),
        "Authors": ("author", Counter(hit["author"] for hit in hits if hit.get("author"))),
        "Clusters": (
            "cluster",
            Counter(h["cluster"]["cluster_id"] for h in _select_clustered(hits)),
        ),
    }
    groups = []
    for title, (name, counts) in counts_by_title.items():
        chips = [
            Chip(
                (cluster_names.get(value) or value) if name == "cluster" else value,
                search.add_filter(name, value).make_path(),
                count,
            )
            for value, count in counts.most_common()
            if count < len(hits) and (name, value) not in search.filters
        ]
        groups += [(title, chips[:MAX_CHIPS])] if chips else []
    return groups


def _select_clustered(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [hit for hit in hits if hit.get("cluster")]
