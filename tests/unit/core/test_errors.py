"""The error tree, and what of it crosses the wire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from shared.core import errors
from shared.core.errors import CarrelError, http_status
from shared.runtime.messages import WireError

if TYPE_CHECKING:
    from collections.abc import Iterator


def leaves(root: type[CarrelError]) -> Iterator[type[CarrelError]]:
    """The kinds of this module that have no kinds below them in it."""
    below = [kind for kind in root.__subclasses__() if kind.__module__ == errors.__name__]
    for kind in below:
        yield from leaves(kind)
    if not below:
        yield root


LEAVES = sorted(leaves(CarrelError), key=lambda kind: kind.__name__)

every_leaf = pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)


@every_leaf
def test_every_kind_has_a_code_and_an_http_status(kind: type[CarrelError]) -> None:
    assert kind.code.isupper()
    assert 400 <= kind.status < 600


def test_no_two_kinds_share_a_code_or_a_status() -> None:
    assert len({kind.code for kind in LEAVES}) == len(LEAVES)
    assert len({kind.status for kind in LEAVES}) == len(LEAVES)


@every_leaf
def test_every_kind_stands_in_the_drawing_with_its_code(kind: type[CarrelError]) -> None:
    drawn = [line for line in (errors.__doc__ or "").splitlines() if f" {kind.__name__} " in line]
    assert len(drawn) == 1
    assert f" {kind.code}" in drawn[0]


@every_leaf
def test_an_error_crosses_the_wire_whole(kind: type[CarrelError]) -> None:
    sent = kind("Say how.", details={"field": "why"}, retry_after=2.5)
    received = WireError.model_validate_json(json.dumps(sent.to_wire()))
    assert http_status(received.code) == kind.status
    assert received.model_dump() == {
        "code": kind.code,
        "message": "Say how.",
        "details": {"field": "why"},
        "retry_after": 2.5,
    }


@every_leaf
def test_waiting_is_not_mentioned_where_it_does_not_help(kind: type[CarrelError]) -> None:
    body = kind("No.").to_wire()
    assert body == {"code": kind.code, "message": "No.", "details": {}}
    assert WireError.model_validate(body).retry_after is None


def test_a_wait_of_nought_seconds_is_told() -> None:
    assert errors.Unavailable("Now.", retry_after=0).to_wire()["retry_after"] == 0


def test_an_unknown_code_is_a_fault() -> None:
    assert http_status("NEW_IN_A_LATER_VERSION") == 500
