"""Compares the stored postings of a knowledge base with those computed from its chunks.

Postings are the list of chunks for a term or a facet, such as a tag. Each is a document in the
collection `lexicon` or `facets`. Long postings are truncated.
"""

import math
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from google.cloud.firestore import DELETE_FIELD

from shared.core.dates import format_utc_day, to_microseconds
from shared.index.bm25 import pack
from shared.index.facets import Kind, parse_facet_id
from shared.index.postings import IndexCollections, PostingsRef
from shared.knowledge import chunk_repository
from shared.knowledge.chunk import Chunk
from shared.runtime.context import Context
from shared.text.terms import count_terms
from tests.support.knowledge import set_fields
from tests.support.stored_documents import read_chunks, read_documents, read_tombstones

EMPTY: Final = {"documents": 0, "length": 0}
"""The totals of an empty knowledge base: its chunks with terms, and the number of their terms."""


@dataclass
class ExpectedPostings:
    """The postings that a knowledge base must have, by collection and document id.

    Attributes:
        entries: The complete postings, by chunk id. An entry is a packed term frequency and chunk
            length in `lexicon`, and the chunk's date in microseconds in `facets`.
        names: The spellings of each facet in the chunks, such as "Food" and "food".
        totals: The number of chunks with terms, and the number of their terms.
    """

    entries: dict[PostingsRef, dict[str, int]] = field(default_factory=dict)
    names: dict[PostingsRef, set[str]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=lambda: dict(EMPTY))

    def add(self, chunk: Chunk) -> None:
        """Add the entries of a chunk."""
        counts = count_terms(chunk.indexed_text, chunk.title)
        self.totals["documents"] += bool(counts.by_term)
        self.totals["length"] += counts.length
        for term, tf in counts.by_term.items():
            entry = pack(tf, counts.length)
            self.entries.setdefault(("lexicon", term), {})[chunk.chunk_id] = entry
        for facet, name in chunk.facets.items():
            entry = to_microseconds(chunk.dated_at or chunk_repository.UNDATED)
            self.entries.setdefault(("facets", facet.id), {})[chunk.chunk_id] = entry
            self.names.setdefault(("facets", facet.id), set()).add(name)


async def compute_expected_postings(ctx: Context) -> ExpectedPostings:
    """Compute the postings from the stored chunks that are not deleted."""
    expected = ExpectedPostings()
    for chunk_id, data in (await read_chunks(ctx)).items():
        expected.add(chunk_repository.to_chunk(chunk_id, data))
    return expected


async def read_postings(ctx: Context) -> dict[PostingsRef, dict[str, Any]]:
    """Return the fields of all stored postings, by collection and document id."""
    return {
        (collection, name): data
        for collection in ("lexicon", "facets")
        for name, data in (await read_documents(ctx, collection)).items()
    }


async def read_totals(ctx: Context) -> dict[str, int]:
    """Return the stored totals, in the format of `EMPTY`."""
    data = (await read_documents(ctx, "meta")).get("lexicon", {})
    return {name: data.get(name, 0) for name in EMPTY}


async def read_postings_in_use(ctx: Context) -> dict[PostingsRef, dict[str, Any]]:
    """Return the fields of the postings that have chunks, and assert that the others are empty.

    The index job leaves empty postings to the job `repair`.
    """
    stored = await read_postings(ctx)
    assert all(not data["postings"] for data in stored.values() if not data["df"])
    return {name: data for name, data in stored.items() if data["df"]}


async def assert_postings_are_exact(ctx: Context) -> None:
    """Assert that no postings are truncated, and what `assert_postings_are_sound` asserts."""
    expected = await compute_expected_postings(ctx)
    stored = await read_postings_in_use(ctx)
    assert expected.entries == {ref: data["postings"] for ref, data in stored.items()}
    await assert_postings_are_sound(ctx)


async def assert_postings_are_sound(ctx: Context) -> None:
    """Assert that the stored postings agree with the chunks, as even truncated postings must.

    The number of chunks (`df`) is exact, every entry is correct, and a facet's postings have all
    chunks dated `since` or later. No deleted chunk has left a tombstone.
    """
    expected = await compute_expected_postings(ctx)
    stored = await read_postings_in_use(ctx)
    expected_counts = {ref: len(entries) for ref, entries in expected.entries.items()}
    assert {ref: data["df"] for ref, data in stored.items()} == expected_counts
    assert await read_totals(ctx) == expected.totals
    for ref, data in stored.items():
        expected_entries = expected.entries[ref]
        assert data["postings"].items() <= expected_entries.items()
        assert len(data["postings"]) <= data["held"]
        if ref[0] == "facets":
            _assert_sound_facet(ref[1], data, expected_entries)
            assert data["name"] in expected.names[ref] or data["kind"] != Kind.SOURCE
    assert await read_tombstones(ctx) == {}


def _assert_sound_facet(
    facet_id: str, data: dict[str, Any], expected_entries: dict[str, int]
) -> None:
    since = data.get("since", -math.inf)
    recent = {chunk_id for chunk_id, date in expected_entries.items() if date >= since}
    assert recent <= data["postings"].keys()
    facet = parse_facet_id(facet_id, data["name"])
    assert (data["kind"], data["key"]) == (facet.kind, facet.key)
    assert facet.id == facet_id
    if facet.kind is Kind.MONTH:
        expected_days = Counter(format_utc_day(date) for date in expected_entries.values())
        assert {day: count for day, count in data["days"].items() if count} == expected_days


async def damage_postings(
    ctx: Context, generator: random.Random, names: IndexCollections, limit: int = 15
) -> None:
    """Damage or delete up to `limit` postings, add false ones, and damage the totals."""
    stored = {
        f"{collection}/{name}": data
        for collection in (names.lexicon, names.facets)
        for name, data in (await read_documents(ctx, collection)).items()
    }
    for path in generator.sample(sorted(stored), min(len(stored), limit)):
        data = stored[path]
        document_id = generator.choice(sorted(data.get("postings", {})) or ["nobody"])
        damages: list[dict[str, Any]] = [
            {"df": data.get("df", 0) + generator.choice([-1, 1, 40])},
            {"postings": {document_id: DELETE_FIELD}},
            {"postings": {document_id: 7}},
            {"postings": {"nobody": 8}},
            {"postings": DELETE_FIELD, "df": DELETE_FIELD},
            {"held": 0},
            {"held": DELETE_FIELD, "name": "somebody", "since": 2**62},
        ]
        if damage := generator.choice([None, *damages]):
            await set_fields(ctx, path, damage)
        else:
            await ctx.database.connection.client.document(path).delete()
    false_postings = {"df": 2, "postings": {"nobody": 9}, "held": 1}
    collection = generator.choice([names.lexicon, names.facets])
    await set_fields(ctx, f"{collection}/tag:nothing", false_postings)
    false_totals = {"documents": generator.randrange(5), "length": DELETE_FIELD}
    await set_fields(ctx, f"meta/{names.lexicon}", false_totals)
