"""Topics that people named stay what they are, whatever comes in beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.firestore_v1.vector import Vector

from functions.jobs.cluster.job import cluster
from functions.jobs.ingest.readers.reading import read
from infra.local.places import SAMPLE
from infra.local.sample.load import add_knowledge
from shared.knowledge.cluster_repository import BY_HAND, Clusters
from shared.knowledge.source import Source
from tests.support.stored_documents import ample, chunks, documents
from tests.support.topic_chunks import (
    SIZE,
    THEMES,
    about,
    hasty,
    loners,
    put_in,
    sizes,
    take_out,
    topics,
    waiting,
)

if TYPE_CHECKING:
    from shared.runtime.context import Deps
    from shared.runtime.job import Report

pytestmark = pytest.mark.anyio

SAID = ("name", "description", "keywords", "named_by", "created_at", "centroid", "reach")
"""What a run leaves as it is of a topic that somebody named."""


async def run(deps: Deps) -> Report:
    return await cluster(deps, ample())


async def sample(deps: Deps) -> None:
    """The sample, with its nine topics."""
    await put_in(deps, *(each for each in read(SAMPLE) if isinstance(each, Source)))
    await add_knowledge(deps)
    await run(deps)


async def bread_at_home(deps: Deps) -> str:
    """Topics of four things, one of which somebody named; its id."""
    await put_in(deps, *(about(theme) for theme in ("bread", "boats", "bees", "chess")))
    await run(deps)
    [cluster_id] = [name for name, found in (await topics(deps)).items() if "bread" in found]
    found = await Clusters(deps.database).get(cluster_id)
    assert found
    await Clusters(deps.database).rename(replace(found.cluster, name="Bread at home"), BY_HAND)
    return cluster_id


async def said(deps: Deps) -> dict[str, dict[str, Any]]:
    """What there is to stay of topics that somebody named."""
    return {
        name: {field: data[field] for field in SAID}
        for name, data in (await documents(deps, "clusters")).items()
        if data["named_by"] == BY_HAND
    }


async def members(deps: Deps) -> dict[str, list[str]]:
    """The topics of each passage that has any, in order."""
    found = await chunks(deps)
    return {name: data["cluster_id"] for name, data in found.items() if data.get("cluster_id")}


async def test_topics_of_the_sample_stay_until_enough_has_changed(deps: Deps) -> None:
    await put_in(deps, *(each for each in read(SAMPLE) if isinstance(each, Source)))
    await add_knowledge(deps)
    before = {each.cluster.cluster_id for each in await Clusters(deps.database).every()}
    report = await run(deps)
    assert (0, 0) == (report.counts["topics"], await waiting(deps))
    assert before == (await documents(deps, "clusters")).keys()


async def test_a_dozen_notes_get_a_topic_beside_those_of_the_sample(
    deps: Deps,
) -> None:
    await sample(deps)
    before, kept = await said(deps), await members(deps)
    await put_in(deps, about("bees", range(12)))
    report = await run(deps)
    new = {name for name, found in (await topics(deps)).items() if "bees" in found}
    assert (9, 1, True) == (len(before), len(new), report.counts["topics"] >= 10)
    assert before == await said(deps)
    after = await members(deps)
    assert kept == {name: after[name] for name in kept}
    assert not new & before.keys()
    told, counted = await sizes(deps)
    assert (counted, 0) == (told, await waiting(deps))


async def test_what_is_made_of_them_again_is_the_same(deps: Deps) -> None:
    await sample(deps)
    await put_in(deps, about("bees", range(12)))
    await run(deps)
    before = await members(deps)
    await deps.database.document("meta", "clustering").update({"changed": 20})
    report = await run(deps)
    assert (True, 0) == (report.counts["topics"] >= 10, report.counts["placed"])
    assert before == await members(deps)


async def test_many_passages_about_a_named_topic_join_it(
    deps: Deps,
) -> None:
    cluster_id = await bread_at_home(deps)
    before = await said(deps)
    await put_in(deps, about("bread", range(3 * SIZE)))
    assert 4 == (await run(deps)).counts["topics"]
    of_bread = [name for name, found in (await topics(deps)).items() if "bread" in found]
    assert ([cluster_id], before) == (of_bread, await said(deps))
    assert (await sizes(deps))[0][cluster_id] > 2 * SIZE


@pytest.mark.parametrize("budget", [ample, hasty])
async def test_a_member_stays_though_it_is_embedded_anew(deps: Deps, budget: Any) -> None:
    cluster_id = await bread_at_home(deps)
    kept = {name for name, found in (await members(deps)).items() if found == [cluster_id]}
    bees = {
        tuple(d["embedding"]) for d in (await chunks(deps)).values() if "bees" in d["source_id"]
    }
    for name, vector in zip(sorted(kept)[:12], sorted(bees), strict=False):
        change = {"embedding": Vector(vector), "pending.cluster": deps.clock()}
        await deps.database.document("chunks", name).update(change)
    await cluster(deps, budget())
    after = await members(deps)
    assert kept == {name for name, found in after.items() if found == [cluster_id]}
    assert 0 == await waiting(deps)


async def test_it_goes_once_its_passages_are_gone(deps: Deps) -> None:
    cluster_id = await bread_at_home(deps)
    await take_out(deps, about("bread"))
    await put_in(deps, about("clouds"))
    await run(deps)
    assert cluster_id not in await documents(deps, "clusters")


async def test_of_few_passages_beside_it_the_near_ones_join(deps: Deps) -> None:
    cluster_id = await bread_at_home(deps)
    for theme in ("boats", "bees", "chess"):
        await take_out(deps, about(theme))
    await put_in(deps, about("bread", range(SIZE + 2)), loners(2))
    await run(deps)
    told, counted = await sizes(deps)
    assert ([cluster_id], counted) == (list(told), told)
    assert counted[cluster_id] > SIZE


async def test_after_a_move_it_stays_and_is_compared_by_new_vectors(
    deps: Deps,
) -> None:
    cluster_id = await bread_at_home(deps)
    before, kept = (await said(deps))[cluster_id], await topics(deps)
    await deps.database.document("meta", "embedding").update({"model": "turned"})
    for name, data in (await chunks(deps)).items():
        turned = Vector(tuple(-number for number in data["embedding"]))
        change = {"embedding": turned, "embedding_model": "turned", "pending.cluster": deps.clock()}
        await deps.database.document("chunks", name).update(change)
    await run(deps)
    after = (await said(deps))[cluster_id]
    assert kept[cluster_id] == (await topics(deps))[cluster_id]
    assert {**before, "centroid": 0, "reach": 0} == {**after, "centroid": 0, "reach": 0}
    similarity = sum(x * y for x, y in zip(before["centroid"], after["centroid"], strict=True))
    assert similarity < -0.9
    assert set(THEMES) - {"clouds"} == {theme for found in kept.values() for theme in found}
