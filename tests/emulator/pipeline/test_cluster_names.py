"""Clusters are named by a language model, or by the words of their chunks if the model fails."""

from typing import NamedTuple

import pytest
from pydantic import ValidationError

from functions.jobs.cluster.job import cluster
from functions.jobs.cluster.model_names import MAX_PASSAGES, ClusterName
from shared.ai.generation import InvalidAnswer
from shared.core.errors import CarrelError, InvalidInput, Unavailable
from shared.core.meter import Meter
from shared.knowledge.cluster_repository import BY_WORDS
from shared.knowledge.map_repository import Maps
from shared.runtime.context import Context
from shared.runtime.job import Report
from tests.support.apps import Apps
from tests.support.clock import SettableClock
from tests.support.commit_hooks import WatchedApp
from tests.support.fakes.generator import ScriptedGenerator
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.stored_documents import read_documents
from tests.support.themed_passages import (
    PASSAGES_PER_THEME,
    THEMES,
    add_sources,
    make_themed_source,
)


class Namer(ScriptedGenerator):
    """A fake language model that names a cluster after the theme of its passages.

    Attributes:
        errors: The errors that it raises, by theme.
        name: The name that it gives to every cluster, if any.
    """

    def __init__(self) -> None:
        """Name every cluster."""
        super().__init__(self.name_cluster)
        self.errors: dict[str, CarrelError] = {}
        self.name = ""

    def name_cluster(self, text: str) -> object:
        """Return the name of the cluster that a prompt describes, or an error."""
        [theme] = [name for name in THEMES if f"On {name}" in text]
        name = self.name or f"All there is about {theme}"
        keywords = THEMES[theme].split()[:5]
        answer = {"name": name, "description": f"It is about {theme}.", "keywords": keywords}
        return self.errors.get(theme, answer)


@pytest.fixture
def namer() -> Namer:
    """The language model of the app."""
    return Namer()


@pytest.fixture
def app(apps: Apps, clock: SettableClock, namer: Namer) -> WatchedApp:
    """The app with the fake language model."""
    return apps(clock=clock, generator=namer)


async def run_cluster(ctx: Context) -> Report:
    return await cluster(ctx, make_ample_budget())


async def add_five_themes(ctx: Context) -> None:
    """Add a source about each of five themes, which become five clusters."""
    await add_sources(ctx, *map(make_themed_source, THEMES))


class Naming(NamedTuple):
    """The name of a cluster.

    Attributes:
        name: The name.
        named_by: The model that gave it; `BY_WORDS` if it was made of words, for lack of a model or
            in an outage; `words alone` if the model refused to name the cluster.
    """

    name: str
    named_by: str


async def read_names_by_theme(ctx: Context) -> dict[str, Naming]:
    """Return the naming of each theme's cluster."""
    clusters = (await read_documents(ctx, "clusters")).values()
    return {
        find_theme(data["keywords"]): Naming(data["name"], data["named_by"]) for data in clusters
    }


def find_theme(keywords: list[str]) -> str:
    """Return the theme that has some of these words."""
    return next(theme for theme, words in THEMES.items() if set(keywords) & set(words.split()))


async def read_namers(ctx: Context) -> set[str]:
    """Return what named the clusters."""
    return {naming.named_by for naming in (await read_names_by_theme(ctx)).values()}


async def test_the_model_names_each_cluster_once(ctx: Context, namer: Namer, meter: Meter) -> None:
    await add_five_themes(ctx)
    report = await run_cluster(ctx)
    expected = {theme: Naming(f"All there is about {theme}", "scripted") for theme in THEMES}
    assert await read_names_by_theme(ctx) == expected
    assert report.counts["named"] == 5
    cluster_map = await Maps(ctx.database).load()
    assert cluster_map
    names_on_map = {entry.name for entry in cluster_map.clusters}
    assert names_on_map == {naming.name for naming in expected.values()}

    await run_cluster(ctx)
    assert len(namer.texts) == 5
    for prompt in namer.texts:
        assert prompt.count("On ") == MAX_PASSAGES
        assert prompt.startswith("Words they share: ")
    assert meter.input_tokens == 500
    assert meter.output_tokens == 50


async def test_a_refused_cluster_keeps_its_word_based_name(
    ctx: Context, namer: Namer, meter: Meter
) -> None:
    """Such a name is given by `words alone`, and the model is not asked again. Tokens count."""
    namer.errors = {
        "bees": InvalidInput("Not allowed.", details={"input_tokens": 7, "output_tokens": 0}),
        "chess": InvalidAnswer("No name.", details={"input_tokens": 30, "output_tokens": 5}),
    }
    await add_five_themes(ctx)

    report = await run_cluster(ctx)

    assert report.counts["named"] == 3
    assert len(report.failures) == 2
    assert (meter.input_tokens, meter.output_tokens) == (300 + 7 + 30, 30 + 5)
    names = await read_names_by_theme(ctx)
    assert names["bees"].named_by == "words alone"
    assert names["chess"].named_by == "words alone"
    assert names["bees"].name == "On bees"
    assert (await run_cluster(ctx)).failures == []
    assert len(namer.texts) == 5


async def test_clusters_have_word_based_names_in_an_outage(ctx: Context, namer: Namer) -> None:
    namer.errors = {theme: Unavailable("Down.", retry_after=5) for theme in THEMES}
    await add_five_themes(ctx)

    report = await run_cluster(ctx)
    assert [failure.name for failure in report.failures] == ["names"]
    assert report.finished
    assert await read_namers(ctx) == {BY_WORDS}

    namer.errors = {}
    await run_cluster(ctx)
    assert await read_namers(ctx) == {"scripted"}


async def test_a_repeated_name_is_given_to_one_cluster_only(ctx: Context, namer: Namer) -> None:
    namer.name = "All that there is"
    await add_five_themes(ctx)
    await run_cluster(ctx)
    names = [naming.name for naming in (await read_names_by_theme(ctx)).values()]
    assert len(set(names)) == 5
    assert names.count("All that there is") == 1


async def test_nearly_unchanged_clusters_keep_their_names(ctx: Context, namer: Namer) -> None:
    await add_sources(ctx, *map(make_themed_source, ("bread", "boats", "bees", "chess")))
    await run_cluster(ctx)
    larger_source = make_themed_source("boats", range(PASSAGES_PER_THEME + 1))
    await add_sources(ctx, make_themed_source("clouds"), larger_source)
    await run_cluster(ctx)
    assert len(namer.texts) == 5
    assert "On clouds" in namer.texts[-1]


async def test_word_based_names_are_replaced_by_a_later_model(apps: Apps, ctx: Context) -> None:
    await add_five_themes(ctx)
    await run_cluster(make_job_context(apps(clock=ctx.clock)))
    assert await read_namers(ctx) == {BY_WORDS}
    await run_cluster(ctx)
    assert await read_namers(ctx) == {"scripted"}


@pytest.mark.parametrize("name", ["Two words", "One two three four five six seven", ""])
def test_a_name_has_three_to_six_words(name: str) -> None:
    answer = {"name": name, "description": "Something.", "keywords": list("abcde")}
    with pytest.raises(ValidationError):
        ClusterName.model_validate(answer)


def test_keywords_are_unique_regardless_of_case() -> None:
    words = ["Bread", "bread", "oven", "crust ", "flour", "yeast"]
    answer = ClusterName(name="Bread and its ovens", description="Bread.", keywords=words)
    assert answer.keywords == ["bread", "oven", "crust", "flour", "yeast"]
