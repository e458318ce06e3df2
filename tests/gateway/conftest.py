"""What the gateway's tests share: one tool that exists only for them, and a call of it."""

from __future__ import annotations

import time

import pytest

from functions.gateway.catalog import Declaration
from shared.call import CallRequest
from shared.caller import Caller, Tier
from shared.tool import Effect


@pytest.fixture
def declaration() -> Declaration:
    """A tool that has little time."""
    return Declaration(
        name="try_out",
        title="Try out",
        description="Exists for tests.",
        inputSchema={"type": "object"},
        outputSchema={"type": "object"},
        effect=Effect.READ,
        tier=Tier.PUBLIC,
        timeout=0.3,
    )


@pytest.fixture
def call_request(declaration: Declaration) -> CallRequest:
    """A call of it that begins now."""
    deadline = time.time() + declaration.timeout
    return CallRequest(call_id="c-1", arguments={}, caller=Caller(), deadline=deadline)
