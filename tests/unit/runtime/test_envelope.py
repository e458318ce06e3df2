"""Answers in a family's own shape."""

from __future__ import annotations

from typing import Any

import pytest

from shared.runtime.envelope import Envelope
from shared.runtime.messages import WireError

FAMILY = Envelope(
    codes={"VALIDATION_ERROR": "bad", "NOT_FOUND": "gone"},
    fields={"colour": "bad_colour", "day": "bad_day", "last_day": "bad_day"},
    other="broken",
)


def told(code: str, **details: Any) -> dict[str, Any]:
    return FAMILY.error(WireError(code=code, message="No.", details=details))


def test_success_holds_the_data_and_says_that_there_is_no_error() -> None:
    assert {"success": True, "data": {"a": 1}, "error": None} == FAMILY.answer({"a": 1})


def test_a_refusal_holds_no_data() -> None:
    refusal = FAMILY.refusal(WireError(code="NOT_FOUND", message="No.", details={}))
    error = {"code": "gone", "message": "No.", "details": {}}
    assert {"success": False, "data": None, "error": error} == refusal


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        (["colour"], "bad_colour"),
        (["things.3.colour"], "bad_colour"),
        (["day", "last_day"], "bad_day"),
        (["day", "colour"], "bad"),
        (["colour", "size"], "bad"),
        (["size"], "bad"),
        ([], "bad"),
    ],
)
def test_what_is_wrong_with_one_field_has_a_code_of_its_own(fields: list[str], code: str) -> None:
    assert code == told("VALIDATION_ERROR", **dict.fromkeys(fields, "wrong"))["code"]


def test_a_field_of_that_name_in_another_error_means_nothing() -> None:
    assert "gone" == told("NOT_FOUND", colour="red")["code"]


def test_an_error_unknown_to_the_family_keeps_its_own_code() -> None:
    error = told("RATE_LIMITED", tool="a")
    assert ("broken", {"tool": "a", "reason": "RATE_LIMITED"}) == (error["code"], error["details"])


def test_when_to_come_again_stays() -> None:
    wire = WireError(code="UNAVAILABLE", message="No.", details={}, retry_after=5)
    assert 5 == FAMILY.error(wire)["retry_after"]
