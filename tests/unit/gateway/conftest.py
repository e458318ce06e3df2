"""Fixtures of the gateway's tests: a tool that exists only for them, and a call of it."""

import time

import pytest

from functions.gateway.catalog import Declaration
from shared.core.caller import Caller
from shared.runtime.messages import CallRequest
from tests.support.fake_catalog import make_tool


@pytest.fixture
def declaration() -> Declaration:
    """A tool with a timeout that no call reaches, even on a busy machine."""
    return make_tool("try_out", timeout=40)


@pytest.fixture
def call_request(declaration: Declaration) -> CallRequest:
    """A call of `declaration` that begins now."""
    deadline = time.time() + declaration.timeout
    return CallRequest(call_id="c-1", arguments={}, caller=Caller(), deadline=deadline)
