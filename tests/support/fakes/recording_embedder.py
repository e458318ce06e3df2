"""An embedder without a model that records what it embeds, and lets a test act meanwhile."""

from collections.abc import Awaitable, Callable, Sequence

from shared.ai.embedding import Purpose, Vector
from tests.support.fakes.embedder import WordEmbedder


class RecordingEmbedder(WordEmbedder):
    """An embedder that records the texts that it embeds.

    Attributes:
        passages: The embedded passages of materials.
        queries: The embedded questions.
        batches: The number of texts that were embedded with each call.
        meanwhile: Is called before each batch is embedded.
    """

    def __init__(self) -> None:
        """Start without records."""
        super().__init__()
        self.passages: list[str] = []
        self.queries: list[str] = []
        self.batches: list[int] = []
        self.meanwhile: Callable[[Purpose], Awaitable[object]] | None = None

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Record the texts, and embed them."""
        (self.passages if purpose is Purpose.DOCUMENT else self.queries).extend(texts)
        self.batches.append(len(texts))
        if self.meanwhile:
            await self.meanwhile(purpose)
        return await super().embed(texts, purpose)
