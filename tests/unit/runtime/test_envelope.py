"""An envelope gives the answers of a family of tools the same shape and error codes."""

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


def translate_error(code: str, **details: Any) -> dict[str, Any]:
    """Return an error in the form of the family."""
    return FAMILY.translate_error(WireError(code=code, message="No.", details=details))


def test_success_has_data_and_no_error() -> None:
    assert FAMILY.wrap_result({"a": 1}) == {"success": True, "data": {"a": 1}, "error": None}


def test_failure_has_an_error_and_no_data() -> None:
    answer = FAMILY.wrap_error(WireError(code="NOT_FOUND", message="No.", details={}))
    error = {"code": "gone", "message": "No.", "details": {}}
    assert answer == {"success": False, "data": None, "error": error}


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
def test_an_invalid_field_can_have_a_code_of_its_own(fields: list[str], code: str) -> None:
    assert translate_error("VALIDATION_ERROR", **dict.fromkeys(fields, "wrong"))["code"] == code


def test_field_codes_are_for_validation_errors_only() -> None:
    assert translate_error("NOT_FOUND", colour="red")["code"] == "gone"


def test_another_error_keeps_its_code_as_the_reason() -> None:
    error = translate_error("RATE_LIMITED", tool="a")
    assert error["code"] == "broken"
    assert error["details"] == {"tool": "a", "reason": "RATE_LIMITED"}


def test_an_errors_retry_after_is_kept() -> None:
    wire = WireError(code="UNAVAILABLE", message="No.", details={}, retry_after=5)
    assert FAMILY.translate_error(wire)["retry_after"] == 5
