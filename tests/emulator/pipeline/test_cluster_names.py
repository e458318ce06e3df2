"""Clusters are named by a language model, or by their words where it fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, ValidationError

from functions.jobs.cluster.job import cluster
from functions.jobs.cluster.model_names import MAX_PASSAGES, ClusterName
from shared.ai.generation import Generated, InvalidAnswer
from shared.core.caller import Caller
from shared.core.errors import CarrelError, InvalidInput, Unavailable
from shared.core.meter import Meter
from shared.knowledge.map_repository import Maps
from shared.runtime.context import App
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget
from tests.support.stored_documents import read_documents
from tests.support.themed_passages import (
    PASSAGES_PER_THEME,
    THEMES,
    add_sources,
    make_themed_source,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared.core.settings import Settings
    from shared.runtime.context import Context
    from shared.runtime.job import Report

pytestmark = pytest.mark.anyio

COST = {"input_tokens": 100, "output_tokens": 10}


@dataclass
class Namer:
    """A language model that finds out which theme it is shown.

    Attributes:
        refuses: What it answers for a theme in place of a name.
        asked: What it was asked.
        same: Whether it calls everything alike.
    """

    refuses: dict[str, CarrelError] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    same: bool = False
    model = "namer-1"

    async def generate(self, instruction: str, text: str, schema: type[Any]) -> Generated[Any]:
        assert instruction
        self.asked.append(text)
        [theme] = [name for name in THEMES if f"On {name}" in text]
        if theme in self.refuses:
            raise self.refuses[theme]
        name = "All that there is" if self.same else f"All there is about {theme}"
        words = THEMES[theme].split()[:5]
        value = schema(name=name, description=f"It is about {theme}.", keywords=words)
        return Generated(value, **COST)

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.fixture
def namer() -> Namer:
    return Namer()


@pytest.fixture
async def app(settings: Settings, namer: Namer) -> AsyncIterator[App]:
    opened = App(settings, embedder=WordEmbedder(), generator=namer)
    yield opened
    await opened.aclose()


async def run(ctx: Context) -> Report:
    return await cluster(ctx, make_ample_budget())


async def make_five_clusters(ctx: Context) -> None:
    await add_sources(ctx, *map(make_themed_source, THEMES))


async def read_theme_names(ctx: Context) -> dict[str, tuple[str, str]]:
    """Return each theme's cluster name, and who gave it."""
    return {
        next(
            theme for theme, words in THEMES.items() if set(data["keywords"]) & set(words.split())
        ): (data["name"], data["named_by"])
        for data in (await read_documents(ctx, "clusters")).values()
    }


async def test_model_names_each_cluster_once_and_tokens_count(
    ctx: Context, namer: Namer, meter: Meter
) -> None:
    await make_five_clusters(ctx)
    report = await run(ctx)
    expected = {theme: (f"All there is about {theme}", "namer-1") for theme in THEMES}
    assert await read_theme_names(ctx) == expected
    assert report.counts["named"] == 5
    drawn = await Maps(ctx.database).load()
    assert drawn
    assert {entry.name for entry in drawn.clusters} == {name for name, _ in expected.values()}
    await run(ctx)
    assert len(namer.asked) == 5
    assert meter.input_tokens == 500
    assert meter.output_tokens == 50


async def test_prompt_has_central_chunks_and_shared_words(ctx: Context, namer: Namer) -> None:
    await make_five_clusters(ctx)
    await run(ctx)
    for text in namer.asked:
        assert text.count("On ") == MAX_PASSAGES
        assert text.startswith("Words they share: ")


async def test_refused_cluster_keeps_its_word_based_name(ctx: Context, namer: Namer) -> None:
    namer.refuses = {"bees": InvalidInput("Not allowed."), "chess": InvalidAnswer("No name.")}
    await make_five_clusters(ctx)
    report = await run(ctx)
    cluster_names = await read_theme_names(ctx)
    assert [cluster_names[theme][1] for theme in ("bees", "chess")] == ["words alone"] * 2
    assert {3 <= len(name.split()) <= 6 for name, _ in cluster_names.values()} == {True}
    assert report.counts["named"] == 3
    assert len(report.failures) == 2
    assert (await run(ctx)).failures == []
    assert len(namer.asked) == 5


async def test_tokens_of_unusable_answers_are_counted(
    ctx: Context, namer: Namer, meter: Meter
) -> None:
    namer.refuses = {
        "bees": InvalidInput("Not allowed.", details={"input_tokens": 7, "output_tokens": 0}),
        "chess": InvalidAnswer("No name.", details={"input_tokens": 30, "output_tokens": 5}),
    }
    await make_five_clusters(ctx)
    await run(ctx)
    assert meter.input_tokens == 337
    assert meter.output_tokens == 35


async def test_clusters_have_word_based_names_in_an_outage(ctx: Context, namer: Namer) -> None:
    namer.refuses = {theme: Unavailable("Down.", retry_after=5) for theme in THEMES}
    await make_five_clusters(ctx)
    report = await run(ctx)
    assert [failure.name for failure in report.failures] == ["names"]
    assert report.finished
    assert {by for _, by in (await read_theme_names(ctx)).values()} == {"words"}
    namer.refuses = {}
    await run(ctx)
    assert {by for _, by in (await read_theme_names(ctx)).values()} == {"namer-1"}


async def test_repeated_name_is_given_to_one_cluster_only(ctx: Context, namer: Namer) -> None:
    namer.same = True
    await make_five_clusters(ctx)
    await run(ctx)
    cluster_names = [name for name, _ in (await read_theme_names(ctx)).values()]
    assert len(set(cluster_names)) == 5
    assert cluster_names.count("All that there is") == 1


async def test_nearly_unchanged_clusters_keep_their_names(ctx: Context, namer: Namer) -> None:
    await add_sources(
        ctx, *(make_themed_source(theme) for theme in ("bread", "boats", "bees", "chess"))
    )
    await run(ctx)
    await add_sources(
        ctx,
        make_themed_source("clouds"),
        make_themed_source("boats", range(PASSAGES_PER_THEME + 1)),
    )
    await run(ctx)
    assert len(namer.asked) == 5
    assert "On clouds" in namer.asked[-1]


async def test_word_based_names_are_replaced_by_a_later_model(
    ctx: Context, settings: Settings
) -> None:
    without = App(settings, embedder=WordEmbedder())
    await make_five_clusters(ctx)
    await run(without.context(Caller(), Meter()))
    assert {by for _, by in (await read_theme_names(ctx)).values()} == {"words"}
    await run(ctx)
    assert {by for _, by in (await read_theme_names(ctx)).values()} == {"namer-1"}
    await without.aclose()


@pytest.mark.parametrize("name", ["Two words", "One two three four five six seven", ""])
def test_name_has_three_to_six_words(name: str) -> None:
    answer = {"name": name, "description": "Something.", "keywords": list("abcde")}
    with pytest.raises(ValidationError):
        ClusterName.model_validate(answer)


def test_keywords_are_unique_regardless_of_case() -> None:
    words = ["Bread", "bread", "oven", "crust ", "flour", "yeast"]
    answer = ClusterName(name="Bread and its ovens", description="Bread.", keywords=words)
    assert answer.keywords == ["bread", "oven", "crust", "flour", "yeast"]
    assert isinstance(answer, BaseModel)
