"""Names by a language model, for topics that so far are named by their words."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, TypeGuard

from pydantic import AfterValidator, BaseModel, Field

from shared.ai.generation import InvalidAnswer, count_tokens
from shared.core.errors import CarrelError, InvalidInput
from shared.core.log import error_fields, log
from shared.knowledge.cluster_repository import BY_WORDS_ALONE, Clusters
from shared.knowledge.clustering_repository import Clusterings
from shared.runtime.job import Failure

if TYPE_CHECKING:
    from shared.ai.generation import Generator
    from shared.knowledge.cluster import Cluster
    from shared.knowledge.cluster_repository import ClusterWithCentroid
    from shared.runtime.context import Context
    from shared.runtime.job import Budget, Report

AT_ONCE: Final = 4
SHOWN: Final = 8
"""Passages that the model is shown, the most central."""
LENGTH: Final = 700
"""Characters of each."""
FEWEST_WORDS, MOST_WORDS = 3, 6
"""Of a name."""
REFUSALS: Final = (InvalidAnswer, InvalidInput)
"""Of this topic; other errors would hit any."""
INSTRUCTION: Final = (
    "These passages from somebody's notes were found to be about one topic. Name it: what do they"
    " have in common that other notes have not? Write in the language that most of the passages are"
    " written in."
)


def _few_words(name: str) -> str:
    words = name.strip().rstrip(".").split()
    if not FEWEST_WORDS <= len(words) <= MOST_WORDS:
        raise ValueError("a name has three to six words")
    return " ".join(words)


def _distinct(words: list[str]) -> list[str]:
    return list({word.casefold(): word.strip() for word in words if word.strip()}.values())


class ClusterName(BaseModel):
    """What a topic is called."""

    name: Annotated[str, AfterValidator(_few_words)] = Field(
        description="Its name, as a heading: three to six words."
    )
    description: str = Field(
        min_length=1,
        max_length=400,
        description="What it is about: one or two sentences. Do not begin with 'This topic'.",
    )
    keywords: Annotated[list[str], AfterValidator(_distinct)] = Field(
        min_length=3,
        max_length=8,
        description="Five to eight keywords of a word or two, the most telling first.",
    )


async def name_clusters(ctx: Context, budget: Budget, report: Report) -> None:
    """Have topics named that are named by their words, if there is a language model.

    A name is stored as soon as it is made: what a killed run has paid for stays. A topic that the
    model refuses to name keeps the name it has, and the model is not asked again. Where the model
    cannot be reached, the others wait for the next run.
    """
    generator = ctx.generator
    if generator is None:
        return
    names: dict[str, str] = {}
    while topics := await Clusters(ctx.database).unnamed(AT_ONCE):
        if budget.spent:
            report.finished = False
            return
        names = names or await _names(ctx)
        answers = await asyncio.gather(*(_ask(each, generator, ctx) for each in topics))
        for topic, answer in zip(topics, answers, strict=True):
            if isinstance(answer, ClusterName):
                called = _called(topic.cluster, answer, names)
                await Clusters(ctx.database).rename(called, generator.model)
                report.counts["named"] += 1
            elif isinstance(answer, REFUSALS):
                await Clusters(ctx.database).rename(topic.cluster, BY_WORDS_ALONE)
                report.failures.append(Failure.of(topic.cluster.cluster_id, answer))
        if down := next((each for each in answers if _is_down(each)), None):
            report.failures.append(Failure.of("names", down))
            return


async def _names(ctx: Context) -> dict[str, str]:
    """The names of all topics, by their ids."""
    return {
        each.cluster.cluster_id: each.cluster.name.casefold()
        for each in await Clusters(ctx.database).every()
    }


async def _ask(
    topic: ClusterWithCentroid, generator: Generator, ctx: Context
) -> ClusterName | CarrelError:
    """Ask the model for a name, and count what that costs, whatever it answers."""
    texts = await Clusterings(ctx.database).texts(topic.central[:SHOWN])
    passages = [f"{title}\n{content[:LENGTH]}" for title, content in texts.values()]
    told = "\n\n---\n\n".join([f"Words they share: {', '.join(topic.cluster.keywords)}", *passages])
    try:
        return await count_tokens(generator.generate(INSTRUCTION, told, ClusterName), ctx.meter)
    except CarrelError as error:
        log.warning("topic_not_named", **error_fields(error))
        return error


def _called(cluster: Cluster, answer: ClusterName, names: dict[str, str]) -> Cluster:
    """What a topic is called now; where another has that name already, it keeps its own."""
    others = {name for cluster_id, name in names.items() if cluster_id != cluster.cluster_id}
    name = cluster.name if answer.name.casefold() in others else answer.name
    names[cluster.cluster_id] = name.casefold()
    keywords = tuple(answer.keywords)
    return replace(cluster, name=name, description=answer.description, keywords=keywords)


def _is_down(answer: ClusterName | CarrelError) -> TypeGuard[CarrelError]:
    return isinstance(answer, CarrelError) and not isinstance(answer, REFUSALS)
