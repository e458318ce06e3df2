"""What the jobs are measured with: abstracts, vectors that cost nothing, and a language model.

SciFact lies beside the clone; it is no part of the project (see `benchmarks.base`).
"""

from __future__ import annotations

import json
import zlib
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from infra.build.discovery import ROOT
from shared.ai.embedding import unit_vector
from tests.support.fakes.vertex import FakeVertex, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shared.ai.embedding import Purpose, Vector
    from tests.support.fakes.readwise import FakeReadwise
    from tests.support.fakes.vertex import Call

SCIFACT: Final = ROOT.parent / "shared" / "data" / "scifact" / "corpus.jsonl"
THINKING: Final = 0.02
"""Seconds that the language model takes."""
ONE_IN: Final = 5
"""Passages among which there is one to find something in."""
CHARACTERS: Final = 1_000
"""Of an abstract: so much is one passage, and the whole takes less than ten minutes."""
BOOK: Final = 20
"""Highlights of a book in the Readwise library."""
DIMENSION: Final = 384


class HashedWords:
    """An embedder that costs next to nothing: how often words of a text fall on each axis."""

    dimension = DIMENSION
    batch_size = 100

    def __init__(self, model: str) -> None:
        """Pass for a model of this name."""
        self.model = model

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[Vector]:  # noqa: ARG002 - the same for both
        """Embed each text."""
        return [unit_vector(_counts(text), DIMENSION) for text in texts]

    async def aclose(self) -> None:
        """Hold nothing."""


def _counts(text: str) -> list[int]:
    counts = [1] * DIMENSION
    for word in text.casefold().split():
        counts[zlib.crc32(word.encode()) % DIMENSION] += 9
    return counts


class Forgetful(FakeVertex):
    """A language model that takes its time, and remembers no request."""

    def __init__(self) -> None:
        """Answer what jobs ask."""
        super().__init__(usual=Reply(pause=THINKING))
        self.answers |= {"GeneratedCard": _card, "Findings": _findings, "ClusterName": _topic_name}

    def arrive(self, call: Call) -> Reply:
        """Choose a reply."""
        reply = super().arrive(call)
        self.calls.clear()
        return reply


def _card(text: str) -> dict[str, Any]:
    title, _, passage = text.partition("\n\n")
    words = passage.split()
    takeaways = [f"From {start}: {' '.join(words[start : start + 12])}" for start in (0, 12, 24)]
    return {"summary": f"On {title}"[:400], "takeaways": [line[:300] for line in takeaways]}


def _findings(text: str) -> dict[str, Any]:
    passage = text.partition("\n\n")[2]
    if zlib.crc32(text.encode()) % ONE_IN:
        return {}
    content = {"title": passage[:60], "description": passage[:600]}
    topics = [word for word in passage.split() if len(word) > len("research")][:2] or ["research"]
    told = {"quote": passage[:200], "content": content, "topics": topics, "confidence": 0.9}
    return {"warnings": [told]}


def _topic_name(text: str) -> dict[str, Any]:
    keywords = text.partition("\n")[0].partition(": ")[2].split(", ")
    name = " ".join(["About", *" ".join(keywords).split()][:4])
    return {"name": name, "description": f"About {keywords[0]}.", "keywords": keywords[:8]}


def abstracts(number: int) -> Iterator[dict[str, Any]]:
    """So many abstracts, each with a title and a text that becomes one passage."""
    with SCIFACT.open(encoding="utf-8") as lines:
        for line in islice(lines, number):
            row = json.loads(line)
            yield {"id": row["_id"], "title": row["title"], "text": row["text"][:CHARACTERS]}


def shelve(library: FakeReadwise, number: int) -> None:
    """Fill a library with so many highlights."""
    for place, row in enumerate(abstracts(number)):
        book, nth = divmod(place, BOOK)
        if nth == 0:
            library.put(book + 1)
        library.highlight(book + 1, nth, row["text"])
    library.advance(days=1)
