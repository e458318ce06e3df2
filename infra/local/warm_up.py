"""Loads what the first calls need in the background, while the local gateway already answers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

from infra.build.discovery import tools
from shared.ai.local_embedding import LocalEmbedder
from shared.core import cold_start
from shared.core.caller import Caller
from shared.core.errors import CarrelError
from shared.core.meter import Meter
from shared.index.embedding_space import EmbeddedLanguages, EmbeddingSpace

if TYPE_CHECKING:
    from shared.ai.embedding import Embedder
    from shared.runtime.context import App


def start_warm_up(app: App) -> Thread:
    """Load the English embedding model, if it is used, and import all tools, in a thread.

    A call made meanwhile waits only for what it needs. The process does not exit before the thread
    ends, because unloading a library while it loads crashes. At the end, the garbage collector that
    `cold_start` disabled is enabled again.
    """
    is_local = app.settings.embedding_provider == "local"
    embedder = app.embedder if is_local else None  # created here, so that no call creates another
    thread = Thread(target=_warm_up, args=(embedder,), name="warm-up")
    thread.start()
    return thread


async def load_multilingual_model(app: App) -> None:
    """Load the local model of other languages in a thread, if the base has texts in them.

    The model takes a second to load, and 130 MB, which an English base does not need. Costs one
    round trip.
    """
    if not isinstance(app.embedder, LocalEmbedder):
        return
    with suppress(CarrelError):  # the first search raises it again, for its caller
        space = EmbeddingSpace(app.context(Caller(), Meter()).database)
        if (await space.load_state()).languages is EmbeddedLanguages.SEVERAL:
            await asyncio.to_thread(app.embedder.load_multilingual)


def _warm_up(embedder: Embedder | None) -> None:
    try:
        with suppress(CarrelError):  # the first search raises it again, for its caller
            if isinstance(embedder, LocalEmbedder):
                embedder.load()
        tools()  # imports them
    finally:
        cold_start.end()
