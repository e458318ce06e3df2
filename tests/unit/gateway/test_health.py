"""`/health` tells the truth, but does not look at every request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request

from functions.gateway.app import Health

if TYPE_CHECKING:
    from functions.gateway.catalog import Declaration
    from shared.runtime.messages import CallAnswer, CallRequest

pytestmark = pytest.mark.anyio

REQUEST = Request({"type": "http"})


class Dying:
    """A dispatcher whose one part is well at the first look, and never again."""

    looks = 0

    async def call(self, tool: Declaration, request: CallRequest) -> CallAnswer:
        raise AssertionError((tool, request))

    async def health(self) -> dict[str, str]:
        self.looks += 1
        return {"part": "ok" if self.looks == 1 else "unreachable"}


async def test_good_news_is_told_again_without_a_look() -> None:
    dispatcher = Dying()
    health = Health(dispatcher, good=60)
    answers = [await health.answer(REQUEST) for _ in range(3)]
    assert ([each.status_code for each in answers], dispatcher.looks) == ([200, 200, 200], 1)


async def test_a_part_that_died_is_noticed_however_often_somebody_asks() -> None:
    health = Health(Dying(), good=0.2)
    deadline = time.monotonic() + 60
    while (await health.answer(REQUEST)).status_code == 200:
        assert time.monotonic() < deadline


async def test_bad_news_is_told_again_without_a_look_too() -> None:
    dispatcher = Dying()
    dispatcher.looks = 1
    health = Health(dispatcher, bad=60)
    answers = [await health.answer(REQUEST) for _ in range(3)]
    assert ([each.status_code for each in answers], dispatcher.looks) == ([503, 503, 503], 2)
