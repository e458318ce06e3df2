"""An envelope gives the answers of a family of tools the same shape and error codes."""

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


def test_an_answer_has_either_data_or_an_error() -> None:
    assert FAMILY.wrap_result({"a": 1}) == {"success": True, "data": {"a": 1}, "error": None}
    answer = FAMILY.wrap_error(WireError(code="NOT_FOUND", message="No.", details={}))
    error = {"code": "gone", "message": "No.", "details": {}}
    assert answer == {"success": False, "data": None, "error": error}


def test_another_error_keeps_its_code_as_the_reason() -> None:
    error = WireError(code="RATE_LIMITED", message="No.", details={"tool": "a"}, retry_after=5)
    assert FAMILY.translate_error(error) == {
        "code": "broken",
        "message": "No.",
        "details": {"tool": "a", "reason": "RATE_LIMITED"},
        "retry_after": 5,
    }
    # A field has a code of its own only if the arguments are invalid.
    assert translate_error("NOT_FOUND", colour="red")["code"] == "gone"


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
