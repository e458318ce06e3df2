"""Compares the stored postings and tallies of traces with those computed from traces and votes.

A trace is a solved coding problem that users share and vote on. A tally is the sum of its votes.
Postings are the list of traces for a term or tag.
"""

from collections import Counter
from typing import Any

from shared.core.dates import to_microseconds
from shared.index.bm25 import pack
from shared.index.facets import parse_facet_id
from shared.index.indexed_state import read_indexed_state
from shared.index.postings import PostingsRef
from shared.runtime.context import App
from shared.text.terms import count_terms
from shared.traces.repository import to_trace
from shared.traces.trust import FeedbackTag, Vote, VoteTally, VoteType
from tests.support.stored_documents import read_app_documents


async def assert_trace_postings_are_exact(app: App) -> None:
    """Assert that postings and totals equal those computed from the listed traces.

    A trace that is not listed must have nothing that a search could find.
    """
    expected: dict[PostingsRef, dict[str, int]] = {}
    totals = Counter({"documents": 0, "length": 0})
    for trace_id, data in (await read_app_documents(app, "traces")).items():
        trace = to_trace(trace_id, data)
        if not trace.is_listed:
            assert data["facets"] == []
            assert data["indexed"]["terms"] == {}
            assert not {"embedding", "embedding_f16", "dated_at"} & data.keys()
            continue
        counts = count_terms(trace.indexed_text, trace.title)
        assert read_indexed_state(data).terms == counts.by_term
        assert data["facets"] == [f"tag:{tag}" for tag in trace.content.tags]
        totals.update(documents=int(bool(counts.by_term)), length=counts.length)
        for term, tf in counts.by_term.items():
            entry = pack(tf, counts.length)
            expected.setdefault(("trace_lexicon", term), {})[trace_id] = entry
        for tag in trace.content.tags:
            entry = to_microseconds(trace.updated_at)
            expected.setdefault(("trace_facets", f"tag:{tag}"), {})[trace_id] = entry

    await _assert_stored_postings(app, expected)
    stored_totals = (await read_app_documents(app, "meta")).get("trace_lexicon", {})
    assert dict(totals) == {"documents": 0, "length": 0} | stored_totals


async def _assert_stored_postings(app: App, expected: dict[PostingsRef, dict[str, int]]) -> None:
    documents = {
        (collection, name): data
        for collection in ("trace_lexicon", "trace_facets")
        for name, data in (await read_app_documents(app, collection)).items()
    }
    postings = {ref: data["postings"] for ref, data in documents.items() if data["postings"]}
    assert postings == expected
    expected_counts = {ref: len(expected.get(ref, {})) for ref in documents}
    assert {ref: data["df"] for ref, data in documents.items()} == expected_counts
    assert all(len(data["postings"]) <= data["held"] for data in documents.values())
    for (collection, name), data in documents.items():
        if collection == "trace_facets":
            facet = parse_facet_id(name, data["name"])
            assert facet.id == name
            assert data["kind"] == "tag"
            assert data["key"] == facet.key


async def read_votes(app: App, trace_id: str) -> dict[str, dict[str, Any]]:
    """Return the fields of the stored votes on a trace, by voter."""
    return await read_app_documents(app, f"traces/{trace_id}/votes")


def compute_tally(votes: dict[str, dict[str, Any]], revision: int) -> VoteTally:
    """Compute the tally of a revision: the votes on this revision, and all votes "down"."""
    tally = VoteTally()
    for data in votes.values():
        if data["revision"] == revision or data["vote"] == "down":
            tag = FeedbackTag(data["tag"]) if data["tag"] else None
            tally = tally.plus(Vote(VoteType(data["vote"]), tag, data["weight"]))
    return tally


async def assert_tallies_match_votes(app: App) -> None:
    """Assert that all tallies and contributors' records equal the sums of the stored votes."""
    expected_records: dict[str, Counter[str]] = {}
    for trace_id, data in (await read_app_documents(app, "traces")).items():
        votes = await read_votes(app, trace_id)
        assert VoteTally(**data["tally"]) == compute_tally(votes, data["text_revision"])
        counts = Counter(vote["vote"] for vote in votes.values())
        expected_records.setdefault(data["contributor"], Counter()).update(counts)
    records = await read_app_documents(app, "contributors")
    for user in expected_records.keys() | records.keys():
        expected_record = {kind: expected_records[user][kind] for kind in ("up", "down")}
        assert {"up": 0, "down": 0} | records.get(user, {}) == expected_record
