"""Each error has a code, an HTTP status and a wire form, the JSON that callers receive."""

import json
from collections.abc import Iterator

import pytest

from shared.core import errors
from shared.core.errors import CarrelError, get_http_status
from shared.runtime.messages import WireError


def find_leaves(root: type[CarrelError]) -> Iterator[type[CarrelError]]:
    """Yield the errors of the module that have no subclasses in it."""
    subclasses = [kind for kind in root.__subclasses__() if kind.__module__ == errors.__name__]
    for subclass in subclasses:
        yield from find_leaves(subclass)
    if not subclasses:
        yield root


LEAVES = sorted(find_leaves(CarrelError), key=lambda kind: kind.__name__)


def test_every_error_has_a_code_and_a_status_of_its_own() -> None:
    assert all(kind.code.isupper() and 400 <= kind.status < 600 for kind in LEAVES)
    assert len({kind.code for kind in LEAVES}) == len(LEAVES)
    assert len({kind.status for kind in LEAVES}) == len(LEAVES)


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_an_error_is_documented_and_has_a_wire_form(kind: type[CarrelError]) -> None:
    lines = (errors.__doc__ or "").splitlines()
    [line] = [line for line in lines if f" {kind.__name__} " in line]
    assert f" {kind.code}" in line

    bare = kind("No.").to_wire()
    assert bare == {"code": kind.code, "message": "No.", "details": {}}
    assert WireError.model_validate(bare).retry_after is None

    error = kind("Say how.", details={"field": "why"}, retry_after=0)
    wire_error = WireError.model_validate_json(json.dumps(error.to_wire()))
    assert get_http_status(wire_error.code) == kind.status
    assert wire_error.model_dump() == {
        "code": kind.code,
        "message": "Say how.",
        "details": {"field": "why"},
        "retry_after": 0,
    }


def test_an_unknown_code_is_an_internal_error() -> None:
    assert get_http_status("NEW_IN_A_LATER_VERSION") == 500
