"""From materials to passages: where each stands, its cleaned text and its words."""

from __future__ import annotations

from collections import Counter
from typing import Final

from functions.tools.workspaces.extract_key_info.invalid import invalid
from shared.text.passages import cleaned, split_passages
from shared.text.terms import terms
from shared.workspaces.model import Cut, id_of

MOST_PASSAGES: Final = 10_000
"""Different passages in one text; each is embedded and stored."""
MOST_PLACES: Final = 100_000
"""Passages in one text, repeats included."""


def cut(materials: str, most: int) -> list[Cut]:
    """Cut materials into passages of at most so many characters; each where it first stands.

    It takes about 0.1 s for each 100,000 characters.

    Raises:
        InvalidInput: There is no text in them, or more than anybody reads.
    """
    cuts: dict[str, Cut] = {}
    spans = split_passages(materials, most)
    _require_few(len(spans), MOST_PLACES)
    for position, span in enumerate(spans, 1):
        text = materials[span.start : span.end]
        clean = cleaned(text)
        passage_id = id_of(clean)
        if clean and passage_id not in cuts:
            counts = Counter(terms(clean))
            cuts[passage_id] = Cut(passage_id, position, span.start, span.end, text, clean, counts)
            _require_few(len(cuts), MOST_PASSAGES)
    if not cuts:
        raise invalid("materials", "hold no text, only white space or control characters")
    return list(cuts.values())


def _require_few(passages: int, most: int) -> None:
    if passages > most:
        raise invalid(
            "materials",
            f"have more than {most:,} passages, which blank lines part: bring"
            " them in several calls with one task_id, and ask with scope task",
        )
