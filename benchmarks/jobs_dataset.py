"""Data for the benchmark of jobs: abstracts, a cheap embedder, and a fake language model.

SciFact is not part of the project: see `benchmarks.scifact`.
"""

from __future__ import annotations

import json
import zlib
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from benchmarks.scifact import ABSTRACTS
from shared.ai.embedding import unit_vector
from tests.support.fakes.vertex import FakeVertex, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.ai.embedding import Purpose, Vector
    from tests.support.fakes.readwise import FakeReadwise
    from tests.support.fakes.vertex import Call

MODEL_LATENCY_SECONDS: Final = 0.02
PASSAGES_PER_EXTRACTION: Final = 5
ABSTRACT_CHARACTERS: Final = 1_000
"""The length at which abstracts are cut, so that each is one passage."""
HIGHLIGHTS_PER_BOOK: Final = 20

DIMENSION: Final = 384


class HashingEmbedder:
    """An embedder that costs almost nothing: vectors are counts of hashed words."""

    dimension = DIMENSION
    batch_size = 100

    def __init__(self, model: str) -> None:
        """Report this model name."""
        self.model = model

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:  # noqa: ARG002 - Embedder's signature
        """Count the hashed words of each text."""
        return [unit_vector(_count_words(text), DIMENSION) for text in texts]

    async def aclose(self) -> None:
        """Do nothing."""


def _count_words(text: str) -> list[int]:
    counts = [1] * DIMENSION
    for word in text.casefold().split():
        counts[zlib.crc32(word.encode()) % DIMENSION] += 9
    return counts


class StatelessModelServer(FakeVertex):
    """A fake language model that has latency and keeps no requests in memory."""

    def __init__(self) -> None:
        """Reply to the jobs' prompts."""
        super().__init__(usual=Reply(pause=MODEL_LATENCY_SECONDS))
        self.answers |= {
            "GeneratedCard": _make_card,
            "Findings": _make_extractions,
            "ClusterName": _make_cluster_name,
        }

    def arrive(self, call: Call) -> Reply:
        """Return the reply to a request, and forget the request."""
        reply = super().arrive(call)
        self.calls.clear()
        return reply


def _make_card(text: str) -> dict[str, Any]:
    title, _, passage = text.partition("\n\n")
    words = passage.split()
    takeaways = [f"From {start}: {' '.join(words[start : start + 12])}" for start in (0, 12, 24)]
    return {"summary": f"On {title}"[:400], "takeaways": [line[:300] for line in takeaways]}


def _make_extractions(text: str) -> dict[str, Any]:
    passage = text.partition("\n\n")[2]
    if zlib.crc32(text.encode()) % PASSAGES_PER_EXTRACTION:
        return {}
    content = {"title": passage[:60], "description": passage[:600]}
    topics = [word for word in passage.split() if len(word) > len("research")][:2] or ["research"]
    extraction = {"quote": passage[:200], "content": content, "topics": topics, "confidence": 0.9}
    return {"warnings": [extraction]}


def _make_cluster_name(text: str) -> dict[str, Any]:
    keywords = text.partition("\n")[0].partition(": ")[2].split(", ")
    name = " ".join(["About", *" ".join(keywords).split()][:4])
    return {"name": name, "description": f"About {keywords[0]}.", "keywords": keywords[:8]}


def read_abstracts(number: int) -> Iterator[dict[str, Any]]:
    """Yield this many abstracts with titles, each short enough for one passage."""
    with ABSTRACTS.open(encoding="utf-8") as lines:
        for line in islice(lines, number):
            row = json.loads(line)
            yield {
                "id": row["_id"],
                "title": row["title"],
                "text": row["text"][:ABSTRACT_CHARACTERS],
            }


def fill_library(readwise: FakeReadwise, number: int) -> None:
    """Fill a Readwise library with this many abstracts, as highlights of books."""
    for index, row in enumerate(read_abstracts(number)):
        book, position = divmod(index, HIGHLIGHTS_PER_BOOK)
        if position == 0:
            readwise.put_book(book + 1)
        readwise.put_highlight(book + 1, position, row["text"])
    readwise.advance(days=1)
