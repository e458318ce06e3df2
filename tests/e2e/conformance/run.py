"""Which scenarios there are, against which gateway each runs, and running them all."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shared.core.caller import Caller
from shared.core.meter import Meter
from shared.core.settings import Settings
from shared.runtime.context import App
from tests.support.gateway_process import INLINE, run_gateway
from tests.support.knowledge import BAKING, SAILING, store_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conformance.suite import Outcome, Suite

REVISIONS: Final = ("2025-11-25", "2026-07-28")
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
OF_THE_SUITE: Final = frozenset({"server-stateless", "completion-complete"})
"""The scenarios that ask for tools or prompts of the suite's own."""
_SUITE_GATEWAY: Final = Path(__file__).with_name("gateway_main.py")


@dataclass(frozen=True, slots=True)
class Gateways:
    """Where the gateways under test answer.

    Attributes:
        ours: The endpoint of the gateway with all that is ours, over a small knowledge base.
        of_the_suite: That of the gateway with the suite's own tools and prompt.
    """

    ours: str
    of_the_suite: str


@contextmanager
def gateways(project: str, log: Path) -> Iterator[Gateways]:
    """Serve both gateways until the block ends.

    Args:
        project: The Google Cloud project to put a small knowledge base into.
        log: Where they log.
    """
    asyncio.run(_fill(project))
    environment = {"GOOGLE_CLOUD_PROJECT": project}
    with (
        run_gateway(INLINE, environment, log) as ours,
        run_gateway(_SUITE_GATEWAY, {}, log) as of_the_suite,
    ):
        yield Gateways(ours.endpoint, of_the_suite.endpoint)


def run_all(suite: Suite, under_test: Gateways) -> dict[str, list[Outcome]]:
    """Run every scenario at every revision; return each one's outcomes, in that order."""
    endpoints = {
        name: under_test.of_the_suite if name in OF_THE_SUITE else under_test.ours
        for name in SCENARIOS
    }
    return {
        name: [suite.run(name, revision, endpoint) for revision in REVISIONS]
        for name, endpoint in endpoints.items()
    }


async def _fill(project: str) -> None:
    app = App(Settings(google_cloud_project=project))
    try:
        await store_sources(app.context(Caller(), Meter()), BAKING, SAILING)
    finally:
        await app.aclose()
