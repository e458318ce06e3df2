"""`contribute_trace` of a duplicate stores nothing, and with `supersedes` replaces a trace.

A trace is a solved coding problem that users share. A duplicate solves the same problem in the same
way. The words may differ. A user's own trace is hidden from search while it has a successor.
Another user's trace stays.
"""

import asyncio
from typing import Any

import pytest

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.runtime.context import App
from tests.support.apps import Apps
from tests.support.stored_documents import read_app_documents
from tests.support.tool_calls import ANONYMOUS, call, call_error, call_message, call_result
from tests.support.trace_set import read_trace_set
from tests.support.traces import (
    FIELDS,
    SPAM,
    add_votes,
    contribute,
    make_sample_trace,
    search_trace_ids,
)

ORIGINAL = 2
"""The number of the sample that has a copy."""
NEAR = make_sample_trace(
    ORIGINAL, solution_text=f"Do not: {make_sample_trace(ORIGINAL)['solution_text']}"
)
"""The sample, negated."""
COPY = make_sample_trace(ORIGINAL, title=make_sample_trace(ORIGINAL)["title"].upper())
"""The sample in other writing."""
[_SIBLING] = [row for row in read_trace_set()["siblings"] if row["id"] == "s03"]
SIBLING_TRACE = make_sample_trace(
    ORIGINAL, **{field: _SIBLING[field] for field in FIELDS if field in _SIBLING}
)
"""Another solution of the problem of the sample."""


@pytest.mark.requirement("002-T2.1")
async def test_copy_returns_the_existing_trace(app: App) -> None:
    trace_id = await contribute(app, ORIGINAL)
    postings_before = await read_app_documents(app, "trace_lexicon")
    arguments = COPY | {"idempotency_key": "k"}
    answer, repeated = [await call(app, "contribute_trace", "ben", **arguments) for _ in range(2)]
    assert answer.result
    assert answer.result["trace_id"] == trace_id
    assert answer.result["duplicate"] is True
    assert answer.result["title"] == make_sample_trace(ORIGINAL)["title"]
    assert "undo" not in answer.result
    assert answer.result["message"].startswith("Nothing was stored")
    assert repeated.result == answer.result
    assert repeated.receipt.replayed is True
    assert list(await read_app_documents(app, "traces")) == [trace_id]
    assert await read_app_documents(app, "trace_lexicon") == postings_before

    own_message = await call_message(app, "contribute_trace", **COPY)
    assert "amend_trace" in own_message
    assert "vote_trace" not in own_message


async def test_six_calls_at_once_store_one_trace(apps: Apps) -> None:
    opened = [apps() for _ in range(6)]
    results = await asyncio.gather(
        *(call_result(app, "contribute_trace", "ben", **COPY) for app in opened)
    )
    [trace_id] = await read_app_documents(opened[0], "traces")
    assert {result["trace_id"] for result in results} == {trace_id}
    assert sorted(result["duplicate"] for result in results) == [False, *[True] * 5]


@pytest.mark.parametrize("other", [NEAR, SIBLING_TRACE], ids=["negated", "sibling"])
async def test_another_solution_is_stored_and_names_the_similar_one(
    app: App, other: dict[str, Any]
) -> None:
    trace_id = await contribute(app, ORIGINAL)
    answer = await call(app, "contribute_trace", "ben", **other)
    assert answer.result
    assert not answer.result["duplicate"]
    [similar] = answer.result["similar"]
    assert similar["trace_id"] == trace_id
    assert 0 < similar["similarity"] <= 1
    assert len(await read_app_documents(app, "traces")) == 2


async def test_withdrawn_trace_is_not_a_duplicate(app: App) -> None:
    trace_id = await contribute(app, ORIGINAL)
    await call_result(app, "withdraw_trace", trace_id=trace_id)
    for user in ("ben", "anna"):
        result = await call_result(app, "contribute_trace", user, **COPY)
        assert trace_id != result["trace_id"]
        assert trace_id not in str(result["similar"])


async def test_claim_whose_trace_is_gone_is_taken_over(app: App) -> None:
    """The job purge or a person at the database may have deleted the holder."""
    gone_id = await contribute(app, ORIGINAL)
    database = app.context(Caller(), Meter()).database
    await database.connection.client.collection("traces").document(gone_id).delete()
    result = await call_result(app, "contribute_trace", "ben", **COPY)
    assert not result["duplicate"]
    [claim] = (await read_app_documents(app, "claims")).values()
    assert claim["holder"] == result["trace_id"]


async def test_copy_may_supersede_its_original(app: App) -> None:
    trace_id = await contribute(app, ORIGINAL)
    result = await call_result(app, "contribute_trace", **COPY, supersedes=trace_id)
    assert result["duplicate"] is False
    assert result["similar"] == []
    assert await search_trace_ids(app, query=COPY["title"]) == [result["trace_id"]]


async def test_copy_of_a_flagged_trace_is_warned(app: App) -> None:
    trace_id = await contribute(app, ORIGINAL)
    await add_votes(app, trace_id, 2, **SPAM)
    answer = await call(app, "contribute_trace", "ben", **COPY)
    assert answer.result
    assert answer.result["duplicate"]
    assert "Voters warn against that trace" in answer.result["message"]


async def test_supersedes_overrides_other_duplicates(app: App) -> None:
    """Superseding one of two duplicates does not return the other."""
    original_id = await contribute(app)
    successor_id = await contribute(app, 0, "ben", supersedes=original_id)
    arguments = make_sample_trace(0, supersedes=successor_id)
    result = await call_result(app, "contribute_trace", "carl", **arguments)
    assert not result["duplicate"]
    assert {trace["trace_id"] for trace in result["similar"]} == {original_id}


async def test_withdrawn_trace_with_a_copy_cannot_be_restored(app: App) -> None:
    original_id = await contribute(app)
    await call_result(app, "withdraw_trace", trace_id=original_id)
    copy_id = await contribute(app)
    error = await call_error(app, "withdraw_trace", trace_id=original_id, withdrawn=False)
    assert error.code == "CONFLICT"
    assert error.details == {"duplicate": copy_id}

    await call_result(app, "withdraw_trace", trace_id=copy_id)
    result = await call_result(app, "withdraw_trace", trace_id=original_id, withdrawn=False)
    assert result["changed"]


async def test_trace_cannot_be_amended_into_a_duplicate(app: App) -> None:
    own_id = await contribute(app)
    other_id = await contribute(app, 1, "ben")
    error = await call_error(app, "amend_trace", trace_id=own_id, **make_sample_trace(1))
    assert error.code == "CONFLICT"
    assert error.details == {"duplicate": other_id}

    almost_same_text = f"{make_sample_trace(0)['solution_text']} That is all."
    arguments = {"trace_id": own_id, "solution_text": almost_same_text}
    assert (await call_result(app, "amend_trace", **arguments))["changed"]


async def withdraw(app: App, trace_id: str, *, withdrawn: bool = True) -> None:
    """Withdraw a trace; or restore it, if `withdrawn` is false."""
    await call_result(app, "withdraw_trace", trace_id=trace_id, withdrawn=withdrawn)


async def are_found(app: App, *trace_ids: str) -> list[bool]:
    """Return for each trace whether search finds it, by words and by tags alike."""
    ids_by_words = await search_trace_ids(app, query="oranges", limit=50)
    ids_by_tags = await search_trace_ids(app, tags=["orange"], limit=50)
    assert set(ids_by_words) == set(ids_by_tags)
    return [trace_id in ids_by_tags for trace_id in trace_ids]


async def contribute_chain(app: App, length: int) -> list[str]:
    trace_ids: list[str] = []
    for number in range(length):
        arguments = {"supersedes": trace_ids[-1]} if trace_ids else {}
        title = f"Oranges {make_sample_trace(number)['title']}"
        trace_ids.append(await contribute(app, number, title=title, tags=["orange"], **arguments))
    return trace_ids


async def test_superseded_trace_of_the_same_user_is_not_found(app: App) -> None:
    superseded_id, successor_id = await contribute_chain(app, 2)
    assert await are_found(app, superseded_id, successor_id) == [False, True]
    superseded = await call_result(app, "get_trace", ANONYMOUS, trace_id=superseded_id)
    assert superseded["superseded_by"] == successor_id
    successor = await call_result(app, "get_trace", ANONYMOUS, trace_id=successor_id)
    assert successor["supersedes"] == superseded_id

    await withdraw(app, successor_id)
    assert await are_found(app, superseded_id, successor_id) == [True, False]
    trace = await call_result(app, "get_trace", ANONYMOUS, trace_id=superseded_id)
    assert "superseded_by" not in trace
    await withdraw(app, successor_id, withdrawn=False)
    assert await are_found(app, superseded_id, successor_id) == [False, True]


async def test_only_the_last_of_a_chain_is_found(app: App) -> None:
    trace_ids = await contribute_chain(app, 3)
    _, middle, last = trace_ids
    assert await are_found(app, *trace_ids) == [False, False, True]
    await withdraw(app, middle)
    assert await are_found(app, *trace_ids) == [False, False, True]
    restored = await call_result(app, "withdraw_trace", trace_id=middle, withdrawn=False)
    assert restored["superseded_by"] == last
    assert "not found by search" in restored["message"]
    assert await are_found(app, *trace_ids) == [False, False, True]
    await withdraw(app, last)
    assert await are_found(app, *trace_ids) == [False, True, False]
    await withdraw(app, middle)
    assert await are_found(app, *trace_ids) == [True, False, False]
    await withdraw(app, last, withdrawn=False)
    await withdraw(app, middle, withdrawn=False)
    assert await are_found(app, *trace_ids) == [False, False, True]


async def test_superseding_a_trace_again_names_its_successor(app: App) -> None:
    [superseded_id] = await contribute_chain(app, 1)
    successor_id = await contribute(
        app, 1, title="Oranges", tags=["orange"], supersedes=superseded_id
    )
    error = await call_error(
        app, "contribute_trace", **make_sample_trace(2, supersedes=superseded_id)
    )
    assert error.code == "CONFLICT"
    assert list(error.details) == ["supersedes"]
    assert f"is replaced by {successor_id}" in error.message


async def test_superseded_trace_of_another_user_stays(app: App) -> None:
    [superseded_id] = await contribute_chain(app, 1)
    successor_id = await contribute(
        app, 1, "ben", title="Oranges again", tags=["orange"], supersedes=superseded_id
    )
    assert await are_found(app, superseded_id, successor_id) == [True, True]
    superseded = await call_result(app, "get_trace", ANONYMOUS, trace_id=superseded_id)
    assert "superseded_by" not in superseded
    successor = await call_result(app, "get_trace", ANONYMOUS, trace_id=successor_id)
    assert successor["supersedes"] == superseded_id

    await call_result(app, "withdraw_trace", "ben", trace_id=successor_id)
    await call_result(app, "withdraw_trace", "ben", trace_id=successor_id, withdrawn=False)
    assert await are_found(app, superseded_id, successor_id) == [True, True]


async def test_trace_withdrawn_by_another_user_is_not_found(app: App) -> None:
    """The contributor learns that it is withdrawn."""
    [superseded_id] = await contribute_chain(app, 1)
    await withdraw(app, superseded_id)
    arguments = make_sample_trace(1, supersedes=superseded_id)
    error = await call_error(app, "contribute_trace", "ben", **arguments)
    assert error.code == "NOT_FOUND"
    error = await call_error(app, "contribute_trace", **arguments)
    assert error.code == "CONFLICT"
    assert "is withdrawn" in error.message


async def test_own_flagged_trace_cannot_be_superseded(app: App) -> None:
    [superseded_id] = await contribute_chain(app, 1)
    await add_votes(app, superseded_id, 2, **SPAM)
    error = await call_error(
        app, "contribute_trace", **make_sample_trace(1, supersedes=superseded_id)
    )
    assert error.code == "CONFLICT"
    assert "amend it" in error.message


async def test_restoring_a_successor_cannot_hide_a_flagged_trace(app: App) -> None:
    superseded_id, successor_id = await contribute_chain(app, 2)
    await withdraw(app, successor_id)
    await add_votes(app, superseded_id, 2, **SPAM)
    error = await call_error(app, "withdraw_trace", trace_id=successor_id, withdrawn=False)
    assert error.code == "CONFLICT"
    assert error.details == {"supersedes": superseded_id}


async def test_flagged_trace_cannot_be_copied_by_superseding(app: App) -> None:
    flagged_id = await contribute(app)
    other_id = await contribute(app, 1, "ben")
    await add_votes(app, flagged_id, 2, **SPAM)
    result = await call_result(app, "contribute_trace", **make_sample_trace(0, supersedes=other_id))
    assert result["duplicate"] is True
    assert result["trace_id"] == flagged_id
