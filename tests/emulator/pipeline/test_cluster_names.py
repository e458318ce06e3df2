"""Clusters are named by a language model, or by the words of their chunks if the model fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from functions.jobs.cluster.job import cluster
from functions.jobs.cluster.model_names import MAX_PASSAGES, ClusterName
from shared.ai.generation import Generated, InvalidAnswer
from shared.core.errors import CarrelError, InvalidInput, Unavailable
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.map_repository import Maps
from shared.runtime.context import App, Context
from shared.runtime.job import Report
from tests.support.fakes.embedder import WordEmbedder
from tests.support.jobs import make_ample_budget, make_job_context
from tests.support.stored_documents import read_documents
from tests.support.themed_passages import (
    PASSAGES_PER_THEME,
    THEMES,
    add_sources,
    make_themed_source,
)

INPUT_TOKENS = 100
OUTPUT_TOKENS = 10
"""The tokens of a request to the model, and of its answer."""


@dataclass
class Namer:
    """A fake language model that names a cluster after the theme of its passages.

    Attributes:
        errors: The errors that it raises, by theme.
        prompts: The texts that it got, in order.
        repeats_itself: Whether it gives the same name to every cluster.
    """

    errors: dict[str, CarrelError] = field(default_factory=dict)
    prompts: list[str] = field(default_factory=list)
    repeats_itself: bool = False
    model = "namer-1"

    async def generate(self, instruction: str, text: str, schema: type[Any]) -> Generated[Any]:
        assert instruction
        self.prompts.append(text)
        [theme] = [name for name in THEMES if f"On {name}" in text]
        if theme in self.errors:
            raise self.errors[theme]
        name = "All that there is" if self.repeats_itself else f"All there is about {theme}"
        words = THEMES[theme].split()[:5]
        answer = schema(name=name, description=f"It is about {theme}.", keywords=words)
        return Generated(answer, input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)

    async def aclose(self) -> None:
        """Do nothing."""


@pytest.fixture
def namer() -> Namer:
    """The language model of the app."""
    return Namer()


@pytest.fixture
async def app(settings: Settings, namer: Namer) -> AsyncIterator[App]:
    """An app with the fake language model."""
    opened = App(settings, embedder=WordEmbedder(), generator=namer)
    yield opened
    await opened.aclose()


async def run_cluster(ctx: Context) -> Report:
    return await cluster(ctx, make_ample_budget())


async def add_five_themes(ctx: Context) -> None:
    """Add a source about each of five themes, which become five clusters."""
    await add_sources(ctx, *map(make_themed_source, THEMES))


class Naming(NamedTuple):
    """The name of a cluster.

    Attributes:
        name: The name.
        named_by: The model that gave it; `words` if it was made of words, for lack of a model or in
            an outage; `words alone` if the model refused to name the cluster.
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
    expected = {theme: Naming(f"All there is about {theme}", "namer-1") for theme in THEMES}
    assert await read_names_by_theme(ctx) == expected
    assert report.counts["named"] == 5
    cluster_map = await Maps(ctx.database).load()
    assert cluster_map
    names_on_map = {entry.name for entry in cluster_map.clusters}
    assert names_on_map == {naming.name for naming in expected.values()}

    await run_cluster(ctx)
    assert len(namer.prompts) == 5
    assert meter.input_tokens == 5 * INPUT_TOKENS
    assert meter.output_tokens == 5 * OUTPUT_TOKENS


async def test_the_prompt_has_central_chunks_and_shared_words(ctx: Context, namer: Namer) -> None:
    await add_five_themes(ctx)
    await run_cluster(ctx)
    for prompt in namer.prompts:
        assert prompt.count("On ") == MAX_PASSAGES
        assert prompt.startswith("Words they share: ")


async def test_a_refused_cluster_keeps_its_word_based_name(ctx: Context, namer: Namer) -> None:
    """Such a name is given by `words alone`, and the model is not asked again."""
    namer.errors = {"bees": InvalidInput("Not allowed."), "chess": InvalidAnswer("No name.")}
    await add_five_themes(ctx)

    report = await run_cluster(ctx)

    assert report.counts["named"] == 3
    assert len(report.failures) == 2
    names = await read_names_by_theme(ctx)
    assert names["bees"].named_by == "words alone"
    assert names["chess"].named_by == "words alone"
    assert all(3 <= len(naming.name.split()) <= 6 for naming in names.values())
    assert (await run_cluster(ctx)).failures == []
    assert len(namer.prompts) == 5


async def test_tokens_of_unusable_answers_are_counted(
    ctx: Context, namer: Namer, meter: Meter
) -> None:
    namer.errors = {
        "bees": InvalidInput("Not allowed.", details={"input_tokens": 7, "output_tokens": 0}),
        "chess": InvalidAnswer("No name.", details={"input_tokens": 30, "output_tokens": 5}),
    }
    await add_five_themes(ctx)
    await run_cluster(ctx)
    assert meter.input_tokens == 3 * INPUT_TOKENS + 7 + 30
    assert meter.output_tokens == 3 * OUTPUT_TOKENS + 5


async def test_clusters_have_word_based_names_in_an_outage(ctx: Context, namer: Namer) -> None:
    namer.errors = {theme: Unavailable("Down.", retry_after=5) for theme in THEMES}
    await add_five_themes(ctx)

    report = await run_cluster(ctx)
    assert [failure.name for failure in report.failures] == ["names"]
    assert report.finished
    assert await read_namers(ctx) == {"words"}

    namer.errors = {}
    await run_cluster(ctx)
    assert await read_namers(ctx) == {"namer-1"}


async def test_a_repeated_name_is_given_to_one_cluster_only(ctx: Context, namer: Namer) -> None:
    namer.repeats_itself = True
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
    assert len(namer.prompts) == 5
    assert "On clouds" in namer.prompts[-1]


async def test_word_based_names_are_replaced_by_a_later_model(
    ctx: Context, settings: Settings
) -> None:
    app_without_model = App(settings, embedder=WordEmbedder())
    await add_five_themes(ctx)
    await run_cluster(make_job_context(app_without_model))
    assert await read_namers(ctx) == {"words"}
    await run_cluster(ctx)
    assert await read_namers(ctx) == {"namer-1"}
    await app_without_model.aclose()


@pytest.mark.parametrize("name", ["Two words", "One two three four five six seven", ""])
def test_a_name_has_three_to_six_words(name: str) -> None:
    answer = {"name": name, "description": "Something.", "keywords": list("abcde")}
    with pytest.raises(ValidationError):
        ClusterName.model_validate(answer)


def test_keywords_are_unique_regardless_of_case() -> None:
    words = ["Bread", "bread", "oven", "crust ", "flour", "yeast"]
    answer = ClusterName(name="Bread and its ovens", description="Bread.", keywords=words)
    assert answer.keywords == ["bread", "oven", "crust", "flour", "yeast"]
