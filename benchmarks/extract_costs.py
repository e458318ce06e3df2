"""What calls of `extract_key_info` cost, and where the time goes beside embedding.

It is a part of `benchmarks.extract`. Texts of three sizes, made of SciFact's abstracts, are
brought to the tool on the emulator and asked about again. While passages are embedded, those before
them are stored, and on few cores each slows the other. So there are two shares of what is not
embedding: by the receipt, which counts as embedding what was waited for it, and of this process's
processor time against the embedder alone on the same passages, which others on the machine do not
change. An embedder that takes no time shows the rest by itself.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.extract_set import claims, materials_of
from benchmarks.extract_steps import steps
from benchmarks.measuring import print_table, ratio
from functions.tools.workspaces.extract_key_info.tool import TOOL
from functions.tools.workspaces.extract_key_info.upload import parse_passages
from shared.ai.embedding import Purpose, unit_vector
from shared.ai.local_embedding import LocalEmbedder
from shared.core.caller import Caller
from shared.core.settings import Settings
from shared.runtime.context import App
from shared.runtime.invocation import invoke
from shared.workspaces.embedding import BATCH
from shared.workspaces.model import content_id
from tests.support.tool_calls import request_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Embedder, Vector
    from shared.runtime.messages import CallAnswer

SIZES: Final = {"10 kB": 10_000, "100 kB": 100_000, "1 MB": 1_000_000}
ROUNDS: Final = {"10 kB": 9, "100 kB": 3, "1 MB": 1}
STEPPED: Final = ("100 kB", "1 MB")
WARM_UP: Final = 20
"""Calls before the first that counts: the emulator is slow until it has seen some."""
PATIENCE: Final = 1_800.0
"""Seconds that a call may take: nothing is left to the job."""
MORE: Final = "\n\nA paragraph that nobody brought before: the mast was struck by lightning."
FIRST: Final = "first call"


class Counting:
    """An embedder that counts what it is given."""

    def __init__(self, embedder: Embedder) -> None:
        """Pass for another one."""
        self._embedder = embedder
        self.model = embedder.model
        self.dimension = embedder.dimension
        self.batch_size = embedder.batch_size
        self.texts = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Count them, and let the other one embed them."""
        self.texts += len(texts)
        return await self._embedder.embed(texts, purpose)

    async def aclose(self) -> None:
        """Let go of the other one."""
        await self._embedder.aclose()


class Instant:
    """An embedder that takes no time: a text's hash decides on its direction."""

    model = "instant"
    dimension = LocalEmbedder.dimension
    batch_size = BATCH

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:  # noqa: ARG002 - the same for both
        """Embed each text, some 0.05 ms."""
        return [_direction(text) for text in texts]

    async def aclose(self) -> None:
        """Hold nothing."""


@dataclass(slots=True)
class Cost:
    """What calls of one kind cost, one entry for each round.

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
        """Its line of the table."""
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


class Calls:
    """Calls of the tool with an embedder, in a database of its own."""

    def __init__(self, embedder: Embedder) -> None:
        """Open the database."""
        self.embedder = Counting(embedder)
        settings = Settings(google_cloud_project=f"bench-extract-{embedder.model.lower()[:8]}")
        self.app = App(settings, embedder=self.embedder)
        self._questions = claims()
        self._users = 0

    async def of(self, size: str) -> dict[str, Cost]:
        """Bring materials of a size, ask about them again, and do that for some users."""
        costs: dict[str, Cost] = {}
        materials = materials_of(SIZES[size])
        for _ in range(ROUNDS[size]):
            caller = self._somebody()
            first, second, third, fourth = (next(self._questions) for _ in range(4))
            kinds = {
                FIRST: {"query": first, "materials": materials},
                "the same again": {"query": first, "materials": materials},
                "another question": {"query": second, "materials": materials},
                "another, by document": {"query": third, "document": content_id(materials)},
                "one paragraph more": {"query": fourth, "materials": materials + MORE},
            }
            for name, arguments in kinds.items():
                await self._ask(caller, arguments, costs.setdefault(name, Cost()))
            costs[FIRST].alone.append(await self._alone(materials))
        return costs

    async def warm_up(self) -> None:
        """Load the model, open the connection, and let the emulator grow warm."""
        arguments = {"query": next(self._questions), "materials": materials_of(SIZES["10 kB"])}
        for _ in range(WARM_UP):
            await self._ask(self._somebody(), arguments, Cost())

    async def aclose(self) -> None:
        """Close what was opened."""
        await self.app.aclose()
        await self.embedder.aclose()

    def _somebody(self) -> Caller:
        self._users += 1
        return Caller.of(f"user-{self._users}")

    async def _ask(self, caller: Caller, arguments: dict[str, Any], cost: Cost) -> None:
        before = self.embedder.texts
        request = request_of(TOOL, caller, arguments)
        request = request.model_copy(update={"deadline": time.time() + PATIENCE})
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
    for embedder in (Instant(), LocalEmbedder()):
        calls = Calls(embedder)
        await calls.warm_up()
        rows = []
        for size in SIZES:
            costs = await calls.of(size)
            rows += [cost.row(f"{size}, {name}") for name, cost in costs.items()]
        print_table(f"embedder {embedder.model}; goal: at 100 kB below 15 %", columns, rows)
        if isinstance(embedder, Instant):
            await _print_steps(calls.app)
        await calls.aclose()


async def _print_steps(app: App) -> None:
    taken = {size: await steps(materials_of(SIZES[size]), app) for size in STEPPED}
    names = next(iter(taken.values()))
    rows = [[name, *(f"{each[name]:,.1f}" for each in taken.values())] for name in names]
    print_table("the steps by themselves, ms", ("", *taken), rows)


def _direction(text: str) -> Vector:
    chance = random.Random(text)  # noqa: S311 - no secret
    numbers = [chance.random() - 0.5 for _ in range(Instant.dimension)]
    return unit_vector(numbers, Instant.dimension)
