"""A knowledge base with a map: passages about a few themes, and clusters of them."""

import time

from functions.jobs.cluster.job import cluster
from shared.ai.embedding import Embedder
from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.knowledge.source import Section, Source
from shared.runtime.context import App
from shared.runtime.job import Budget
from tests.support.hostile_sources import PAYLOADS
from tests.support.knowledge import index_all
from tests.support.themed_passages import THEMES, add_sources, make_themed_source

HOSTILE = Source(
    source_id="hostile",
    title=PAYLOADS[1],
    sections=(Section(text=f"{PAYLOADS[0]} {PAYLOADS[3]} sail anchor mainsail harbour rudder."),),
)


async def fill_with_map(project: str, embedder: Embedder) -> None:
    """Store and index the passages, and run the job that clusters them."""
    app = App(Settings(google_cloud_project=project), embedder=embedder)
    try:
        ctx = app.context(Caller(), Meter())
        await add_sources(ctx, HOSTILE, *(make_themed_source(theme) for theme in THEMES))
        await cluster(ctx, Budget(time.monotonic() + 3600))
        await index_all(ctx)
    finally:
        await app.aclose()
