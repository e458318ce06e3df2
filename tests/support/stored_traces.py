"""What the database holds of traces, beside what it must hold: made from scratch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from shared.core.dates import to_microseconds
from shared.index.bm25 import pack
from shared.index.facets import parse_facet_id
from shared.index.indexed_state import read_indexed_state
from shared.text.terms import terms
from shared.traces.repository import to_trace
from shared.traces.trust import FeedbackTag, Vote, VoteTally, VoteType
from tests.support.traces import stored

if TYPE_CHECKING:
    from shared.index.postings import PostingsRef
    from shared.runtime.context import App


async def assert_exact(app: App) -> None:
    """The lists are those made from scratch of what is neither withdrawn nor replaced."""
    wanted: dict[PostingsRef, dict[str, int]] = {}
    totals = Counter({"documents": 0, "length": 0})
    for trace_id, data in (await stored(app, "traces")).items():
        trace = to_trace(trace_id, data)
        if not trace.is_listed:
            assert ([], {}) == (data["facets"], data["indexed"]["terms"])
            assert not {"embedding", "dated_at"} & data.keys()
            continue
        counts = Counter(terms(trace.indexed_text))
        assert counts == read_indexed_state(data).terms
        assert [f"id:{trace_id}", *(f"tag:{tag}" for tag in trace.content.tags)] == data["facets"]
        totals += Counter(documents=bool(counts), length=counts.total())
        for term, tf in counts.items():
            entry = pack(tf, counts.total())
            wanted.setdefault(("trace_lexicon", term), {})[trace_id] = entry
        for tag in trace.content.tags:
            entry = to_microseconds(trace.updated_at)
            wanted.setdefault(("trace_facets", f"tag:{tag}"), {})[trace_id] = entry
    lists = {
        (collection, name): data
        for collection in ("trace_lexicon", "trace_facets")
        for name, data in (await stored(app, collection)).items()
    }
    held = {name: data["postings"] for name, data in lists.items() if data["postings"]}
    assert wanted == held
    assert {name: len(wanted.get(name, {})) for name in lists} == {
        name: data["df"] for name, data in lists.items()
    }
    assert all(len(data["postings"]) <= data["held"] for data in lists.values())
    kept = (await stored(app, "meta")).get("trace_lexicon", {})
    assert {name: totals[name] for name in ("documents", "length")} == (
        {"documents": 0, "length": 0} | kept
    )
    for (collection, name), data in lists.items():
        if collection == "trace_facets":
            facet = parse_facet_id(name, data["name"])
            assert (facet.id, "tag", facet.key) == (name, data["kind"], data["key"])


async def ballots(app: App, trace_id: str) -> dict[str, dict[str, Any]]:
    """The votes on a trace as they are stored, by who voted."""
    return await stored(app, f"traces/{trace_id}/votes")


def summed(votes: dict[str, dict[str, Any]], revision: int) -> VoteTally:
    """What the votes for the texts of a revision, and all votes against, add up to."""
    tally = VoteTally()
    for data in votes.values():
        if data["revision"] == revision or data["vote"] == "down":
            tag = FeedbackTag(data["tag"]) if data["tag"] else None
            tally = tally.plus(Vote(VoteType(data["vote"]), tag, data["weight"]))
    return tally


async def assert_sums(app: App) -> None:
    """Every trace's sums are those of its votes, and every record that of its contributor's."""
    records: dict[str, Counter[str]] = {}
    for trace_id, data in (await stored(app, "traces")).items():
        cast = await ballots(app, trace_id)
        assert summed(cast, data["text_revision"]) == VoteTally(**data["tally"])
        heads = Counter(each["vote"] for each in cast.values())
        records[data["contributor"]] = records.get(data["contributor"], Counter()) + heads
    kept = await stored(app, "contributors")
    for user in records.keys() | kept.keys():
        assert {"up": records[user]["up"], "down": records[user]["down"]} == (
            {"up": 0, "down": 0} | kept.get(user, {})
        )
