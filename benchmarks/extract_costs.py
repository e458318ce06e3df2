"""The costs of calls of `extract_key_info`, and where they spend their time besides embedding.

This is a part of `benchmarks.extract`. Texts of three sizes, made of SciFact's abstracts, are
uploaded to the tool on the emulator and queried again. The tool stores passages while it embeds the
next ones, and on few cores the two slow each other down. The time besides embedding is therefore
measured in three ways:

- by the receipt, which counts all waiting for embeddings as embedding;
- by the CPU time of this process, minus the CPU time of embedding the same passages: other programs
  do not affect it;
- with an embedder that costs almost nothing.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from benchmarks.extract_dataset import iterate_claims, make_materials
from benchmarks.extract_steps import time_steps
from benchmarks.measurement import compute_ratio, print_table
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
from tests.support.tool_calls import make_call_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.ai.embedding import Embedder, Vector
    from shared.runtime.messages import CallAnswer

SIZES: Final = {"10 kB": 10_000, "100 kB": 100_000, "1 MB": 1_000_000}
ROUNDS: Final = {"10 kB": 9, "100 kB": 3, "1 MB": 1}
STEP_SIZES: Final = ("100 kB", "1 MB")
WARM_UP: Final = 20
"""The number of calls before the measurement, because the emulator is slow at first."""
MAX_CALL_SECONDS: Final = 1_800.0
"""The deadline of a call: long enough for the tool to embed everything itself."""
EXTRA_PARAGRAPH: Final = "\n\nA paragraph that is in no abstract: the mast was struck by lightning."
FIRST_CALL: Final = "first call"


class CountingEmbedder:
    """An embedder that counts the texts it embeds."""

    def __init__(self, embedder: Embedder) -> None:
        """Count the texts that `embedder` embeds."""
        self._embedder = embedder
        self.model = embedder.model
        self.dimension = embedder.dimension
        self.batch_size = embedder.batch_size
        self.texts = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:
        """Embed the texts, and add their number."""
        self.texts += len(texts)
        return await self._embedder.embed(texts, purpose)

    async def aclose(self) -> None:
        """Close the wrapped embedder."""
        await self._embedder.aclose()


class InstantEmbedder:
    """An embedder that costs almost nothing: it draws vectors at random, seeded with the text."""

    model = "instant"
    dimension = LocalEmbedder.dimension
    batch_size = BATCH_SIZE

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:  # noqa: ARG002 - Embedder's signature
        """Draw the vectors, in about 0.05 ms each."""
        return [_make_random_vector(text) for text in texts]

    async def aclose(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class CallCosts:
    """The costs of calls of one kind. Each list has one entry per round.

    Attributes:
        answers: The answers, with their receipts.
        embedded: The numbers of texts that the calls embedded.
        cpu_seconds: The CPU times of this process.
        embedding_cpu_seconds: For first calls, the CPU times of embedding only their passages.
    """

    answers: list[CallAnswer] = field(default_factory=list)
    embedded: list[int] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    embedding_cpu_seconds: list[float] = field(default_factory=list)

    def make_row(self, name: str) -> list[str]:
        """Return the table's row for these calls, with the medians of their costs."""
        receipts = [answer.receipt for answer in self.answers]
        total = median(receipt.milliseconds for receipt in receipts)
        embedding = median(receipt.embedding_ms or 0.0 for receipt in receipts)
        return [
            name,
            f"{total:,.0f}",
            f"{embedding:,.0f}",
            f"{total - embedding:,.0f}",
            f"{1 - embedding / total:.1%}",
            f"{1 - compute_ratio(self.embedding_cpu_seconds, self.cpu_seconds):.1%}"
            if self.embedding_cpu_seconds
            else "",
            f"{median(self.embedded):.0f}",
            f"{median(receipt.documents_read for receipt in receipts):.0f}",
            f"{median(receipt.documents_written for receipt in receipts):.0f}",
            f"{median(receipt.round_trips for receipt in receipts):.0f}",
        ]


class ToolCalls:
    """Calls of the tool with an embedder, in a separate database."""

    def __init__(self, embedder: Embedder) -> None:
        """Connect to a database that only this embedder uses."""
        self.embedder = CountingEmbedder(embedder)
        settings = Settings(google_cloud_project=f"bench-extract-{embedder.model.lower()[:8]}")
        self.app = App(settings, embedder=self.embedder)
        self._questions = iterate_claims()
        self._users = 0

    async def measure(self, size: str) -> dict[str, CallCosts]:
        """Upload materials of a size and query them again, in each round as a new user."""
        costs: dict[str, CallCosts] = {}
        materials = make_materials(SIZES[size])
        for _ in range(ROUNDS[size]):
            caller = self._make_caller()
            questions = [next(self._questions) for _ in range(4)]
            longer_materials = materials + EXTRA_PARAGRAPH
            arguments_by_kind = {
                FIRST_CALL: {"query": questions[0], "materials": materials},
                "the same again": {"query": questions[0], "materials": materials},
                "another question": {"query": questions[1], "materials": materials},
                "another, by document": {"query": questions[2], "document": content_id(materials)},
                "one paragraph more": {"query": questions[3], "materials": longer_materials},
            }
            for name, arguments in arguments_by_kind.items():
                await self._call(caller, arguments, costs.setdefault(name, CallCosts()))
            costs[FIRST_CALL].embedding_cpu_seconds.append(
                await self._measure_embedding_cpu(materials)
            )
        return costs

    async def warm_up(self) -> None:
        """Load the model, open the connection, and warm up the emulator."""
        arguments = {"query": next(self._questions), "materials": make_materials(SIZES["10 kB"])}
        for _ in range(WARM_UP):
            await self._call(self._make_caller(), arguments, CallCosts())

    async def aclose(self) -> None:
        """Close the app and the embedder."""
        await self.app.aclose()
        await self.embedder.aclose()

    def _make_caller(self) -> Caller:
        self._users += 1
        return Caller.of(f"user-{self._users}")

    async def _call(self, caller: Caller, arguments: dict[str, Any], costs: CallCosts) -> None:
        """Call the tool, and add what the call cost to `costs`."""
        texts_before = self.embedder.texts
        request = make_call_request(TOOL, caller, arguments)
        request = request.model_copy(update={"deadline": time.time() + MAX_CALL_SECONDS})
        started = time.process_time()
        answer = await invoke(TOOL, request, self.app)
        costs.cpu_seconds.append(time.process_time() - started)
        assert answer.result, answer.error
        assert answer.result["status"] == "ready"
        costs.answers.append(answer)
        costs.embedded.append(self.embedder.texts - texts_before)

    async def _measure_embedding_cpu(self, materials: str) -> float:
        passages = parse_passages(materials, self.app.settings.extract_passage_characters)
        texts = list({passage.passage_id: passage.cleaned for passage in passages}.values())
        started = time.process_time()
        await self.embedder.embed(texts, Purpose.DOCUMENT)
        return time.process_time() - started


async def measure() -> None:
    """Measure with both embedders, and print the tables."""
    columns = (
        *("", "ms", "embedding", "other", "share of other", "in CPU time"),
        *("texts embedded", "read", "written", "round trips"),
    )
    for embedder in (InstantEmbedder(), LocalEmbedder()):
        calls = ToolCalls(embedder)
        await calls.warm_up()
        rows = []
        for size in SIZES:
            costs = await calls.measure(size)
            rows += [cost.make_row(f"{size}, {name}") for name, cost in costs.items()]
        print_table(f"embedder {embedder.model}; target: below 15 % at 100 kB", columns, rows)
        if isinstance(embedder, InstantEmbedder):
            await _print_steps(calls.app)
        await calls.aclose()


async def _print_steps(app: App) -> None:
    durations_by_size = {
        size: await time_steps(make_materials(SIZES[size]), app) for size in STEP_SIZES
    }
    steps = next(iter(durations_by_size.values()))
    rows = [
        [step, *(f"{milliseconds[step]:,.1f}" for milliseconds in durations_by_size.values())]
        for step in steps
    ]
    print_table("each step alone, ms", ("", *durations_by_size), rows)


def _make_random_vector(text: str) -> Vector:
    generator = random.Random(text)  # noqa: S311 - no secret
    numbers = [generator.random() - 0.5 for _ in range(InstantEmbedder.dimension)]
    return unit_vector(numbers, InstantEmbedder.dimension)
