"""Arguments that no tool accepts are rejected before the call is dispatched or charged."""

import math
from typing import Any

import pytest

from functions.gateway.auth.visitor import Visitor
from functions.gateway.calls.arguments import MAX_DEPTH, check_arguments
from shared.core.caller import Caller
from shared.runtime.tool import Effect
from tests.support.fake_catalog import FakeDispatcher, make_pipeline, make_tool

TOOL = make_tool("try_out")
NOT_FINITE = "not a finite number"
TOO_DEEP = f"lists and objects nested more than {MAX_DEPTH} levels deep"


def make_nested(depth: int) -> Any:
    """Return a number inside `depth` nested lists."""
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def get_error_details(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the problems of arguments by their path; None if there are none."""
    error = check_arguments("try_out", arguments)
    return error.details if error else None


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_number_that_is_not_finite_is_named_by_its_path(number: float) -> None:
    arguments = {"a": number, "b": {"c": [1.5, {"d": number}]}, "e": 1e308}
    assert get_error_details(arguments) == {"a": NOT_FINITE, "b.c.1.d": NOT_FINITE}


def test_nesting_is_limited_and_the_first_twenty_bad_values_are_named() -> None:
    assert get_error_details({"a": make_nested(MAX_DEPTH)}) is None
    for depth in (MAX_DEPTH + 1, 100_000):  # deeper than the stack
        assert get_error_details({"a": make_nested(depth), "b": 1}) == {"a": TOO_DEEP}
    assert len(get_error_details({"a": [math.inf] * 10_000}) or {}) == 20


@pytest.mark.parametrize(
    ("value", "problem"), [(math.inf, NOT_FINITE), (make_nested(900), TOO_DEEP)]
)
async def test_invalid_arguments_reach_no_tool(value: Any, problem: str) -> None:
    dispatcher = FakeDispatcher(lambda *_: {})
    visitor = Visitor(Caller.of("anna"), None)
    answer = await make_pipeline(dispatcher).call(TOOL, {"filter": value}, visitor)
    assert answer.error
    assert answer.error.code == "VALIDATION_ERROR"
    assert answer.error.details == {"filter": problem}
    assert f"filter: {problem}. Correct this and call try_out again." in answer.error.message
    assert dispatcher.calls == []


@pytest.mark.parametrize("effect", Effect)
async def test_only_a_reading_tool_is_called_without_what_is_empty(effect: Effect) -> None:
    dispatcher = FakeDispatcher(lambda *_: {})
    tool = make_tool("try_out", effect=effect)
    await make_pipeline(dispatcher).call(tool, {"filter": ""}, Visitor(Caller.of("anna"), None))
    [(_, arguments)] = dispatcher.calls
    assert arguments == ({} if effect is Effect.READ else {"filter": ""})
