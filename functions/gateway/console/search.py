"""The home page and the search results, which share one search box."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from functions.gateway.console.changes import apply_change
from functions.gateway.console.rendering import redirect
from shared.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.datastructures import QueryParams
    from starlette.responses import Response

    from functions.gateway.console.visits import Visit

HITS_PER_PAGE: Final = 20
RECENT_SOURCES: Final = 8
"""The home page lists this many sources."""
RECENT_PASSAGES: Final = 30
"""The sources on the home page are those of this many passages."""
_READ: Final = {"category": "-note", "date_range": {"start": "1900-01-01"}}
"""The filters that all dated passages pass, but no notes."""
_PERIODS: Final = {"This week": "this_week", "Last month": "last_month", "A year ago": "a_year_ago"}
_ORDERS: Final = {"Best first": "", "Newest first": "newest"}
"""The orders of the answers to a question."""
MAX_FILTERS: Final = 20
"""The maximum number of filters of a search.

Each has a chip whose path repeats all others, so the page grows with the square of the number.
"""
MAX_HOME_CHIPS: Final = 10
"""The maximum number of chips in a group on the home page."""
MAX_HIT_CHIPS: Final = 5
"""The maximum number of chips in a group next to hits."""
_FILTERS: Final = ("tag", "author", "category", "language", "source", "cluster", "period")
"""The parameters of a query string that filter, in the order of their chips."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search, as the path of a page contains it.

    Attributes:
        filters: The filters, each the name of a parameter and its value. Only `tag` may repeat.
        base_path: The path of the page that shows the hits, without its query string.
        order: The order of the hits or of a list of sources; empty for the best first.
    """

    query: str
    filters: tuple[tuple[str, str], ...]
    base_path: str = "/"
    order: str = ""

    @classmethod
    def parse(cls, parameters: QueryParams, base_path: str = "/", order: str = "") -> Search:
        """Read the search from the parameters of a request.

        Unknown parameters and empty filters are ignored. If a filter other than `tag` is repeated,
        its last value counts.

        Raises:
            InvalidInput: There are more than `MAX_FILTERS` filters.
        """
        filters: list[tuple[str, str]] = []
        for name in _FILTERS:
            values = [value.strip() for value in parameters.getlist(name) if value.strip()]
            by_key = {value.casefold(): value for value in values}
            effective_values = by_key.values() if name == "tag" else values[-1:]
            filters += [(name, value) for value in effective_values]
        if len(filters) > MAX_FILTERS:
            raise InvalidInput(
                f"A search has at most {MAX_FILTERS} filters. Remove some from the address."
            )
        return cls(parameters.get("q", "").strip(), tuple(filters), base_path, order)

    def to_arguments(self) -> dict[str, Any]:
        """Return the arguments of search_kb."""
        values = dict(self.filters)
        tags = [value for name, value in self.filters if name == "tag"]
        names = ("author", "category", "language", "source", "period")
        filters: dict[str, Any] = {name: values[name] for name in names if name in values}
        if tags:
            filters["tags"] = tags
        if "cluster" in values:
            filters["cluster_id"] = values["cluster"]
        return {"query": self.query or None, "filters": filters or None}

    def make_path(self, cursor: str | None = None) -> str:
        """Return the path of the page of this search, with its query string.

        A cursor selects a later part of the hits.
        """
        parameters = [("q", self.query)] if self.query else []
        parameters += self.filters
        if self.order:
            parameters.append(("order", self.order))
        if cursor:
            parameters.append(("cursor", cursor))
        return f"{self.base_path}?{urlencode(parameters)}" if parameters else self.base_path

    def add_filter(self, name: str, value: str) -> Search:
        """Return this search with a filter. Unless it is a tag, it replaces others of its name."""
        others = [other for other in self.filters if name == "tag" or other[0] != name]
        return replace(self, filters=(*others, (name, value)))

    def with_base_path(self, base_path: str) -> Search:
        """Return this search with its hits on another page."""
        return replace(self, base_path=base_path)

    def with_order(self, order: str) -> Search:
        """Return this search with its hits or sources in another order."""
        return replace(self, order=order)

    def remove_filter(self, name: str, value: str) -> Search:
        """Return this search without a filter."""
        filters = tuple(other for other in self.filters if other != (name, value))
        return replace(self, filters=filters)

    def make_period_chips(self) -> list[Chip]:
        """Make a chip for each period to which a click narrows the search."""
        return [
            Chip(label, self.add_filter("period", value).make_path())
            for label, value in _PERIODS.items()
            if ("period", value) not in self.filters
        ]

    def make_active_chips(self, cluster_names: Mapping[str, str]) -> list[Chip]:
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
        path: The path of the search with the filter, or without it.
        count: How many passages pass the filter; None for a filter that the search has. The home
            page counts all passages. The results page counts only the hits shown, because a search
            by meaning ranks all passages, so there is no total.
    """

    label: str
    path: str
    count: int | None = None


async def forward(visit: Visit) -> Response:
    """Send the browser from the address that people guess to that of the search."""
    return redirect(f"/{visit.path.removeprefix('/search')}")


async def show(visit: Visit) -> Response:
    """Show the hits of a search. If there is none, show the home page.

    The home page shows the sources of the newest passages, and some counts.
    """
    parameters = visit.request.query_params
    search = Search.parse(parameters, order=parameters.get("order", ""))
    if search.query or search.filters:
        return await _show_hits(visit, search)
    stats, recent, review = await asyncio.gather(
        visit.call("get_stats"),
        visit.call("search_kb", filters=_READ, limit=RECENT_PASSAGES),
        visit.call("get_review"),
    )
    groups = make_common_chips(search, stats.result) if stats.result else []
    passages = (recent.result or {}).get("results", [])
    newest = {hit["source_id"]: hit for hit in reversed(passages)}
    return visit.render(
        "home.html",
        search=search,
        stats=stats,
        recent_error=recent.error,
        recent=[hit for hit in passages if newest[hit["source_id"]] is hit][:RECENT_SOURCES],
        review=review.result or {},
        chip_groups=groups,
    )


async def review(visit: Visit, fields: dict[str, str]) -> Response:
    """Store an answer or a note about a passage of the day, and show the home page again."""
    if error := await apply_change(visit, "", fields):
        return visit.render_error(error, fields.get("text", ""))
    return await show(visit)


async def _show_hits(visit: Visit, search: Search) -> Response:
    cursor = visit.request.query_params.get("cursor")
    answer = await visit.call(
        "search_kb",
        **search.to_arguments(),
        sort=search.order or None,
        limit=HITS_PER_PAGE,
        cursor=cursor,
    )
    result = answer.result or {}
    hits = result.get("results", [])
    names = result.get("clusters", {})
    next_cursor = result.get("next_cursor")
    return visit.render(
        "results.html",
        error=answer.error,
        search=search,
        result=result,
        active=search.make_active_chips(names),
        orders=[(label, search.with_order(name)) for label, name in _ORDERS.items()],
        is_first=cursor is None,
        chip_groups=_make_hit_chips(search, hits, names),
        next_path=search.make_path(next_cursor) if next_cursor else None,
    )


def _describe_filter(name: str, value: str, cluster_names: Mapping[str, str]) -> str:
    """Return the label of a filter that the search has."""
    match name:
        case "cluster":
            return f"cluster: {cluster_names.get(value) or value}"
        case "period":
            return value.replace("_", " ")
        case _:
            return f"{name}: {value}"


def make_common_chips(search: Search, stats: dict[str, Any]) -> list[tuple[str, list[Chip]]]:
    """Make the chips of the most common categories, tags and authors, in titled groups."""
    groups = {"category": "categories", "tag": "top_tags", "author": "top_authors"}
    titles = {"category": "Categories", "tag": "Tags", "author": "Authors"}
    return [
        (
            titles[name],
            [
                Chip(
                    entry["name"],
                    search.add_filter(name, entry["name"]).make_path(),
                    entry["chunks"],
                )
                for entry in stats[field][:MAX_HOME_CHIPS]
            ],
        )
        for name, field in groups.items()
        if stats[field]
    ]


def _make_hit_chips(
    search: Search, hits: list[dict[str, Any]], cluster_names: Mapping[str, str]
) -> list[tuple[str, list[Chip]]]:
    """Make the chips of filters that some hits on this page pass, but not all, in titled groups.

    A filter that would exceed `MAX_FILTERS` has no chip.
    """
    groups = [
        ("Tags", "tag", [tag for hit in hits for tag in hit["tags"]]),
        ("Authors", "author", [hit["author"] for hit in hits if hit.get("author")]),
        ("Clusters", "cluster", [hit["cluster"] for hit in hits if hit.get("cluster")]),
    ]
    active = {(name, value.casefold()) for name, value in search.filters}
    chip_groups = []
    for title, name, values in groups:
        chips = []
        spellings = {value.casefold(): value for value in reversed(values)}
        for key, count in Counter(value.casefold() for value in values).most_common():
            value = spellings[key]
            narrowed_search = search.add_filter(name, value)
            is_new = (name, key) not in active
            if is_new and count < len(hits) and len(narrowed_search.filters) <= MAX_FILTERS:
                label = cluster_names.get(value) if name == "cluster" else None
                chips.append(Chip(label or value, narrowed_search.make_path(), count))
        if chips:
            chip_groups.append((title, chips[:MAX_HIT_CHIPS]))
    return chip_groups
