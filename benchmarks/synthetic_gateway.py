"""The local gateway on the base of `benchmarks.growth`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.synthetic import SyntheticEmbedder, SyntheticTexts
from functions.gateway.app import make_gateway
from functions.gateway.catalog import Catalog
from infra.local.inline import InlineDispatcher
from infra.local.local_database import use_local_database
from shared.ai.local_embedding import LocalEmbedder
from shared.core.settings import Settings
from shared.runtime.context import App

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Purpose, Vector


class PaidEmbedder(SyntheticEmbedder):
    """The synthetic embedder, with the time and the memory of the local model."""

    _local = LocalEmbedder()

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the texts with the local model, and return their synthetic vectors."""
        await self._local.embed(texts, purpose)
        return await super().embed(texts, purpose)


use_local_database()
_settings = Settings()
_app = App(_settings, embedder=PaidEmbedder(SyntheticTexts()))
handle = make_gateway(_settings, InlineDispatcher(_app), Catalog.load().apply_settings(_settings))
