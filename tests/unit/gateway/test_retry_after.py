"""Refusals that never reach the protocol say when to come again: rather too late than too early."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request

from functions.gateway.http_errors import error_response
from functions.gateway.oauth.consent_page import message_page
from functions.gateway.oauth.http import oauth_error_response
from shared.core.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from shared.core.errors import CarrelError

ANSWERS = {
    "MCP": error_response,
    "OAuth": lambda error: oauth_error_response(Request({"type": "http"}), error),
    "a page": lambda error: message_page("Sign in", error),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_who_comes_again_when_told_to_comes_late_enough(
    answer: Callable[[CarrelError], Response],
) -> None:
    told = [answer(Unavailable("Later.", retry_after=wait)) for wait in (0.2, 4.0, 4.4)]
    assert ["1", "4", "5"] == [each.headers["retry-after"] for each in told]
    assert "retry-after" not in answer(NotFound("Never.")).headers
