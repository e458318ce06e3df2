"""Runs the scenarios of the conformance suite against gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.e2e.conformance.suite import Outcome, Suite
from tests.support.gateway_process import INLINE_MAIN, run_gateway
from tests.support.knowledge import BAKING, SAILING, store_sources

REVISIONS: Final = ("2025-11-25", "2026-07-28")
"""The last revision with a handshake, and the stateless revision."""
SCENARIOS: Final = (
    "server-initialize",
    "server-stateless",
    "ping",
    "tools-list",
    "resources-list",
    "sep-2164-resource-not-found",
    "prompts-list",
    "completion-complete",
    "caching",
    "http-header-validation",
    "dns-rebinding-protection",
)
SUITE_SCENARIOS: Final = frozenset({"server-stateless", "completion-complete"})
"""The scenarios that use the tools or the prompt of the suite."""
_SUITE_GATEWAY: Final = Path(__file__).with_name("gateway_main.py")


@dataclass(frozen=True, slots=True)
class Gateways:
    """The endpoints of the gateways under test.

    Attributes:
        carrel: The gateway with Carrel's tools and a small knowledge base.
        suite: The gateway with the tools and the prompt of the suite.
    """

    carrel: str
    suite: str


@contextmanager
def serve_gateways(project: str, log: Path) -> Iterator[Gateways]:
    """Serve both gateways until the block ends.

    Args:
        project: The Google Cloud project that gets a small knowledge base.
        log: The file to which the gateways log.
    """
    asyncio.run(_fill_project(project))
    environment = {"GOOGLE_CLOUD_PROJECT": project}
    with (
        run_gateway(INLINE_MAIN, environment, log) as carrel,
        run_gateway(_SUITE_GATEWAY, {}, log) as suite,
    ):
        yield Gateways(carrel.endpoint, suite.endpoint)


def run_all(suite: Suite, under_test: Gateways) -> dict[str, list[Outcome]]:
    """Run every scenario at every revision; return its outcomes in the order of the revisions."""
    endpoints = {
        name: under_test.suite if name in SUITE_SCENARIOS else under_test.carrel
        for name in SCENARIOS
    }
    return {
        name: [suite.run(name, revision, endpoint) for revision in REVISIONS]
        for name, endpoint in endpoints.items()
    }


async def _fill_project(project: str) -> None:
    app = App(Settings(google_cloud_project=project))
    try:
        await store_sources(app.context(Caller(), Meter()), BAKING, SAILING)
    finally:
        await app.aclose()
