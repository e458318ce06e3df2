"""`contribute_trace` of what stands already: answered with that, and nothing is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.tool_calls import call, call_error, call_result
from tests.support.trace_set import trace_set
from tests.support.traces import FIELDS, SPAM, contribute, found, sample, stored, votes

if TYPE_CHECKING:
    from shared.runtime.context import App

pytestmark = pytest.mark.anyio

NUMBER = 2
"""The sample that is copied."""


def other(kind: str, name: str) -> dict[str, Any]:
    """A text that is like a sample."""
    [text] = [each for each in trace_set()[kind] if each["id"] == name]
    return {field: text[field] for field in FIELDS}


COPY = other("duplicates", "e03")
SIBLING = other("siblings", "s03")


async def test_an_edited_copy_is_answered_with_the_trace_that_stands(app: App) -> None:
    trace_id = await contribute(app, NUMBER)
    before = await stored(app, "trace_lexicon")
    answer = await call(app, "contribute_trace", "ben", **COPY)
    assert answer.result
    told = (answer.result["trace_id"], answer.result["duplicate"], answer.result["title"])
    assert (trace_id, True, sample(NUMBER)["title"]) == told
    assert "undo" not in answer.result
    assert str(answer.text).startswith("Nothing was stored")
    assert trace_id in str(answer.text)
    assert [trace_id] == list(await stored(app, "traces"))
    assert before == await stored(app, "trace_lexicon")


async def test_another_solution_is_stored_and_the_like_is_named(app: App) -> None:
    trace_id = await contribute(app, NUMBER)
    answer = await call(app, "contribute_trace", "ben", **SIBLING)
    assert answer.result
    assert not answer.result["duplicate"]
    assert [trace_id] == [each["trace_id"] for each in answer.result["similar"]]
    assert trace_id in str(answer.text)
    assert 2 == len(await stored(app, "traces"))


async def test_what_was_withdrawn_does_not_stand(app: App) -> None:
    trace_id = await contribute(app, NUMBER)
    await call_result(app, "withdraw_trace", trace_id=trace_id)
    for user in ("ben", "anna"):
        result = await call_result(app, "contribute_trace", user, **COPY)
        assert trace_id != result["trace_id"]
        assert trace_id not in str(result["similar"])


async def test_a_copy_may_take_the_place_of_what_it_copies(app: App) -> None:
    trace_id = await contribute(app, NUMBER)
    result = await call_result(app, "contribute_trace", **COPY, supersedes=trace_id)
    assert (False, []) == (result["duplicate"], result["similar"])
    assert [result["trace_id"]] == await found(app, query=COPY["title"])


async def test_a_copy_of_a_replaced_trace_is_not_answered_with_it(
    app: App,
) -> None:
    old = await contribute(app, NUMBER)
    await contribute(app, 20, supersedes=old)
    result = await call_result(app, "contribute_trace", "ben", **COPY)
    assert old != result["trace_id"]


async def test_a_copy_of_what_is_flagged_is_told_so(app: App) -> None:
    trace_id = await contribute(app, NUMBER)
    await votes(app, trace_id, 2, **SPAM)
    answer = await call(app, "contribute_trace", "ben", **COPY)
    assert answer.result
    assert answer.result["duplicate"]
    assert "Voters warn of that trace" in str(answer.text)


async def test_the_owner_of_the_original_is_not_sent_to_vote_for_it(app: App) -> None:
    await contribute(app, NUMBER)
    answer = await call(app, "contribute_trace", **COPY)
    assert "amend_trace" in str(answer.text)
    assert "vote_trace" not in str(answer.text)


async def test_a_key_is_answered_alike_whether_or_not_it_was_stored(
    app: App,
) -> None:
    await contribute(app, NUMBER)
    asked = COPY | {"idempotency_key": "k"}
    first, again = [await call(app, "contribute_trace", "ben", **asked) for _ in range(2)]
    assert (first.result, True) == (again.result, again.receipt.replayed)


async def test_whoever_names_what_it_replaces_can_insist(app: App) -> None:
    """Where two that say the same stand, naming one is not answered with the other."""
    first = await contribute(app)
    second = await contribute(app, 0, "ben", supersedes=first)
    third = await call_result(app, "contribute_trace", "carl", **sample(0, supersedes=second))
    assert not third["duplicate"]
    assert {first} == {each["trace_id"] for each in third["similar"]}


async def test_a_trace_contributed_again_is_not_put_back_beside_it(
    app: App,
) -> None:
    first = await contribute(app)
    await call_result(app, "withdraw_trace", trace_id=first)
    second = await contribute(app)
    error = await call_error(app, "withdraw_trace", trace_id=first, withdrawn=False)
    assert ("CONFLICT", {"duplicate": second}) == (error.code, error.details)
    await call_result(app, "withdraw_trace", trace_id=second)
    assert (await call_result(app, "withdraw_trace", trace_id=first, withdrawn=False))["changed"]


async def test_no_trace_is_amended_into_another(app: App) -> None:
    mine, other = await contribute(app), await contribute(app, 1, "ben")
    error = await call_error(app, "amend_trace", trace_id=mine, **sample(1))
    assert ("CONFLICT", {"duplicate": other}) == (error.code, error.details)
    amended = {"solution_text": f"{sample(0)['solution_text']} That is all."}
    assert (await call_result(app, "amend_trace", trace_id=mine, **amended))["changed"]
