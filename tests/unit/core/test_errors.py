"""Each error has a code, an HTTP status and a wire form, the JSON that callers receive."""

from __future__ import annotations

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

every_leaf = pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)


@every_leaf
def test_every_error_has_a_code_and_an_http_status(kind: type[CarrelError]) -> None:
    assert kind.code.isupper()
    assert 400 <= kind.status < 600


def test_no_two_errors_share_a_code_or_a_status() -> None:
    assert len({kind.code for kind in LEAVES}) == len(LEAVES)
    assert len({kind.status for kind in LEAVES}) == len(LEAVES)


@every_leaf
def test_the_docstring_lists_every_error_with_its_code(kind: type[CarrelError]) -> None:
    lines = (errors.__doc__ or "").splitlines()
    [line] = [line for line in lines if f" {kind.__name__} " in line]
    assert f" {kind.code}" in line


@every_leaf
def test_the_wire_form_has_all_attributes(kind: type[CarrelError]) -> None:
    error = kind("Say how.", details={"field": "why"}, retry_after=2.5)
    wire_error = WireError.model_validate_json(json.dumps(error.to_wire()))
    assert get_http_status(wire_error.code) == kind.status
    assert wire_error.model_dump() == {
        "code": kind.code,
        "message": "Say how.",
        "details": {"field": "why"},
        "retry_after": 2.5,
    }


@every_leaf
def test_an_error_without_a_wait_has_no_retry_after(kind: type[CarrelError]) -> None:
    body = kind("No.").to_wire()
    assert body == {"code": kind.code, "message": "No.", "details": {}}
    assert WireError.model_validate(body).retry_after is None


def test_a_wait_of_zero_seconds_is_kept() -> None:
    assert errors.Unavailable("Now.", retry_after=0).to_wire()["retry_after"] == 0


def test_an_unknown_code_is_an_internal_error() -> None:
    assert get_http_status("NEW_IN_A_LATER_VERSION") == 500
