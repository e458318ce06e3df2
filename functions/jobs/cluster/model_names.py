"""Names clusters with a language model. Until then, clusters are named by their words."""

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

CONCURRENCY: Final = 4
"""The number of clusters that are named at the same time."""
MAX_PASSAGES: Final = 8
"""The model receives at most this many chunks of a cluster, the most central ones."""
MAX_PASSAGE_LENGTH: Final = 700
"""The maximum number of characters of a passage that the model receives. Longer ones are cut."""
MIN_NAME_WORDS, MAX_NAME_WORDS = 3, 6
SINGLE_CLUSTER_ERRORS: Final = (InvalidAnswer, InvalidInput)
"""Errors that concern a single cluster. Any other error would occur with every cluster."""
INSTRUCTION: Final = (
    "These passages from somebody's notes were found to be about one topic. Name it: what do they"
    " have in common that other notes have not? Write in the language that most of the passages are"
    " written in."
)


def _check_length(name: str) -> str:
    words = name.strip().rstrip(".").split()
    if not MIN_NAME_WORDS <= len(words) <= MAX_NAME_WORDS:
        raise ValueError("a name has three to six words")
    return " ".join(words)


def _drop_repeats(words: list[str]) -> list[str]:
    return list({word.casefold(): word.strip() for word in words if word.strip()}.values())


class ClusterName(BaseModel):
    """The answer of the model: the name of a cluster, a description and keywords."""

    name: Annotated[str, AfterValidator(_check_length)] = Field(
        description="Its name, as a heading: three to six words."
    )
    description: str = Field(
        min_length=1,
        max_length=400,
        description="What it is about: one or two sentences. Do not begin with 'This topic'.",
    )
    keywords: Annotated[list[str], AfterValidator(_drop_repeats)] = Field(
        min_length=3,
        max_length=8,
        description="Five to eight keywords of a word or two, the most telling first.",
    )


async def name_clusters(ctx: Context, budget: Budget, report: Report) -> None:
    """Have the language model name the clusters that are named by their words.

    Names are stored as they arrive, so a killed run loses at most CONCURRENCY names. A cluster that
    the model rejects keeps its name, and is not sent again. If the model cannot be reached, the
    remaining clusters wait for the next run.
    """
    generator = ctx.generator
    if generator is None:
        return
    names: dict[str, str] = {}
    while clusters := await Clusters(ctx.database).list_named_by_words(CONCURRENCY):
        if budget.spent:
            report.finished = False
            return
        names = names or {
            entry.cluster.cluster_id: entry.cluster.name.casefold()
            for entry in await Clusters(ctx.database).load_all()
        }
        answers = await asyncio.gather(
            *(_generate_name(cluster, generator, ctx) for cluster in clusters)
        )
        for entry, answer in zip(clusters, answers, strict=True):
            if isinstance(answer, ClusterName):
                renamed_cluster = _rename(entry.cluster, answer, names)
                if not report.counts["named"]:  # The map gets the names when sizes are counted.
                    await Clusterings(ctx.database).mark_uncounted()
                await Clusters(ctx.database).rename(renamed_cluster, generator.model)
                report.counts["named"] += 1
            elif isinstance(answer, SINGLE_CLUSTER_ERRORS):
                await Clusters(ctx.database).rename(entry.cluster, BY_WORDS_ALONE)
                report.failures.append(Failure.of(entry.cluster.cluster_id, answer))
        if outage := next((answer for answer in answers if _is_outage(answer)), None):
            report.failures.append(Failure.of("names", outage))
            return


async def _generate_name(
    entry: ClusterWithCentroid, generator: Generator, ctx: Context
) -> ClusterName | CarrelError:
    """Have the model name a cluster, and count the tokens even if it fails."""
    texts = await Clusterings(ctx.database).load_texts(entry.central_chunk_ids[:MAX_PASSAGES])
    passages = [f"{text.title}\n{text.content[:MAX_PASSAGE_LENGTH]}" for text in texts.values()]
    keywords = f"Words they share: {', '.join(entry.cluster.keywords)}"
    prompt = "\n\n---\n\n".join([keywords, *passages])
    try:
        return await count_tokens(generator.generate(INSTRUCTION, prompt, ClusterName), ctx.meter)
    except CarrelError as error:
        log.warning("topic_not_named", **error_fields(error))
        return error


def _rename(cluster: Cluster, answer: ClusterName, names: dict[str, str]) -> Cluster:
    """Return the renamed cluster. It keeps its name if another cluster has the new one."""
    other_names = {name for cluster_id, name in names.items() if cluster_id != cluster.cluster_id}
    name = cluster.name if answer.name.casefold() in other_names else answer.name
    names[cluster.cluster_id] = name.casefold()
    keywords = tuple(answer.keywords)
    return replace(cluster, name=name, description=answer.description, keywords=keywords)


def _is_outage(answer: ClusterName | CarrelError) -> TypeGuard[CarrelError]:
    return isinstance(answer, CarrelError) and not isinstance(answer, SINGLE_CLUSTER_ERRORS)
