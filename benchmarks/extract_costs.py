"""The costs of calls of `extract_key_info`, and where they spend their time besides embedding.

It is a part of `benchmarks.extract`. Texts of three sizes, made of SciFact's abstracts, are
uploaded to the tool on the emulator and queried again. While passages are embedded, earlier ones
are stored, and on few cores both slow each other. So there are two measures of the time besides
embedding: that of the receipt, which counts waiting for embeddings as embedding; and the processor
time of this process minus that of embedding the same passages alone, which is independent of other
programs. An embedder without cost shows the remainder directly.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.extract_dataset import claims, materials_of
from benchmarks.extract_steps import steps
from benchmarks.measurement import print_table, ratio
from functions.tools.workspaces.extract_key_info.tool import TOOL
from functions.tools.workspaces.extract_key_info.upload import parse_passages
from shared.ai.embedding import Purpose, unit_vector
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.invocation import invoke
from shared.workspaces.embedding import BATCH_SIZE
from shared.workspaces.model import content_id
from tests.support.tool_calls import request_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Embedder, Vector
    from shared.runtime.messages import CallAnswer

SIZES: Final = {"10 kB": 10_000, "100 kB": 100_000, "1 MB": 1_000_000}
ROUNDS: Final = {"10 kB": 9, "100 kB": 3, "1 MB": 1}
STEP_SIZES: Final = ("100 kB", "1 MB")
WARM_UP: Final = 20
"""Calls before the measurement, because the emulator is slow at first."""
MAX_CALL_SECONDS: Final = 1_800.0
"""The deadline of a call in seconds, long enough that nothing is left to the job."""
EXTRA_PARAGRAPH: Final = (
    "\n\nA paragraph that nobody brought before: the mast was struck by lightning."
)
FIRST_CALL: Final = "first call"


class CountingEmbedder:
    """An embedder that counts texts."""

    def __init__(self, embedder: Embedder) -> None:
        """Use another embedder."""
        self._embedder = embedder
        self.model = embedder.model
        self.dimension = embedder.dimension
        self.batch_size = embedder.batch_size
        self.texts = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Count the texts and embed them."""
        self.texts += len(texts)
        return await self._embedder.embed(texts, purpose)

    async def aclose(self) -> None:
        """Close the other embedder."""
        await self._embedder.aclose()


class InstantEmbedder:
    """An embedder without cost: vectors follow from a text's hash."""

    model = "instant"
    dimension = LocalEmbedder.dimension
    batch_size = BATCH_SIZE

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:  # noqa: ARG002 - the same for both
        """Embed each text in some 0.05 ms."""
        return [_direction(text) for text in texts]

    async def aclose(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class CallCosts:
    """The costs of calls of one kind, with one entry for each round.

    Attributes:
        answers: Their answers, with the receipts.
        embedded: How many texts were embedded.
        processor: Seconds of this process's processor time.
        alone: Of first calls, the same for embedding their passages and nothing else.
    """

    answers: list[CallAnswer] = field(default_factory=list)
    embedded: list[int] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)

    def row(self, name: str) -> list[str]:
        """Return the row of the table."""
        receipts = [answer.receipt for answer in self.answers]
        total = median(receipt.milliseconds for receipt in receipts)
        embedding = median(receipt.embedding_ms or 0.0 for receipt in receipts)
        return [
            name,
            f"{total:,.0f}",
            f"{embedding:,.0f}",
            f"{total - embedding:,.0f}",
            f"{1 - embedding / total:.1%}",
            f"{1 - ratio(self.alone, self.processor):.1%}" if self.alone else "",
            f"{median(self.embedded):.0f}",
            f"{median(receipt.documents_read for receipt in receipts):.0f}",
            f"{median(receipt.documents_written for receipt in receipts):.0f}",
            f"{median(receipt.round_trips for receipt in receipts):.0f}",
        ]


class ToolCalls:
    """Calls of the tool with an embedder, in a separate database."""

    def __init__(self, embedder: Embedder) -> None:
        """Use an empty database."""
        self.embedder = CountingEmbedder(embedder)
        settings = Settings(google_cloud_project=f"bench-extract-{embedder.model.lower()[:8]}")
        self.app = App(settings, embedder=self.embedder)
        self._questions = claims()
        self._users = 0

    async def of(self, size: str) -> dict[str, CallCosts]:
        """Upload materials of a size and query them again, as several users."""
        costs: dict[str, CallCosts] = {}
        materials = materials_of(SIZES[size])
        for _ in range(ROUNDS[size]):
            caller = self._somebody()
            first, second, third, fourth = (next(self._questions) for _ in range(4))
            kinds = {
                FIRST_CALL: {"query": first, "materials": materials},
                "the same again": {"query": first, "materials": materials},
                "another question": {"query": second, "materials": materials},
                "another, by document": {"query": third, "document": content_id(materials)},
                "one paragraph more": {"query": fourth, "materials": materials + EXTRA_PARAGRAPH},
            }
            for name, arguments in kinds.items():
                await self._ask(caller, arguments, costs.setdefault(name, CallCosts()))
            costs[FIRST_CALL].alone.append(await self._alone(materials))
        return costs

    async def warm_up(self) -> None:
        """Load the model, open the connection, and warm up the emulator."""
        arguments = {"query": next(self._questions), "materials": materials_of(SIZES["10 kB"])}
        for _ in range(WARM_UP):
            await self._ask(self._somebody(), arguments, CallCosts())

    async def aclose(self) -> None:
        """Close the app and the embedder."""
        await self.app.aclose()
        await self.embedder.aclose()

    def _somebody(self) -> Caller:
        self._users += 1
        return Caller.of(f"user-{self._users}")

    async def _ask(self, caller: Caller, arguments: dict[str, Any], cost: CallCosts) -> None:
        before = self.embedder.texts
        request = request_of(TOOL, caller, arguments)
        request = request.model_copy(update={"deadline": time.time() + MAX_CALL_SECONDS})
        began = time.process_time()
        answer = await invoke(TOOL, request, self.app)
        cost.processor.append(time.process_time() - began)
        assert answer.result, answer.error
        assert "ready" == answer.result["status"]
        cost.answers.append(answer)
        cost.embedded.append(self.embedder.texts - before)

    async def _alone(self, materials: str) -> float:
        cuts = parse_passages(materials, self.app.settings.extract_passage_characters)
        texts = list({cut.passage_id: cut.cleaned for cut in cuts}.values())
        began = time.process_time()
        await self.embedder.embed(texts, Purpose.DOCUMENT)
        return time.process_time() - began


async def measure() -> None:
    """Measure with both embedders, and print the tables."""
    columns = (
        *("", "ms", "embedding", "the rest", "its share", "of processor time"),
        *("texts embedded", "read", "written", "round trips"),
    )
    for embedder in (InstantEmbedder(), LocalEmbedder()):
        calls = ToolCalls(embedder)
        await calls.warm_up()
        rows = []
        for size in SIZES:
            costs = await calls.of(size)
            rows += [cost.row(f"{size}, {name}") for name, cost in costs.items()]
        print_table(f"embedder {embedder.model}; goal: at 100 kB below 15 %", columns, rows)
        if isinstance(embedder, InstantEmbedder):
            await _print_steps(calls.app)
        await calls.aclose()


async def _print_steps(app: App) -> None:
    by_size = {size: await steps(materials_of(SIZES[size]), app) for size in STEP_SIZES}
    names = next(iter(by_size.values()))
    rows = [
        [name, *(f"{milliseconds[name]:,.1f}" for milliseconds in by_size.values())]
        for name in names
    ]
    print_table("the steps by themselves, ms", ("", *by_size), rows)


def _direction(text: str) -> Vector:
    chance = random.Random(text)  # noqa: S311 - no secret
    numbers = [chance.random() - 0.5 for _ in range(InstantEmbedder.dimension)]
    return unit_vector(numbers, InstantEmbedder.dimension)
